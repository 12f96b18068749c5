package jbm.spark;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Looks whether bytes are a text: Spark does it letter by letter, and most texts have no letter of several bytes. */
public final class Texts {
    private static final long NOT_ASCII = 0x8080808080808080L;

    private Texts() {
    }

    /** Whether they are UTF-8. */
    public static boolean areUtf8(byte[] bytes) {
        int at = 0;
        for (; at <= bytes.length - Long.BYTES; at += Long.BYTES) {
            if ((Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at) & NOT_ASCII) != 0) {
                return UTF8String.fromBytes(bytes).isValid();
            }
        }
        for (; at < bytes.length; at++) {
            if (bytes[at] < 0) {
                return UTF8String.fromBytes(bytes).isValid();
            }
        }
        return true;
    }
}
