package jbm.spark;

import java.util.Arrays;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;

import static java.nio.charset.StandardCharsets.UTF_8;

/** Kafka's records of rows with partition, key, value and {@link PackedHeaders}, from one column on. For one thread. */
final class PlacedRecords {
    private static final int KEY = 1, VALUE = 2, HEADERS = 3;

    private final String topic;
    private final int begin;
    /** By place in the record: a producer writes the same names one behind the other, record by record. */
    private byte[][] expected = new byte[32][];
    private String[] names = new String[32];

    // Of the row at hand.
    private byte[] packed;
    private int at;

    PlacedRecords(String topic, int begin) {
        this.topic = topic;
        this.begin = begin;
    }

    /** What the row says; it keeps nothing of it. */
    ProducerRecord<byte[], byte[]> of(InternalRow row) {
        byte[] key = row.isNullAt(begin + KEY) ? null : row.getBinary(begin + KEY);
        byte[] value = row.isNullAt(begin + VALUE) ? null : row.getBinary(begin + VALUE);
        return new ProducerRecord<>(topic, row.getInt(begin), key, value, headers(row.getBinary(begin + HEADERS)));
    }

    private Iterable<Header> headers(byte[] found) {
        packed = found;
        at = 0;
        int count = number();
        if (count > expected.length) {
            expected = Arrays.copyOf(expected, count);
            names = Arrays.copyOf(names, count);
        }
        Header[] headers = new Header[count];
        for (int i = 0; i < count; i++) {
            String name = name(i);
            headers[i] = new RecordHeader(name, bytes(number()));
        }
        return Arrays.asList(headers);
    }

    private String name(int place) {
        int length = number();
        byte[] known = expected[place];
        if (known == null || !Arrays.equals(known, 0, known.length, packed, at, at + length)) {
            expected[place] = Arrays.copyOfRange(packed, at, at + length);
            names[place] = new String(expected[place], UTF_8);
        }
        at += length;
        return names[place];
    }

    private byte[] bytes(int length) {
        if (length < 0) {
            return null;
        }
        at += length;
        return Arrays.copyOfRange(packed, at - length, at);
    }

    private int number() {
        int found = 0;
        for (int shift = 0;; shift += 7) {
            byte next = packed[at++];
            found |= (next & 0x7F) << shift;
            if (next >= 0) {
                return (found >>> 1) ^ -(found & 1);
            }
        }
    }
}
