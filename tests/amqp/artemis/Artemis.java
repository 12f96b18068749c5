import java.io.File;
import java.util.Set;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;

/**
 * A broker that speaks AMQP 1.0 at the port given, until its input ends; in memory, or with a second argument in that folder.
 * A kill loses nothing there: what is confirmed is written, and the kernel has it. A third argument is a PEM file of a key
 * and its certificate: then it speaks TLS alone, and lets in the users `shop`, who may everything, and `guest`, who may
 * only receive, with the password `secret`.
 */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        ConfigurationImpl configuration = new ConfigurationImpl();
        boolean isSecured = arguments.length > 2;
        configuration.setSecurityEnabled(isSecured).setJMXManagementEnabled(false);
        configuration.setPersistenceEnabled(arguments.length > 1);
        if (arguments.length > 1) {
            String folder = arguments[1] + File.separator;
            configuration.setJournalDirectory(folder + "journal").setBindingsDirectory(folder + "bindings");
            configuration.setPagingDirectory(folder + "paging").setLargeMessagesDirectory(folder + "large");
            configuration.setJournalType(JournalType.NIO).setJournalDatasync(false).setMaxDiskUsage(-1);
            configuration.setJournalFileSize(1 << 20).setJournalMinFiles(2);
        }
        String acceptor = "tcp://127.0.0.1:" + arguments[0] + "?protocols=AMQP";
        if (isSecured) acceptor += ";sslEnabled=true;keyStoreType=PEM;keyStorePath=" + arguments[2];
        configuration.addAcceptorConfiguration("amqp", acceptor);
        configuration.addQueueConfiguration(QueueConfiguration.of("DLQ").setRoutingType(RoutingType.ANYCAST));
        AddressSettings settings = new AddressSettings();
        settings.setMaxDeliveryAttempts(3).setDeadLetterAddress(SimpleString.of("DLQ"));
        settings.setDefaultAddressRoutingType(RoutingType.ANYCAST).setDefaultQueueRoutingType(RoutingType.ANYCAST);
        settings.setAutoDeleteQueues(false).setAutoDeleteAddresses(false);
        configuration.addAddressSetting("#", settings);
        AddressSettings kept = new AddressSettings();
        kept.setMaxDeliveryAttempts(-1);
        configuration.addAddressSetting("kept.#", kept);
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(configuration);
        if (isSecured) {
            SecurityConfiguration users = new SecurityConfiguration();
            for (String name : new String[] {"shop", "guest"}) {
                users.addUser(name, "secret");
                users.addRole(name, name);
            }
            broker.setSecurityManager(new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
            Role shop = new Role("shop", true, true, true, true, true, true, true, true, true, true, true, true);
            Role guest = new Role("guest", false, true, true, false, true, true, false, true, true, false, false, false);
            configuration.putSecurityRoles("#", Set.of(shop, guest));
        }
        broker.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        broker.stop();
        System.exit(0);
    }
}
