import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.BinaryMessageEncoder;

/**
 * A Java program that reads the bodies of records, and writes them again: with java.io, Avro and Jackson, and nothing
 * of ours but the schemas, whose folder is the argument.
 *
 * <p>A line of its input is a kind and the record's value in hex; a line of its output what it has read, as JSON, a tab,
 * and the value that it writes. tests/jms/test_java_programs.py runs it.
 */
public final class Bodies {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            byte[] body = HEX.parseHex(parts.length > 1 ? parts[1] : "");
            ByteArrayOutputStream again = new ByteArrayOutputStream();
            JsonNode seen = switch (parts[0]) {
                case "map" -> avro(new File(arguments[0], "MapBody.avsc"), body, again);
                case "stream" -> avro(new File(arguments[0], "StreamBody.avsc"), body, again);
                case "object" -> object(body, again);
                case "bytes" -> values(body, again);
                default -> throw new IllegalArgumentException(parts[0]);
            };
            System.out.println(JSON.writeValueAsString(seen) + "\t" + HEX.formatHex(again.toByteArray()));
        }
    }

    private static JsonNode object(byte[] body, ByteArrayOutputStream again) throws IOException {
        JsonNode read = JSON.readTree(body);
        again.write(JSON.writeValueAsBytes(read));
        return read;
    }

    private static JsonNode avro(File file, byte[] body, ByteArrayOutputStream again) throws IOException {
        Schema schema = new Schema.Parser().parse(file);
        GenericRecord read = new BinaryMessageDecoder<GenericRecord>(GenericData.get(), schema).decode(body);
        again.write(new BinaryMessageEncoder<GenericRecord>(GenericData.get(), schema).encode(read).array());
        if (read.get("entries") instanceof Map<?, ?> entries) {
            ObjectNode seen = JSON.createObjectNode();
            entries.forEach((name, entry) -> seen.set(name.toString(), entry((GenericRecord) entry)));
            return seen;
        }
        ArrayNode seen = JSON.createArrayNode();
        ((Iterable<?>) read.get("entries")).forEach(entry -> seen.add(entry((GenericRecord) entry)));
        return seen;
    }

    private static JsonNode entry(GenericRecord entry) {
        ArrayNode seen = JSON.createArrayNode().add(entry.get("type").toString());
        Object value = entry.get("value");
        if (value instanceof ByteBuffer bytes) {
            byte[] copy = new byte[bytes.remaining()];
            bytes.duplicate().get(copy);
            return seen.add(HEX.formatHex(copy));
        }
        return seen.addPOJO(value instanceof CharSequence ? value.toString() : value);
    }

    /** The values of tests/jms/test_java_programs.py, in their order. */
    private static JsonNode values(byte[] body, ByteArrayOutputStream again) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(body));
        boolean flag = in.readBoolean();
        byte small = in.readByte();
        short number = in.readShort();
        char letter = in.readChar();
        int whole = in.readInt();
        long large = in.readLong();
        float rough = in.readFloat();
        double exact = in.readDouble();
        String text = in.readUTF();
        byte[] rest = in.readAllBytes();
        DataOutputStream out = new DataOutputStream(again);
        out.writeBoolean(flag);
        out.writeByte(small);
        out.writeShort(number);
        out.writeChar(letter);
        out.writeInt(whole);
        out.writeLong(large);
        out.writeFloat(rough);
        out.writeDouble(exact);
        out.writeUTF(text);
        out.write(rest);
        return JSON.createArrayNode().add(flag).add(small).add(number).add(String.valueOf(letter)).add(whole).add(large)
                .add((double) rough).add(exact).add(text).add(HEX.formatHex(rest));
    }
}
