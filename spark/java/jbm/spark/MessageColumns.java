package jbm.spark;

import java.util.Arrays;
import java.util.Map;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a record's headers and value say, found by one look at each header: the expressions of columns.py in one call.
 *
 * <p>The rules are those of `jbm_kafka.codec`; tests/spark/test_java_columns.py says that all three read alike. No
 * record makes it fail.
 */
public final class MessageColumns {
    /** The fields of the row that `decode` gives, in their order. */
    private static final int ID = 0, TIMESTAMP = 1, CORRELATION_ID = 2, TYPE = 3, REPLY_TO = 4, MODE = 5, PRIORITY = 6,
        EXPIRATION = 7, DELIVERY_TIME = 8, KIND = 9, TEXT = 10, DUPLICATE_ID = 11, PROPERTIES = 12, FIELDS = 13;
    private static final Map<String, Integer> SHOWN = Map.ofEntries(
        Map.entry("JMSMessageID", ID), Map.entry("JMSTimestamp", TIMESTAMP),
        Map.entry("JMSCorrelationID", CORRELATION_ID), Map.entry("JMSType", TYPE), Map.entry("JMSReplyTo", REPLY_TO),
        Map.entry("JMSDeliveryMode", MODE), Map.entry("JMSPriority", PRIORITY),
        Map.entry("JMSExpiration", EXPIRATION), Map.entry("JMSDeliveryTime", DELIVERY_TIME),
        Map.entry("JBMBody", KIND), Map.entry("JBMDuplicateID", DUPLICATE_ID));

    private static final UTF8String KIND_TEXT = UTF8String.fromString("text"), NONE = UTF8String.fromString("none"),
        BYTES = UTF8String.fromString("bytes"), PERSISTENT = UTF8String.fromString("PERSISTENT"),
        NON_PERSISTENT = UTF8String.fromString("NON_PERSISTENT");
    private static final UTF8String[] OTHER_KINDS = {
        BYTES, UTF8String.fromString("map"), UTF8String.fromString("stream"), UTF8String.fromString("object")};
    private static final int PRIORITY_DEFAULT = 4;
    /** 9999-12-31, as in columns.py. */
    private static final long INSTANT_MS_MAX = 253_402_214_400_000L;

    private static final ThreadLocal<MessageColumns> OF_THREAD = ThreadLocal.withInitial(MessageColumns::new);

    private final HeaderNames headerNames = new HeaderNames(SHOWN);

    private MessageColumns() {
    }

    /** The row of what the headers, which may be null, and the value say. */
    public static InternalRow decode(ArrayData headers, byte[] value) {
        return OF_THREAD.get().read(headers, value);
    }

    private InternalRow read(ArrayData headers, byte[] value) {
        Object[] row = new Object[FIELDS];
        int count = headers == null ? 0 : headers.numElements();
        headerNames.begin(count);
        UTF8String said = null;
        for (int i = 0; i < count; i++) {
            InternalRow pair = headers.getStruct(i, 2);
            HeaderNames.Header header = headerNames.header(i, pair.getUTF8String(0));
            byte[] bytes = pair.isNullAt(1) ? null : pair.getBinary(1);
            if (header.field == KIND) {
                said = bytes == null ? null : UTF8String.fromBytes(bytes);
            } else if (header.field >= 0) {
                ofOurs(row, header.field, bytes);
            } else if (header.property != null && (bytes == null || Texts.areUtf8(bytes))) {
                headerNames.show(header, bytes);
            }
        }
        row[PROPERTIES] = new ArrayBasedMapData(
            some(headerNames.names, headerNames.shown), some(headerNames.texts, headerNames.shown));
        complete(row, said, value);
        return new GenericInternalRow(row);
    }

    /** Of several the last that counts. */
    private static void ofOurs(Object[] row, int field, byte[] value) {
        switch (field) {
            case PRIORITY -> {
                long number = number(value);
                if (number >= 0 && number <= 9) {
                    row[PRIORITY] = (int) number;
                }
            }
            case EXPIRATION, DELIVERY_TIME -> {
                long number = number(value);
                if (number >= 0) {
                    row[field] = number == 0 ? null : instant(number);
                }
            }
            case TIMESTAMP -> {
                if (value != null) {
                    long number = number(value);
                    row[TIMESTAMP] = number < 0 ? null : instant(number);
                }
            }
            default -> {
                if (value != null) {
                    row[field] = Texts.areUtf8(value) ? UTF8String.fromBytes(value) : null;
                }
            }
        }
    }

    private static void complete(Object[] row, UTF8String said, byte[] value) {
        row[MODE] = NON_PERSISTENT.equals(row[MODE]) ? NON_PERSISTENT : PERSISTENT;
        if (row[PRIORITY] == null) {
            row[PRIORITY] = PRIORITY_DEFAULT;
        }
        if (row[ID] != null && ((UTF8String) row[ID]).numBytes() == 0) {
            row[ID] = null;
        }
        row[KIND] = kind(said, value);
        row[TEXT] = row[KIND] == KIND_TEXT && value != null ? UTF8String.fromBytes(value) : null;
    }

    private static UTF8String kind(UTF8String said, byte[] value) {
        boolean isText = KIND_TEXT.equals(said);
        if (value == null) {
            return isText ? KIND_TEXT : NONE;
        }
        if (isText && Texts.areUtf8(value)) {
            return KIND_TEXT;
        }
        if (value.length == 0 && NONE.equals(said)) {
            return NONE;
        }
        for (UTF8String each : OTHER_KINDS) {
            if (each.equals(said)) {
                return each;
            }
        }
        return BYTES;
    }

    private static ArrayData some(Object[] of, int count) {
        return new GenericArrayData(Arrays.copyOf(of, count, Object[].class));
    }

    /** Microseconds, as Spark has them. */
    private static long instant(long ms) {
        return Math.min(ms, INSTANT_MS_MAX) * 1000;
    }

    /** -1 for what is no number of at most 19 digits that fits. */
    private static long number(byte[] value) {
        if (value == null || value.length == 0 || value.length > 19) {
            return -1;
        }
        long number = 0;
        for (byte each : value) {
            if (each < '0' || each > '9') {
                return -1;
            }
            number = number * 10 + (each - '0'); // of 19 digits one that does not fit is negative
        }
        return Math.max(number, -1);
    }
}
