import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import javax.jms.Connection;
import javax.jms.JMSSecurityException;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.Test;

/** Users and TLS through Qpid JMS; the users are those of test_amqp_access.py. */
public class AccessTest {
    private static final String TLS = System.getProperty("tls"), PASSWORD = System.getProperty("password");

    private static Connection connect(String options, String user, String password) throws Exception {
        Connection made = new JmsConnectionFactory(user, password, TLS + options).createConnection();
        made.start();
        return made;
    }

    private static void sendAndReceive(String options) throws Exception {
        try (Connection connection = connect(options, "java", PASSWORD)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("orders.java");
            session.createProducer(queue).send(session.createTextMessage("one"));
            assertEquals("one", ((TextMessage) session.createConsumer(queue).receive(30_000)).getText());
        }
    }

    @Test
    public void aPasswordLetsIn() throws Exception {
        sendAndReceive("");
        sendAndReceive("&amqp.saslMechanisms=PLAIN");
    }

    @Test
    public void aWrongPasswordDoesNot() {
        assertThrows(JMSSecurityException.class, () -> connect("", "java", "wrong"));
        assertThrows(JMSSecurityException.class, () -> connect("", "nobody", PASSWORD));
        assertThrows(JMSSecurityException.class, () -> connect("", null, null));
    }

    @Test
    public void whatNoPatternSaysIsRefused() throws Exception {
        try (Connection connection = connect("", "java", PASSWORD)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("payments");
            assertThrows(JMSSecurityException.class, () -> session.createProducer(queue));
            assertThrows(JMSSecurityException.class, () -> session.createConsumer(queue));
            assertThrows(JMSSecurityException.class, () -> session.createBrowser(queue).getEnumeration());
            assertThrows(JMSSecurityException.class, () -> session.createProducer(null).send(queue, session.createMessage()));
        }
    }

    @Test
    public void aCertificateLetsIn() throws Exception {
        String store = "&transport.keyStoreType=PKCS12&transport.keyStorePassword=store&transport.keyStoreLocation=";
        try (Connection connection = connect(store + System.getProperty("store"), null, null)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("orders.browsed");
            assertEquals(true, session.createBrowser(queue).getEnumeration().hasMoreElements());
            assertThrows(JMSSecurityException.class, () -> session.createProducer(queue));
        }
    }
}
