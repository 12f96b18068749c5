package jbm.spark;

import java.util.Arrays;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers of a record as its bytes in Kafka have them: half the size of rows, which are copied again and again from
 * one task to the next.
 */
public final class PackedHeaders {
    /** Bytes of a number, at most. */
    private static final int NUMBER_MOST = 5;
    private static final ThreadLocal<PackedHeaders> OF_THREAD = ThreadLocal.withInitial(PackedHeaders::new);

    private byte[] packed = new byte[1024];
    private int at;

    private PackedHeaders() {
    }

    /** Their count; of each the name's and the value's length and bytes; a value that is null has the length -1. */
    public static byte[] pack(ArrayData headers) {
        return OF_THREAD.get().packed(headers);
    }

    private byte[] packed(ArrayData headers) {
        int count = headers.numElements();
        at = 0;
        number(count);
        for (int i = 0; i < count; i++) {
            InternalRow header = headers.getStruct(i, 2);
            text(header.getUTF8String(0));
            bytes(header.isNullAt(1) ? null : header.getBinary(1));
        }
        return Arrays.copyOf(packed, at);
    }

    private void text(UTF8String text) {
        int length = text.numBytes();
        number(length);
        reserve(length);
        text.writeToMemory(packed, Platform.BYTE_ARRAY_OFFSET + at);
        at += length;
    }

    private void bytes(byte[] value) {
        if (value == null) {
            number(-1);
            return;
        }
        number(value.length);
        reserve(value.length);
        System.arraycopy(value, 0, packed, at, value.length);
        at += value.length;
    }

    private void number(int number) {
        reserve(NUMBER_MOST);
        int left = (number << 1) ^ (number >> 31);
        while ((left & ~0x7F) != 0) {
            packed[at++] = (byte) (left & 0x7F | 0x80);
            left >>>= 7;
        }
        packed[at++] = (byte) left;
    }

    private void reserve(int more) {
        if (packed.length - at < more) {
            packed = Arrays.copyOf(packed, Math.max(packed.length * 2, at + more));
        }
    }
}
