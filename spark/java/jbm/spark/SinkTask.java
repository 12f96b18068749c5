package jbm.spark;

import java.util.Iterator;

import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;

import scala.Option;

/**
 * Writes the records of one sink partition of a batch, in a Spark task, each once: as `record_transaction.py`, without
 * Python.
 *
 * <p>Its rows are sink, partition, key, value, packed headers, digest and place, in order; all rows of a task have one sink.
 */
public final class SinkTask implements VoidFunction<Iterator<InternalRow>> {
    private static final long serialVersionUID = 1;
    private static final int SINK = 0, DIGEST = 5, PLACE = 6;

    private final BatchTarget target;
    private transient PlacedRecords records;

    public SinkTask(BatchTarget target) {
        this.target = target;
    }

    /** Returns when all rows of the batch are committed, now or by an earlier attempt. */
    public static void write(Dataset<?> rows, BatchTarget target) {
        QueryExecution execution = rows.queryExecution();
        // Within an execution of its own: Spark shows it, and tasks have the session's settings.
        SQLExecution.withNewExecutionId(execution, Option.apply("write once"), () -> {
            execution.toRdd().toJavaRDD().foreachPartition(new SinkTask(target));
            return null;
        });
    }

    @Override
    public void call(Iterator<InternalRow> rows) {
        if (!rows.hasNext()) {
            return;
        }
        records = new PlacedRecords(target.topic(), SINK + 1);
        InternalRow first = rows.next();
        int sink = first.getInt(SINK);
        SinkProducer producer = producer(target.sinkName(sink));
        try {
            if (!producer.hasWritten(target.batch())) {
                // The first row is read before the next one takes its place.
                Iterator<BatchParts.PlacedRow> placed = new Rows(placed(first), rows, sink);
                producer.writeParts(target.batch(), new BatchParts(placed, target.partRowsMax(), target.partMsMax()));
            }
        } catch (Throwable error) {
            producer.close();
            throw error;
        }
        KeptProducers.keep(producer);
    }

    private SinkProducer producer(String name) {
        SinkProducer kept = KeptProducers.take(target, name);
        if (kept != null && (kept.isOf(target.batch()) || kept.isStillOurs())) {
            return kept;
        }
        if (kept != null) {
            kept.close();
        }
        return new SinkProducer(target, name);
    }

    private final class Rows implements Iterator<BatchParts.PlacedRow> {
        private BatchParts.PlacedRow first;
        private final Iterator<InternalRow> others;
        private final int sink;

        Rows(BatchParts.PlacedRow first, Iterator<InternalRow> others, int sink) {
            this.first = first;
            this.others = others;
            this.sink = sink;
        }

        @Override
        public boolean hasNext() {
            return first != null || others.hasNext();
        }

        @Override
        public BatchParts.PlacedRow next() {
            if (first != null) {
                BatchParts.PlacedRow begin = first;
                first = null;
                return begin;
            }
            InternalRow row = others.next();
            if (row.getInt(SINK) != sink) {
                throw new IllegalStateException(
                    "a task has rows of sink partition " + row.getInt(SINK) + ", and began with " + sink);
            }
            return placed(row);
        }
    }

    private BatchParts.PlacedRow placed(InternalRow row) {
        return new BatchParts.PlacedRow(records.of(row), row.getLong(DIGEST), row.getLong(PLACE));
    }
}
