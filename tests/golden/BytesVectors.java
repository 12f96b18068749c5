import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HexFormat;

/**
 * Writes bytes.json: what Java's own DataOutputStream, which the BytesMessage of JMS is written like, makes of values.
 *
 * <p>Run with {@code java tests/golden/BytesVectors.java > tests/golden/bytes.json}.
 */
public final class BytesVectors {
    private interface Write {
        void to(DataOutputStream data) throws IOException;
    }

    private static boolean isFirst = true;

    public static void main(String[] arguments) throws IOException {
        System.out.print("{\n \"about\": \"Values, and the bytes that java.io.DataOutputStream writes for them: "
                + "tests/golden/BytesVectors.java. A float is given as the double that equals it.\",\n \"cases\": [");
        for (boolean value : new boolean[] {true, false}) {
            vector("boolean", value, data -> data.writeBoolean(value));
        }
        for (int value : new int[] {0, 1, -1, 127, -128}) {
            vector("byte", value, data -> data.writeByte(value));
        }
        for (int value : new int[] {0, 258, -2, 32767, -32768}) {
            vector("short", value, data -> data.writeShort(value));
        }
        for (char value : new char[] {'a', '\u00df', '\u6ce8', '\uffff'}) {
            vector("char", quoted(String.valueOf(value)), data -> data.writeChar(value));
        }
        for (int value : new int[] {0, 16909060, -2, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            vector("int", value, data -> data.writeInt(value));
        }
        for (long value : new long[] {0, 72623859790382856L, -2, Long.MAX_VALUE, Long.MIN_VALUE}) {
            vector("long", value, data -> data.writeLong(value));
        }
        for (float value : new float[] {0f, 0.1f, -1.5f, Float.MAX_VALUE, Float.MIN_VALUE}) {
            vector("float", (double) value, data -> data.writeFloat(value));
        }
        for (double value : new double[] {0, 0.1, -1.5, Double.MAX_VALUE, Double.MIN_VALUE}) {
            vector("double", value, data -> data.writeDouble(value));
        }
        for (String value : new String[] {"", "chair", "Zo\u00eb", "\u6ce8\u6587", "a\u0000b", "\ud83d\ude00", "x".repeat(300)}) {
            vector("utf", quoted(value), data -> data.writeUTF(value));
        }
        System.out.print("\n ]\n}\n");
    }

    private static void vector(String kind, Object value, Write write) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        write.to(new DataOutputStream(bytes));
        String hex = HexFormat.of().formatHex(bytes.toByteArray());
        System.out.printf("%s\n  {\"kind\": \"%s\", \"value\": %s, \"bytes\": \"%s\"}", isFirst ? "" : ",", kind, value, hex);
        isFirst = false;
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char unit : text.toCharArray()) {
            json.append(unit >= ' ' && unit < 127 ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        }
        return json.append('"').toString();
    }
}
