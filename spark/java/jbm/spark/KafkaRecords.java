package jbm.spark;

import java.sql.Timestamp;
import java.util.ArrayList;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.Partition;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.KafkaSourceRDD;
import org.apache.spark.unsafe.types.UTF8String;

import scala.collection.immutable.Vector;
import scala.jdk.javaapi.CollectionConverters;

/** The rows of Spark's Kafka source, by its own consumers, but without a copy of each: of most records few bytes count. */
public final class KafkaRecords implements Function<ConsumerRecord<byte[], byte[]>, InternalRow> {
    private static final long serialVersionUID = 1;

    private transient String topicName;
    private transient UTF8String topic;

    private KafkaRecords() {
    }

    /**
     * The rows that `source` has, a batch of Spark's Kafka source with headers, up to the ends that its topics have now;
     * null where it is something else, or reads nothing.
     */
    public static Dataset<Row> of(Dataset<Row> source) {
        var ranges = new ArrayList<KafkaOffsetRange>();
        KafkaBatchInputPartition read = null;
        for (Partition each : source.queryExecution().toRdd().partitions()) {
            Object part = each instanceof DataSourceRDDPartition of && of.inputPartition().isDefined()
                ? of.inputPartition().get() : null;
            if (!(part instanceof KafkaBatchInputPartition one) || !one.includeHeaders()) {
                return null;
            }
            read = one;
            ranges.add(one.offsetRange());
        }
        if (read == null) {
            return null;
        }
        RDD<InternalRow> rows = new KafkaSourceRDD(
            source.sparkSession().sparkContext(), read.executorKafkaParams(),
            Vector.from(CollectionConverters.asScala(ranges)), read.pollTimeoutMs(), read.failOnDataLoss())
            .toJavaRDD().map(new KafkaRecords()).rdd();
        return source.sparkSession().internalCreateDataFrame(rows, source.schema(), false);
    }

    @Override
    public InternalRow call(ConsumerRecord<byte[], byte[]> read) {
        if (!read.topic().equals(topicName)) {
            topicName = read.topic();
            topic = UTF8String.fromString(topicName);
        }
        return new GenericInternalRow(new Object[] {
            read.key(), read.value(), topic, read.partition(), read.offset(),
            DateTimeUtils.fromJavaTimestamp(new Timestamp(read.timestamp())), read.timestampType().id,
            headers(read.headers().toArray())});
    }

    private static ArrayData headers(Header[] headers) {
        if (headers.length == 0) {
            return null;
        }
        var rows = new Object[headers.length];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new GenericInternalRow(
                new Object[] {UTF8String.fromString(headers[i].key()), headers[i].value()});
        }
        return new GenericArrayData(rows);
    }
}
