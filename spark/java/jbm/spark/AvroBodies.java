package jbm.spark;

import java.util.HashMap;
import java.util.Map;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Looks whether bytes are a value of an Avro schema, before `from_avro` takes their lengths and counts on trust: one
 * damaged byte may ask for more memory than there is, which ends the executor.
 *
 * <p>It keeps nothing of the value. No bytes make it fail.
 */
public final class AvroBodies {
    private static final int DEPTH_MAX = 100;
    private static final ThreadLocal<Map<UTF8String, Schema>> SCHEMAS = ThreadLocal.withInitial(HashMap::new);

    private final byte[] data;
    private int at;
    private long items;

    private AvroBodies(byte[] data) {
        this.data = data;
    }

    /** Why the bytes are no value of the schema, which is Avro's JSON; null where they are. */
    public static UTF8String fault(byte[] data, UTF8String schema) {
        Map<UTF8String, Schema> known = SCHEMAS.get();
        Schema found = known.get(schema);
        if (found == null) {
            try {
                found = new Schema.Parser().setValidateDefaults(false).parse(schema.toString()); // as from_avro
            } catch (AvroRuntimeException none) {
                return UTF8String.fromString("Avro cannot use that schema: " + none.getMessage());
            }
            known.put(schema.copy(), found);
        }
        AvroBodies body = new AvroBodies(data);
        try {
            body.pass(found, 0);
            return body.at == data.length ? null : UTF8String.fromString("bytes are left behind it");
        } catch (Odd odd) {
            return UTF8String.fromString(odd.getMessage());
        }
    }

    private void pass(Schema schema, int depth) {
        if (depth > DEPTH_MAX) {
            throw new Odd("it is nested too deeply");
        }
        switch (schema.getType()) {
            case NULL -> { }
            case BOOLEAN -> {
                skip(1);
                if (data[at - 1] < 0 || data[at - 1] > 1) {
                    throw new Odd("a boolean is neither 0 nor 1");
                }
            }
            case INT -> {
                long number = number();
                if (number != (int) number) {
                    throw new Odd("an int is too large");
                }
            }
            case LONG -> number();
            case FLOAT -> skip(Float.BYTES);
            case DOUBLE -> skip(Double.BYTES);
            case STRING -> text();
            case BYTES -> skip(number());
            case FIXED -> skip(schema.getFixedSize());
            case ENUM -> choice(schema.getEnumSymbols().size());
            case UNION -> pass(schema.getTypes().get(choice(schema.getTypes().size())), depth + 1);
            case RECORD -> {
                for (Schema.Field field : schema.getFields()) {
                    pass(field.schema(), depth + 1);
                }
            }
            case ARRAY -> passBlocks(schema.getElementType(), false, depth);
            case MAP -> passBlocks(schema.getValueType(), true, depth);
        }
    }

    private void passBlocks(Schema value, boolean haveKeys, int depth) {
        for (long count = number(); count != 0; count = number()) {
            boolean isSized = count < 0;
            long size = isSized ? number() : 0;
            int begin = at;
            count = isSized ? -count : count;
            // Even an item that takes nothing makes an object, and others take a byte at least.
            if (count < 0 || count > data.length - items) {
                throw new Odd("it announces more items than it has bytes");
            }
            items += count;
            for (long i = 0; i < count; i++) {
                if (haveKeys) {
                    text();
                }
                pass(value, depth + 1);
            }
            // Avro goes on behind that many bytes, where the reader has no such field: lengths there were not looked at.
            if (isSized && size != at - begin) {
                throw new Odd("a block announces " + size + " bytes, and has " + (at - begin));
            }
        }
    }

    private void text() {
        long bytes = number();
        skip(bytes);
        if (!UTF8String.fromBytes(data, at - (int) bytes, (int) bytes).isValid()) {
            throw new Odd("a string is no UTF-8");
        }
    }

    private int choice(int count) {
        long chosen = number();
        if (chosen < 0 || chosen >= count) {
            throw new Odd("it chooses number " + chosen + " of " + count);
        }
        return (int) chosen;
    }

    private void skip(long bytes) {
        if (bytes < 0 || bytes > data.length - at) {
            throw new Odd("it announces " + bytes + " bytes where " + (data.length - at) + " are left");
        }
        at += (int) bytes;
    }

    private long number() {
        long found = 0;
        for (int shift = 0; shift < Long.SIZE; shift += 7) {
            skip(1);
            byte next = data[at - 1];
            found |= (next & 0x7FL) << shift;
            if (next >= 0) {
                return (found >>> 1) ^ -(found & 1);
            }
        }
        throw new Odd("a number is too long");
    }

    /** Why the bytes are no value. */
    private static final class Odd extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Odd(String message) {
            super(message, null, false, false);
        }
    }
}
