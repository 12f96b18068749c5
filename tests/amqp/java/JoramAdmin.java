import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.HashMap;
import java.util.Map;
import javax.naming.Context;
import javax.naming.NamingException;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsQueue;
import org.apache.qpid.jms.JmsTopic;
import org.objectweb.jtests.jms.admin.Admin;

/** How JORAM's tests make destinations: by the server's endpoint; system properties `url` and `admin` say where. */
public class JoramAdmin implements Admin {
    private static final Map<String, Object> BOUND = new HashMap<>();

    public String getName() { return "jbm-kafka"; }

    public Context createContext() {
        return (Context) Proxy.newProxyInstance(
            JoramAdmin.class.getClassLoader(),
            new Class<?>[] {Context.class},
            (proxy, method, arguments) -> {
                if (!method.getName().equals("lookup")) return null;
                Object found = BOUND.get(String.valueOf(arguments[0]));
                if (found == null) throw new NamingException("nothing is bound to " + arguments[0]);
                return found;
            });
    }

    private static void ask(String method, String path) {
        try {
            var connection = (HttpURLConnection) new URL(System.getProperty("admin") + path).openConnection();
            connection.setRequestMethod(method);
            int status = connection.getResponseCode();
            if (status != 204) throw new IllegalStateException(method + " " + path + ": " + status);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    public void createConnectionFactory(String name) {
        BOUND.put(name, new JmsConnectionFactory(System.getProperty("url")));
    }

    public void createQueueConnectionFactory(String name) { createConnectionFactory(name); }

    public void createTopicConnectionFactory(String name) { createConnectionFactory(name); }

    public void createQueue(String name) {
        ask("PUT", "/queues/" + name);
        BOUND.put(name, new JmsQueue(name));
    }

    public void createTopic(String name) {
        ask("PUT", "/topics/" + name);
        BOUND.put(name, new JmsTopic(name));
    }

    public void deleteQueue(String name) {
        ask("DELETE", "/queues/" + name);
        BOUND.remove(name);
    }

    public void deleteTopic(String name) {
        ask("DELETE", "/topics/" + name);
        BOUND.remove(name);
    }

    public void deleteConnectionFactory(String name) { BOUND.remove(name); }

    public void deleteQueueConnectionFactory(String name) { BOUND.remove(name); }

    public void deleteTopicConnectionFactory(String name) { BOUND.remove(name); }

    public void startServer() {}

    public void stopServer() {}

    public void start() {}

    public void stop() {}
}
