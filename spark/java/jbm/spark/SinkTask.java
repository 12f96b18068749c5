package jbm.spark;

import java.util.Arrays;
import java.util.Iterator;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.unsafe.types.UTF8String;

import scala.Option;

/**
 * Writes the records of one sink partition of a batch, in a Spark task, each once: as `record_transaction.py`, without
 * Python.
 *
 * <p>Its rows are sink, partition, key, value, headers, digest and place, in order; all rows of a task have one sink.
 */
public final class SinkTask implements VoidFunction<Iterator<InternalRow>> {
    private static final long serialVersionUID = 1;
    private static final int SINK = 0, PARTITION = 1, KEY = 2, VALUE = 3, HEADERS = 4, DIGEST = 5, PLACE = 6;
    private static final Header[] NO_HEADERS = {};

    private final BatchTarget target;
    // Of a task: a producer writes the same names one behind the other, record by record.
    private transient UTF8String[] expected;
    private transient String[] names;

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
        expected = new UTF8String[32];
        names = new String[32];
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
        byte[] key = row.isNullAt(KEY) ? null : row.getBinary(KEY);
        byte[] value = row.isNullAt(VALUE) ? null : row.getBinary(VALUE);
        Iterable<Header> headers = Arrays.asList(row.isNullAt(HEADERS) ? NO_HEADERS : headers(row.getArray(HEADERS)));
        var record = new ProducerRecord<>(target.topic(), row.getInt(PARTITION), key, value, headers);
        return new BatchParts.PlacedRow(record, row.getLong(DIGEST), row.getLong(PLACE));
    }

    private Header[] headers(ArrayData pairs) {
        int count = pairs.numElements();
        if (count > expected.length) {
            expected = Arrays.copyOf(expected, count);
            names = Arrays.copyOf(names, count);
        }
        Header[] headers = new Header[count];
        for (int i = 0; i < count; i++) {
            InternalRow pair = pairs.getStruct(i, 2);
            UTF8String key = pair.getUTF8String(0);
            if (!key.equals(expected[i])) {
                expected[i] = key.copy();
                names[i] = key.toString();
            }
            headers[i] = new RecordHeader(names[i], pair.isNullAt(1) ? null : pair.getBinary(1));
        }
        return headers;
    }
}
