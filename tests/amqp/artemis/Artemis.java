import java.io.File;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/** A broker in memory that speaks AMQP 1.0 at the port given, until its input ends. */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        ConfigurationImpl configuration = new ConfigurationImpl();
        configuration.setPersistenceEnabled(false).setSecurityEnabled(false).setJMXManagementEnabled(false);
        configuration.addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + arguments[0] + "?protocols=AMQP");
        configuration.addQueueConfiguration(QueueConfiguration.of("DLQ").setRoutingType(RoutingType.ANYCAST));
        AddressSettings settings = new AddressSettings();
        settings.setMaxDeliveryAttempts(3).setDeadLetterAddress(SimpleString.of("DLQ"));
        settings.setDefaultAddressRoutingType(RoutingType.ANYCAST).setDefaultQueueRoutingType(RoutingType.ANYCAST);
        configuration.addAddressSetting("#", settings);
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(configuration);
        broker.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        broker.stop();
        System.exit(0);
    }
}
