package jbm.spark;

import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** What one transactional id has written last: as `batch_ledger.py` records it, to the byte. */
record LedgerEntry(long number, String note) {
    /** Nothing was written. */
    static final LedgerEntry NONE = new LedgerEntry(-1, "");

    private static final Pattern PART = Pattern.compile("part: ([0-9]+) rows, ([0-9a-f]+)");

    /** A beginning of a batch's rows; the digest is the sum of theirs. */
    record Written(long rows, long digest) {
    }

    static LedgerEntry ofBatch(long batch) {
        return new LedgerEntry(batch, "");
    }

    /** It has the next batch's number, for versions that know no parts: they refuse to go on. */
    static LedgerEntry ofPart(long batch, Written written) {
        String digest = Long.toUnsignedString(written.digest, 16);
        return new LedgerEntry(batch + 1, "part: " + written.rows + " rows, " + digest);
    }

    /** The latest batch of which something is written. */
    long batch() {
        return part() == null ? number : number - 1;
    }

    /** What is written of that batch; null: all. */
    Written part() {
        Matcher found = PART.matcher(note);
        return found.matches()
            ? new Written(Long.parseLong(found.group(1)), Long.parseUnsignedLong(found.group(2), 16)) : null;
    }

    /** Its notes need no escapes. */
    byte[] encode() {
        return ("{\"number\": " + number + ", \"note\": \"" + note + "\"}").getBytes(StandardCharsets.UTF_8);
    }

    static LedgerEntry decode(byte[] value) {
        try {
            JsonNode read = new ObjectMapper().readTree(new String(value, StandardCharsets.UTF_8));
            return new LedgerEntry(read.get("number").longValue(), read.get("note").textValue());
        } catch (JsonProcessingException error) {
            throw new WriteError("a record of the ledger is no JSON: " + error.getOriginalMessage());
        }
    }
}
