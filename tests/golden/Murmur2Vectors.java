import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;

import org.apache.kafka.common.utils.Utils;

/**
 * Writes murmur2.json: what Kafka's own class says about keys of every length and kind.
 *
 * <p>Run with {@code java -cp kafka-clients.jar:slf4j-api.jar tests/golden/Murmur2Vectors.java >
 * tests/golden/murmur2.json}; both jars are among those of the development broker.
 */
public final class Murmur2Vectors {
    private static final int[] PARTITIONS = {1, 3, 8, 16, 1000};

    public static void main(String[] arguments) {
        List<byte[]> keys = new ArrayList<>();
        for (String text : new String[] {"a", "ab", "abc", "abcd", "joe", "customer-1234", "Zo\u00eb", "\u6ce8\u6587", "0xff", " ", "\0"}) {
            keys.add(text.getBytes(StandardCharsets.UTF_8));
        }
        for (int sign : new int[] {0x00, 0x7f, 0x80, 0xff}) {
            for (int length = 1; length <= 5; length++) {
                byte[] key = new byte[length];
                java.util.Arrays.fill(key, (byte) sign);
                keys.add(key);
            }
        }
        Random random = new Random(20);
        for (int length = 1; length <= 64; length++) {
            byte[] key = new byte[length];
            random.nextBytes(key);
            keys.add(key);
        }
        StringBuilder lines = new StringBuilder();
        for (byte[] key : keys) {
            lines.append(lines.isEmpty() ? "" : ",\n").append("  ").append(vector(key));
        }
        System.out.println("{\"partition_counts\": " + java.util.Arrays.toString(PARTITIONS) + ", \"vectors\": [\n" + lines + "\n]}");
    }

    private static String vector(byte[] key) {
        int hash = Utils.murmur2(key);
        List<Integer> partitions = new ArrayList<>();
        for (int count : PARTITIONS) {
            partitions.add(Utils.toPositive(hash) % count);
        }
        return "{\"key\": \"" + HexFormat.of().formatHex(key) + "\", \"murmur2\": " + hash + ", \"partitions\": " + partitions + "}";
    }
}
