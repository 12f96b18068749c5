package jbm.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;

import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Tells of each message the greatest values that earlier ones of its unit have: messages come in the order of their
 * partition's log, and a unit is in one partition, so a pass over them does it.
 *
 * <p>The window functions `ORDER` of audit_checks.py, for as many units as are held at once.
 */
public final class UnitOrder implements FlatMapFunction<Iterator<InternalRow>, InternalRow> {
    private static final long serialVersionUID = 1;
    private static final int OFFSET = 0, KEY = 1, VALUES = 2;

    private final int values;
    private final int unitsMost;

    private UnitOrder(int values, int unitsMost) {
        this.values = values;
        this.unitsMost = unitsMost;
    }

    /**
     * The messages, each with `is_told`, and for each value the greatest that came before in its unit and the latest
     * offset that has it, or two nulls. They are not told from where the partition has more units than `unitsMost`.
     *
     * @param messages begin with offset, key and so many values, which are null where they do not count
     * @param schema that of the result
     */
    public static Dataset<Row> walk(Dataset<Row> messages, int values, int unitsMost, StructType schema) {
        RDD<InternalRow> rows = messages.queryExecution().toRdd().toJavaRDD()
            .mapPartitions(new UnitOrder(values, unitsMost)).rdd();
        return messages.sparkSession().internalCreateDataFrame(rows, schema, false);
    }

    @Override
    public Iterator<InternalRow> call(Iterator<InternalRow> messages) {
        return new Walk(messages);
    }

    private final class Walk implements Iterator<InternalRow> {
        private final Iterator<InternalRow> messages;
        /** By unit each greatest value, and behind it the offset that has it, or -1. */
        private final HashMap<UTF8String, long[]> units = new HashMap<>();
        private final GenericInternalRow told = new GenericInternalRow(1 + 2 * values);
        private final JoinedRow joined = new JoinedRow();
        private boolean isTold = true;

        Walk(Iterator<InternalRow> messages) {
            this.messages = messages;
        }

        @Override
        public boolean hasNext() {
            return messages.hasNext();
        }

        @Override
        public InternalRow next() {
            InternalRow message = messages.next();
            // Each message without a unit stands for itself.
            byte[] key = message.isNullAt(KEY) ? null : message.getBinary(KEY);
            long[] before = null;
            if (isTold && key != null && key.length > 0) {
                UTF8String unit = UTF8String.fromBytes(key);
                before = units.get(unit);
                if (before == null && units.size() < unitsMost) {
                    before = new long[2 * values];
                    Arrays.fill(before, -1);
                    units.put(unit, before);
                }
                isTold = before != null;
            }
            told.update(0, isTold);
            for (int value = 0, offset = 1; offset < 2 * values; value += 2, offset += 2) {
                boolean isNone = before == null || before[offset] < 0;
                told.update(1 + value, isNone ? null : before[value]);
                told.update(1 + offset, isNone ? null : before[offset]);
                int at = VALUES + value / 2;
                if (before != null && !message.isNullAt(at) && (isNone || message.getLong(at) >= before[value])) {
                    before[value] = message.getLong(at);
                    before[offset] = message.getLong(OFFSET);
                }
            }
            return joined.apply(message, told);
        }
    }
}
