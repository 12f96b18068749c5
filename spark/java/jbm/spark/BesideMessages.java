package jbm.spark;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import org.apache.spark.Partition;
import org.apache.spark.api.java.function.FlatMapFunction2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.kafka010.KafkaSourceRDDPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Puts what is known of messages beside them: both come in the order of their partition's log, so no row is moved, and
 * of what is known only that is held which is about the message at hand.
 *
 * <p>The rows beside them are FIRST and LAST, the offsets that they are about, and one of a fate, a letter, and a mark
 * that says whether these are settled; they come in the order of their first offsets.
 */
public final class BesideMessages
    implements FlatMapFunction2<Iterator<InternalRow>, Iterator<InternalRow>, InternalRow> {
    private static final long serialVersionUID = 1;
    private static final int FIRST = 0, LAST = 1, FATE = 2, LETTER = 3, IS_SETTLED = 4;
    private static final int TOPIC = 0, OFFSET = 1;

    private final StructType fate;
    private final int letterFields;
    private final HashMap<String, UTF8String[]> names = new HashMap<>();

    private BesideMessages(Map<String, List<String>> names, StructType beside) {
        fate = (StructType) beside.fields()[FATE].dataType();
        letterFields = ((StructType) beside.fields()[LETTER].dataType()).length();
        names.forEach((topic, told) ->
            this.names.put(topic, told.stream().map(UTF8String::fromString).toArray(UTF8String[]::new)));
    }

    /** Topic and number of each partition, which is one of Kafka's; null where it is not so, or where there is none. */
    public static List<List<Object>> places(Dataset<Row> messages) {
        var found = new ArrayList<List<Object>>();
        for (Partition each : messages.queryExecution().toRdd().partitions()) {
            if (!(each instanceof KafkaSourceRDDPartition one)) {
                return null;
            }
            var place = one.offsetRange().topicPartition();
            found.add(List.of(place.topic(), place.partition()));
        }
        return found.isEmpty() || found.stream().distinct().count() < found.size() ? null : found;
    }

    /**
     * The messages, each with the names of its topic, and `is_settled`, `fates` in order, and `letters`.
     *
     * @param messages begin with topic and offset
     * @param beside partition by partition what is known of the messages of the partition
     * @param schema that of the result
     */
    public static Dataset<Row> walk(
        Dataset<Row> messages, Dataset<Row> beside, Map<String, List<String>> names, StructType schema) {
        var walk = new BesideMessages(names, beside.schema());
        RDD<InternalRow> rows = messages.queryExecution().toRdd().toJavaRDD()
            .zipPartitions(beside.queryExecution().toRdd().toJavaRDD(), walk).rdd();
        return messages.sparkSession().internalCreateDataFrame(rows, schema, false);
    }

    @Override
    public Iterator<InternalRow> call(Iterator<InternalRow> messages, Iterator<InternalRow> beside) {
        return new Walk(messages, beside);
    }

    /** What is known of some messages that follow each other. */
    private record Known(long first, long last, InternalRow fate, InternalRow letter, Boolean isSettled) {
    }

    private final class Walk implements Iterator<InternalRow> {
        private final Iterator<InternalRow> messages;
        private final Iterator<InternalRow> beside;
        private final Comparator<Object> inOrder = TypeUtils.getInterpretedOrdering(fate);
        private final GenericInternalRow told = new GenericInternalRow(5);
        private final JoinedRow joined = new JoinedRow();
        private final List<Known> here = new ArrayList<>();
        private Known next;
        private UTF8String topic;
        private long before = -1, unchangedUntil = -1;

        Walk(Iterator<InternalRow> messages, Iterator<InternalRow> beside) {
            this.messages = messages;
            this.beside = beside;
            next = read();
        }

        @Override
        public boolean hasNext() {
            return messages.hasNext();
        }

        @Override
        public InternalRow next() {
            InternalRow message = messages.next();
            long offset = message.getLong(OFFSET);
            if (offset <= before) {
                throw new IllegalStateException("offset " + offset + " came behind " + before);
            }
            before = offset;
            if (!message.getUTF8String(TOPIC).equals(topic)) {
                topic = message.getUTF8String(TOPIC).copy();
                UTF8String[] known = names.get(topic.toString());
                told.update(0, known[0]);
                told.update(1, known[1]);
            }
            if (offset > unchangedUntil) {
                step(offset);
            }
            return joined.apply(message, told);
        }

        private void step(long offset) {
            here.removeIf(each -> each.last < offset);
            for (; next != null && next.first <= offset; next = read()) {
                if (next.last >= offset) {
                    here.add(next);
                }
            }
            unchangedUntil = next == null ? Long.MAX_VALUE : next.first - 1;
            var fates = new ArrayList<Object>(here.size());
            var letters = new ArrayList<Object>();
            boolean isSettled = false, isExcepted = false;
            for (Known each : here) {
                unchangedUntil = Math.min(unchangedUntil, each.last);
                if (each.fate != null) {
                    fates.add(each.fate);
                } else if (each.letter != null) {
                    letters.add(each.letter);
                } else {
                    isSettled |= each.isSettled;
                    isExcepted |= !each.isSettled;
                }
            }
            fates.sort(inOrder);
            told.update(2, isSettled && !isExcepted);
            told.update(3, arrayOf(fates));
            told.update(4, arrayOf(letters));
        }

        private Known read() {
            if (!beside.hasNext()) {
                return null;
            }
            InternalRow row = beside.next();
            return new Known(
                row.getLong(FIRST), row.getLong(LAST),
                row.isNullAt(FATE) ? null : row.getStruct(FATE, fate.length()).copy(),
                row.isNullAt(LETTER) ? null : row.getStruct(LETTER, letterFields).copy(),
                row.isNullAt(IS_SETTLED) ? null : row.getBoolean(IS_SETTLED));
        }

        private static ArrayData arrayOf(List<Object> rows) {
            return new GenericArrayData(rows.toArray());
        }
    }
}
