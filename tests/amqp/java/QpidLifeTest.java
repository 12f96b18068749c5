import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.InvalidClientIDException;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.After;
import org.junit.Test;

/** Connections, subscriptions and temporary destinations over their lives, through Qpid JMS. */
public class QpidLifeTest {
    static final String URL = System.getProperty("url"), PREFIX = System.getProperty("prefix") + "life-";
    static final long SOON = 40_000, NOTHING = 400;

    private final List<Connection> opened = new ArrayList<>();

    private Connection connect(String clientId) throws JMSException {
        Connection made = new JmsConnectionFactory(URL).createConnection();
        opened.add(made);
        if (clientId != null) made.setClientID(clientId);
        made.start();
        return made;
    }

    private Session session() throws JMSException {
        return connect(null).createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    @After
    public void close() throws JMSException {
        for (Connection each : opened) each.close();
    }

    private static String text(Message message) throws JMSException {
        return message == null ? null : ((TextMessage) message).getText();
    }

    @Test
    public void aClientIdIsOfOneConnection() throws Exception {
        Connection first = connect(PREFIX + "client");
        assertThrows(InvalidClientIDException.class, () -> connect(PREFIX + "client"));
        first.close();
        connect(PREFIX + "client");
    }

    @Test
    public void aDurableSubscriptionKeepsAndIsOneConsumers() throws Exception {
        Session session = connect(PREFIX + "reader").createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(PREFIX + "durable");
        MessageConsumer consumer = session.createDurableConsumer(topic, "mine");
        assertThrows(JMSException.class, () -> session.createDurableConsumer(topic, "mine"));
        assertThrows(JMSException.class, () -> session.unsubscribe("mine"));
        consumer.close();
        MessageProducer producer = session.createProducer(topic);
        producer.send(session.createTextMessage("kept"));
        consumer = session.createDurableConsumer(topic, "mine");
        assertEquals("kept", text(consumer.receive(SOON)));
        consumer.close();
        producer.send(session.createTextMessage("of the old selector"));
        consumer = session.createDurableConsumer(topic, "mine", "colour = 'red'", false);
        producer.send(session.createTextMessage("no colour"));
        Message red = session.createTextMessage("red");
        red.setStringProperty("colour", "red");
        producer.send(red);
        assertEquals("red", text(consumer.receive(SOON)));
        assertNull(consumer.receive(NOTHING));
        consumer.close();
        session.unsubscribe("mine");
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("mine"));
    }

    @Test
    public void aSharedSubscriptionOfAMomentIsDividedAndEnds() throws Exception {
        Session one = session(), two = session();
        Topic topic = one.createTopic(PREFIX + "shared");
        List<MessageConsumer> consumers =
            List.of(one.createSharedConsumer(topic, "few"), two.createSharedConsumer(topic, "few"));
        MessageProducer producer = one.createProducer(topic);
        for (int number = 0; number < 10; number++) producer.send(one.createTextMessage("n" + number));
        Set<String> got = new HashSet<>();
        long deadline = System.currentTimeMillis() + SOON;
        while (got.size() < 10 && System.currentTimeMillis() < deadline) {
            for (MessageConsumer each : consumers) {
                Message message = each.receiveNoWait();
                if (message != null) assertTrue(got.add(text(message)));
            }
        }
        assertEquals(10, got.size());
        for (MessageConsumer each : consumers) each.close();
        producer.send(one.createTextMessage("to nobody"));
        assertNull(two.createSharedConsumer(topic, "few").receive(NOTHING));
    }

    @Test
    public void whatExpiredIsNotReceived() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(PREFIX + "brief");
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(300);
        producer.send(session.createTextMessage("brief"));
        producer.setTimeToLive(0);
        MessageConsumer other = session.createConsumer(session.createQueue(PREFIX + "nothing"));
        assertNull(other.receive(600));
        producer.send(session.createTextMessage("lasting"));
        MessageConsumer consumer = session.createConsumer(queue);
        assertEquals("lasting", text(consumer.receive(SOON)));
        assertNull(consumer.receive(NOTHING));
    }

    @Test
    public void anAnswerComesToATemporaryQueueWhichEndsWithItsConnection() throws Exception {
        Session asking = session(), answering = session();
        TemporaryQueue answers = asking.createTemporaryQueue();
        MessageConsumer consumer = asking.createConsumer(answers);
        Queue questions = asking.createQueue(PREFIX + "questions");
        Message question = asking.createTextMessage("why?");
        question.setJMSReplyTo(answers);
        asking.createProducer(questions).send(question);
        Message got = answering.createConsumer(questions).receive(SOON);
        assertEquals(answers.getQueueName(), ((Queue) got.getJMSReplyTo()).getQueueName());
        Message answer = answering.createTextMessage("so");
        answer.setJMSCorrelationID(got.getJMSMessageID());
        answering.createProducer(null).send(got.getJMSReplyTo(), answer);
        Message back = consumer.receive(SOON);
        assertEquals("so", text(back));
        assertEquals(question.getJMSMessageID(), back.getJMSCorrelationID());
        assertThrows(JMSException.class, () -> answering.createConsumer(got.getJMSReplyTo()));
        consumer.close();
        answers.delete();
        assertThrows(JMSException.class,
            () -> answering.createProducer(null).send(got.getJMSReplyTo(), answering.createTextMessage("late")));
    }

    @Test
    public void aBrowserTakesNothing() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(PREFIX + "browsed");
        MessageProducer producer = session.createProducer(queue);
        for (String each : new String[] {"one", "two", "three"}) {
            Message message = session.createTextMessage(each);
            message.setBooleanProperty("odd", !each.equals("two"));
            producer.send(message);
        }
        Set<String> seen = new HashSet<>();
        Enumeration<?> found = session.createBrowser(queue, "odd").getEnumeration();
        while (found.hasMoreElements()) seen.add(text((Message) found.nextElement()));
        assertEquals(Set.of("one", "three"), seen);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 3; number++) assertNotNull(consumer.receive(SOON));
    }

    @Test
    public void whatASelectorLeavesStaysForOthers() throws Exception {
        Session session = session();
        Queue queue = session.createQueue(PREFIX + "selected");
        MessageProducer producer = session.createProducer(queue);
        for (int weight = 1; weight <= 4; weight++) {
            Message message = session.createTextMessage("w" + weight);
            message.setIntProperty("weight", weight);
            producer.send(message);
        }
        Set<String> heavy = new HashSet<>(), light = new HashSet<>();
        MessageConsumer consumer = session.createConsumer(queue, "weight > 2");
        for (int number = 0; number < 2; number++) heavy.add(text(consumer.receive(SOON)));
        assertNull(consumer.receive(NOTHING));
        consumer.close();
        MessageConsumer rest = session.createConsumer(queue);
        for (int number = 0; number < 2; number++) light.add(text(rest.receive(SOON)));
        assertEquals(Set.of("w3", "w4"), heavy);
        assertEquals(Set.of("w1", "w2"), light);
    }

    @Test
    public void aTransactionIsWholeOrNothing() throws Exception {
        Session session = connect(null).createSession(true, Session.SESSION_TRANSACTED);
        Queue from = session.createQueue(PREFIX + "from"), to = session.createQueue(PREFIX + "to");
        MessageProducer producer = session.createProducer(null);
        producer.send(from, session.createTextMessage("work"));
        session.commit();
        MessageConsumer consumer = session.createConsumer(from);
        MessageConsumer outside = session().createConsumer(to);
        assertEquals("work", text(consumer.receive(SOON)));
        producer.send(to, session.createTextMessage("undone"));
        session.rollback();
        Message again = consumer.receive(SOON);
        assertTrue(again.getJMSRedelivered());
        producer.send(to, session.createTextMessage("done"));
        assertNull(outside.receive(NOTHING));
        session.commit();
        assertEquals("done", text(outside.receive(SOON)));
        assertNull(consumer.receive(NOTHING));
    }

    @Test
    public void whatAClosedSessionHadComesAgain() throws Exception {
        Connection connection = connect(null);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = transacted.createQueue(PREFIX + "closed");
        session().createProducer(queue).send(transacted.createTextMessage("one"));
        assertEquals("one", text(transacted.createConsumer(queue).receive(SOON)));
        transacted.close();
        MessageConsumer again = session().createConsumer(queue);
        Message message = again.receive(SOON);
        assertEquals("one", text(message));
        assertEquals(2, message.getIntProperty("JMSXDeliveryCount"));
        assertNull(again.receive(NOTHING));
    }

    @Test
    public void eachMessageIsAcknowledgedOnItsOwn() throws Exception {
        Connection connection = connect(null);
        Session session = connection.createSession(false, 101);
        Queue queue = session.createQueue(PREFIX + "individual");
        MessageProducer producer = session().createProducer(queue);
        for (String each : new String[] {"one", "two", "three"}) producer.send(session.createTextMessage(each));
        MessageConsumer consumer = session.createConsumer(queue);
        List<Message> got = new ArrayList<>();
        for (int number = 0; number < 3; number++) got.add(consumer.receive(SOON));
        got.get(1).acknowledge();
        String acknowledged = text(got.get(1));
        connection.close();
        MessageConsumer again = session().createConsumer(queue);
        for (int number = 0; number < 2; number++) assertFalse(acknowledged.equals(text(again.receive(SOON))));
        assertNull(again.receive(NOTHING));
    }
}
