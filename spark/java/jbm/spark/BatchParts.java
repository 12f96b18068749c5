package jbm.spark;

import java.util.Iterator;

import org.apache.kafka.clients.producer.ProducerRecord;

/** Cuts a sink partition's rows into parts, a transaction each, by the rules of `batch_parts.py`. */
final class BatchParts {
    private static final int LOOK_ROWS = 256;

    /** Ready to be written; the digest tells it from others, and rows of one place may be in another order next time. */
    record PlacedRow(ProducerRecord<byte[], byte[]> record, long digest, long place) {
    }

    private final Iterator<PlacedRow> rows;
    private final int rowsMax;
    private final long partNs;
    private PlacedRow next;
    private long count;
    private long digest;

    // Of the part at hand.
    private long inPart;
    private long enough;
    private long untilNs;
    private long lastPlace;

    BatchParts(Iterator<PlacedRow> rows, int rowsMax, long partMs) {
        this.rows = rows;
        this.rowsMax = rowsMax;
        this.partNs = partMs * 1_000_000;
        step();
    }

    /** All rows were given out. */
    boolean isOver() {
        return next == null;
    }

    /** The rows that were given out or passed over. */
    LedgerEntry.Written written() {
        return new LedgerEntry.Written(count, digest);
    }

    /** Leave out what an earlier attempt has committed. */
    void passOver(LedgerEntry.Written before) {
        while (count < before.rows() && next != null) {
            count++;
            digest += next.digest;
            step();
        }
        if (!written().equals(before) || isOver()) {
            throw new WriteError("its first " + before.rows() + " rows were written by an earlier attempt, and are "
                + "others now: a query must compute the same rows again (no rand(), no current_timestamp() in ids or "
                + "order); begin with a new checkpoint, and with `starting` at the first that is not written");
        }
    }

    /** The next records are those of a new part. */
    void beginPart() {
        inPart = 0;
        enough = Math.max(rowsMax * 4L / 5, 1);
        untilNs = System.nanoTime() + partNs;
    }

    /** The next record of the part; null at its end. */
    ProducerRecord<byte[], byte[]> nextOfPart() {
        PlacedRow row = next;
        if (row == null || inPart >= enough && (row.place != lastPlace || inPart >= rowsMax)) {
            return null;
        }
        if (inPart % LOOK_ROWS == 0 && System.nanoTime() - untilNs > 0) {
            enough = 1;
        }
        lastPlace = row.place;
        inPart++;
        count++;
        digest += row.digest;
        step();
        return row.record;
    }

    private void step() {
        next = rows.hasNext() ? rows.next() : null;
    }
}
