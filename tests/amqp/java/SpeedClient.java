import java.util.concurrent.CountDownLatch;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Prints how many messages of 1 KB a second are sent and received: `asynchronous`, `consumed` and `synchronous`. */
public class SpeedClient {
    static final String URL = System.getProperty("url"), QUEUE = System.getProperty("queue");
    static final int COUNT = Integer.getInteger("count"), WARM = Integer.getInteger("warm"), SENDERS = 4;

    private static Connection connect(String options) throws Exception {
        Connection made = new JmsConnectionFactory(URL + options).createConnection();
        made.start();
        return made;
    }

    private static BytesMessage message(Session session) throws Exception {
        BytesMessage made = session.createBytesMessage();
        made.writeBytes(new byte[1024]);
        made.setStringProperty("region", "EU");
        made.setIntProperty("number", 1);
        return made;
    }

    private static void send(int count, boolean isAsynchronous) throws Exception {
        try (Connection connection = connect(isAsynchronous ? "?jms.forceAsyncSend=true" : "?jms.forceSyncSend=true")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(QUEUE));
            for (int number = 0; number < count; number++) producer.send(message(session));
            producer.close();  // once everything is settled
        }
    }

    private static void receive(int count) throws Exception {
        try (Connection connection = connect("")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(QUEUE);
            MessageConsumer consumer = session.createConsumer(queue);
            for (int number = 0; number < count; number++)
                if (consumer.receive(60_000) == null) throw new IllegalStateError(number + " came of " + count);
        }
    }

    private static void sendSideBySide(int count) throws Exception {
        CountDownLatch left = new CountDownLatch(SENDERS);
        for (int sender = 0; sender < SENDERS; sender++)
            new Thread(() -> {
                try {
                    send(count / SENDERS, false);
                    left.countDown();
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            }).start();
        left.await();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void measure(String what, int count, Work work) throws Exception {
        long begin = System.nanoTime();
        work.run();
        System.out.printf("%s %.0f%n", what, count * 1e9 / (System.nanoTime() - begin));
    }

    public static void main(String[] arguments) throws Exception {
        send(WARM, true);
        receive(WARM);
        int few = WARM / 40 * SENDERS, some = COUNT / 16 * SENDERS;
        sendSideBySide(few);
        receive(few);
        measure("asynchronous", COUNT, () -> send(COUNT, true));
        measure("consumed", COUNT, () -> receive(COUNT));
        measure("synchronous", some, () -> sendSideBySide(some));
        receive(some);
        System.exit(0);
    }

    private static class IllegalStateError extends RuntimeException {
        IllegalStateError(String text) {
            super(text);
        }
    }
}
