import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Sends numbered messages of several units, and receives them with consumers of which half acknowledge and half commit,
 * while servers are killed: each must come, and where one comes first all before it in its unit have come. One of ten
 * is rolled back or rejected whenever it comes. With a batch all commit, so many at a time, with a result of each.
 */
public class FailoverClient {
    static final String URL = System.getProperty("url"), QUEUE = System.getProperty("queue");
    static final int UNITS = Integer.getInteger("units"), EACH = Integer.getInteger("each");
    static final int CONSUMERS = Integer.getInteger("consumers");
    static final long PAUSE = Long.getLong("pause"), LIMIT = Long.getLong("limit");

    /** Of single servers: half of those who commit batches are at each. */
    static final String[] URLS = System.getProperty("urls").split(" ");
    static final int BATCH = Integer.getInteger("batch", 0);

    static final int BAD = 5, REJECTED = 2;

    private static final int[] SEEN = new int[UNITS];
    private static final List<String> FAILURES = new ArrayList<>();
    private static final CountDownLatch DONE = new CountDownLatch(UNITS);
    private static int repeated;

    private static Connection connect() throws JMSException { return connect(URL); }

    private static Connection connect(String url) throws JMSException {
        Connection made = new JmsConnectionFactory(url).createConnection();
        made.start();
        return made;
    }

    private static void got(Message message) throws JMSException {
        int unit = message.getIntProperty("unit"), number = message.getIntProperty("number");
        synchronized (SEEN) {
            if (number > SEEN[unit]) FAILURES.add("unit " + unit + ": " + number + " before " + SEEN[unit]);
            if (number < SEEN[unit]) repeated++;
            if (number == SEEN[unit]) {
                SEEN[unit]++;
                if (SEEN[unit] == EACH) DONE.countDown();
            }
        }
    }

    private static void receive(boolean commits) {
        try {
            Session session = connect().createSession(commits, commits ? 0 : Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(QUEUE));
            while (true) {
                Message message = consumer.receive(1_000);
                if (message == null) continue;
                got(message);
                boolean isBad = message.getIntProperty("number") % 10 == BAD;
                try {
                    if (isBad && commits) {
                        session.rollback();
                        continue;
                    }
                    if (isBad) message.setIntProperty("JMS_AMQP_ACK_TYPE", REJECTED);
                    if (commits) session.commit(); else message.acknowledge();
                } catch (JMSException again) {
                    System.out.println("again: " + again);
                }
            }
        } catch (Exception failure) {
            fail("a consumer", failure);
        }
    }

    private static void receiveBatches(String url) {
        try {
            Connection connection = connect(url);
            while (true) {
                Session session = connection.createSession(true, 0);
                try {
                    commitBatches(session);
                } catch (JMSException again) {
                    System.out.println("again: " + again);
                }
                // After a commit that failed by a failover Qpid JMS would hand out what it has released, and
                // acknowledge none of it.
                session.close();
            }
        } catch (Exception failure) {
            fail("a consumer", failure);
        }
    }

    private static void commitBatches(Session session) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue(QUEUE));
        MessageProducer producer = session.createProducer(session.createQueue(QUEUE + ".results"));
        int taken = 0;
        while (true) {
            Message message = consumer.receive(taken == 0 ? 1_000 : 300);
            if (message != null) {
                got(message);
                Message result = session.createMessage();
                result.setIntProperty("unit", message.getIntProperty("unit"));
                result.setIntProperty("number", message.getIntProperty("number"));
                producer.send(result);
                taken++;
            }
            if (taken == BATCH || message == null && taken > 0) {
                taken = 0;
                session.commit();
            }
        }
    }

    private static void send() {
        try {
            Session session = connect().createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(QUEUE));
            for (int number = 0; number < EACH; number++) {
                for (int unit = 0; unit < UNITS; unit++) {
                    Message message = session.createTextMessage("x".repeat(500));
                    message.setStringProperty("JMSXGroupID", "unit-" + unit);
                    message.setIntProperty("unit", unit);
                    message.setIntProperty("number", number);
                    if (BATCH > 0) message.setStringProperty("JBMDuplicateID", unit + "-" + number);
                    producer.send(message);
                    Thread.sleep(PAUSE);
                }
            }
            System.out.println("SENT");
        } catch (Exception failure) {
            fail("the producer", failure);
        }
    }

    private static void fail(String who, Exception failure) {
        failure.printStackTrace(System.out);
        synchronized (SEEN) { FAILURES.add(who + ": " + failure); }
    }

    public static void main(String[] none) throws Exception {
        for (int place = 0; place < CONSUMERS; place++) {
            boolean commits = place % 2 == 1;
            String url = URLS[place % URLS.length];
            new Thread(BATCH > 0 ? () -> receiveBatches(url) : () -> receive(commits)).start();
        }
        new Thread(FailoverClient::send).start();
        boolean all = DONE.await(LIMIT, TimeUnit.SECONDS);
        synchronized (SEEN) {
            StringBuilder seen = new StringBuilder();
            for (int each : SEEN) seen.append(' ').append(each);
            System.out.println("SEEN" + seen + " REPEATED " + repeated);
            for (String each : FAILURES) System.out.println("FAILED " + each);
            System.out.println(all && FAILURES.isEmpty() ? "WELL" : "ILL");
        }
        Runtime.getRuntime().halt(0);
    }
}
