import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.After;
import org.junit.Test;

/** What JORAM has no tests for, through Qpid JMS; destinations and their settings are those of test_qpid_jms.py. */
public class QpidTest {
    static final String URL = System.getProperty("url");
    static final String PREFIX = System.getProperty("prefix");
    static final long SOON = 40_000, NOTHING = 400;

    private final List<Connection> opened = new ArrayList<>();

    private Connection connect(String options) throws JMSException {
        Connection made = new JmsConnectionFactory(URL + options).createConnection();
        opened.add(made);
        made.start();
        return made;
    }

    private Session session(int mode) throws JMSException {
        return connect("").createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    @After
    public void close() throws JMSException {
        for (Connection each : opened) each.close();
    }

    private static String text(Message message) throws JMSException {
        assertNotNull("nothing came", message);
        return ((TextMessage) message).getText();
    }

    private void send(String queue, String... texts) throws JMSException {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(PREFIX + queue));
        for (String text : texts) producer.send(session.createTextMessage(text));
    }

    @Test
    public void aRolledBackMessageWaitsForTheRedeliveryDelay() throws Exception {
        send("delayed", "one");
        Session session = session(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(PREFIX + "delayed"));
        assertEquals("one", text(consumer.receive(SOON)));
        long before = System.currentTimeMillis();
        session.rollback();
        Message again = consumer.receive(SOON);
        assertEquals("one", text(again));
        assertTrue(System.currentTimeMillis() - before >= 1_400);
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
        assertTrue(again.getJMSRedelivered());
        session.commit();
    }

    @Test
    public void whatFailsTooOftenIsADeadLetter() throws Exception {
        send("twice", "bad", "good");
        Session session = session(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(PREFIX + "twice"));
        Map<String, Integer> seen = new HashMap<>();
        while (seen.getOrDefault("bad", 0) < 2 || !seen.containsKey("good")) {
            String text = text(consumer.receive(SOON));
            seen.merge(text, 1, Integer::sum);
            if (text.equals("bad")) session.rollback(); else session.commit();
        }
        MessageConsumer letters = session.createConsumer(session.createQueue(PREFIX + "letters"));
        Message letter = letters.receive(SOON);
        assertEquals("bad", text(letter));
        assertEquals("queue:" + PREFIX + "twice", letter.getStringProperty("_JBM_ORIG_DESTINATION"));
        session.commit();
        assertNull(consumer.receive(NOTHING));
        assertNull(letters.receive(NOTHING));
    }

    @Test
    public void whatAConsumersOwnPolicyGivesUpIsForAnotherOne() throws Exception {
        send("elsewhere", "one");
        Session session = connect("?jms.redeliveryPolicy.maxRedeliveries=1").createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(PREFIX + "elsewhere"));
        for (int count = 0; count < 2; count++) {
            assertEquals("one", text(consumer.receive(SOON)));
            session.recover();
        }
        assertNull(consumer.receive(NOTHING));
        Session other = session(Session.AUTO_ACKNOWLEDGE);
        Message again = other.createConsumer(other.createQueue(PREFIX + "elsewhere")).receive(SOON);
        assertEquals("one", text(again));
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
        assertNull(consumer.receive(NOTHING));
    }

    @Test
    public void aGroupIsInOneConsumersHandsAndInOrderOverRollbacks() throws Exception {
        int groups = 4, each = 10;
        Session sending = session(Session.SESSION_TRANSACTED);
        MessageProducer producer = sending.createProducer(sending.createQueue(PREFIX + "groups"));
        for (int number = 0; number < each; number++) {
            for (int group = 0; group < groups; group++) {
                Message message = sending.createTextMessage();
                message.setStringProperty("JMSXGroupID", "group-" + group);
                message.setIntProperty("number", number);
                producer.send(message);
            }
        }
        sending.commit();
        Map<String, List<Integer>> done = new HashMap<>();
        Map<String, Integer> holders = new HashMap<>();
        List<Throwable> failures = new ArrayList<>();
        AtomicInteger left = new AtomicInteger(groups * each);
        List<Thread> threads = new ArrayList<>();
        for (int place = 0; place < 2; place++) {
            int me = place;
            Session session = session(Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(session.createQueue(PREFIX + "groups"));
            Thread thread = new Thread(() -> {
                try {
                    Random random = new Random(me);
                    while (left.get() > 0) {
                        Message message = consumer.receive(200);
                        if (message == null) continue;
                        String group = message.getStringProperty("JMSXGroupID");
                        int number = message.getIntProperty("number");
                        synchronized (done) {
                            Integer other = holders.put(group, me);
                            if (other != null) throw new IllegalStateException(group + " is in two hands");
                        }
                        Thread.yield();
                        boolean fails = random.nextInt(3) == 0 && message.getIntProperty("JMSXDeliveryCount") < 3;
                        synchronized (done) {
                            if (!fails) done.computeIfAbsent(group, it -> new ArrayList<>()).add(number);
                            holders.remove(group);
                        }
                        if (fails) {
                            session.rollback();
                        } else {
                            session.commit();
                            left.decrementAndGet();
                        }
                    }
                } catch (Throwable failure) {
                    left.set(0);
                    synchronized (done) { failures.add(failure); }
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join(SOON);
        assertEquals(List.of(), failures);
        assertEquals(groups, done.size());
        List<Integer> inOrder = new ArrayList<>();
        for (int number = 0; number < each; number++) inOrder.add(number);
        for (List<Integer> numbers : done.values()) assertEquals(inOrder, numbers);
    }

    @Test
    public void theHigherPriorityComesFirst() throws Exception {
        Session session = session(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(PREFIX + "one"));
        for (int priority : new int[] {1, 9, 4}) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("p" + priority));
        }
        session.commit();
        MessageConsumer consumer = session.createConsumer(session.createQueue(PREFIX + "one"));
        for (String wanted : new String[] {"p9", "p4", "p1"}) assertEquals(wanted, text(consumer.receive(SOON)));
        session.commit();
    }

    @Test
    public void aDelayedMessageComesAtItsTime() throws Exception {
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(PREFIX + "later");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(1_500);
        long before = System.currentTimeMillis();
        producer.send(session.createTextMessage("later"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("now"));
        assertEquals("now", text(consumer.receive(SOON)));
        Message later = consumer.receive(SOON);
        assertEquals("later", text(later));
        assertTrue(System.currentTimeMillis() - before >= 1_400);
        assertTrue(later.getJMSDeliveryTime() >= before + 1_500);
    }

    @Test
    public void consumersOfASharedDurableSubscriptionDivideIt() throws Exception {
        Session one = session(Session.AUTO_ACKNOWLEDGE), two = session(Session.AUTO_ACKNOWLEDGE);
        javax.jms.Topic topic = one.createTopic(PREFIX + "news");
        MessageConsumer first = one.createSharedDurableConsumer(topic, "readers");
        MessageConsumer second = two.createSharedDurableConsumer(topic, "readers");
        MessageProducer producer = one.createProducer(topic);
        Set<String> wanted = new HashSet<>(), got = new HashSet<>();
        for (int number = 0; number < 20; number++) {
            producer.send(one.createTextMessage("n" + number));
            wanted.add("n" + number);
        }
        long deadline = System.currentTimeMillis() + SOON;
        while (got.size() < 20 && System.currentTimeMillis() < deadline) {
            for (MessageConsumer each : List.of(first, second)) {
                Message message = each.receiveNoWait();
                if (message != null) assertTrue("twice: " + text(message), got.add(text(message)));
            }
        }
        assertEquals(wanted, got);
        first.close();
        second.close();
        producer.send(one.createTextMessage("kept"));
        MessageConsumer again = two.createSharedDurableConsumer(topic, "readers");
        assertEquals("kept", text(again.receive(SOON)));
        assertNull(again.receive(NOTHING));
        again.close();
        two.unsubscribe("readers");
    }

    @Test
    public void aLargeMessageGoesThrough() throws Exception {
        byte[] body = new byte[Integer.getInteger("large")];
        new Random(1).nextBytes(body);
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(PREFIX + "large");
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        session.createProducer(queue).send(message);
        BytesMessage got = (BytesMessage) session.createConsumer(queue).receive(SOON);
        assertNotNull("nothing came", got);
        assertArrayEquals(body, got.getBody(byte[].class));
    }

    @Test
    public void aListenerThatRaisesGetsItAgain() throws Exception {
        send("listened", "one");
        Session session = session(Session.AUTO_ACKNOWLEDGE);
        AtomicInteger calls = new AtomicInteger();
        java.util.concurrent.CountDownLatch done = new java.util.concurrent.CountDownLatch(1);
        session.createConsumer(session.createQueue(PREFIX + "listened")).setMessageListener(message -> {
            if (calls.incrementAndGet() < 3) throw new IllegalStateException("not now");
            done.countDown();
        });
        assertTrue(done.await(SOON, java.util.concurrent.TimeUnit.MILLISECONDS));
    }

    @Test
    public void acknowledgeIsOfAllThatTheSessionGot() throws Exception {
        send("acknowledged", "one", "two", "three");
        Session session = session(Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(PREFIX + "acknowledged");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(SOON);
        consumer.receive(SOON).acknowledge();
        String left = text(consumer.receive(SOON));
        session.close();
        Session other = session(Session.AUTO_ACKNOWLEDGE);
        MessageConsumer again = other.createConsumer(queue);
        Message message = again.receive(SOON);
        assertEquals(left, text(message));
        assertEquals(2, message.getIntProperty("JMSXDeliveryCount"));
        assertNull(again.receive(NOTHING));
    }
}
