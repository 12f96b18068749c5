package jbm.spark;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.kafka010.producer.CachedKafkaProducer;
import org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$;

import scala.Option;

/**
 * Writes the records of a partition of a frame, in a Spark task, as Spark's own sink does and by its producer, but
 * without a copy of each row.
 *
 * <p>Its rows are partition, key, value and packed headers, in order.
 */
public final class PlainTask implements VoidFunction<Iterator<InternalRow>> {
    private static final long serialVersionUID = 1;

    private final HashMap<String, Object> settings;
    private final String topic;

    private PlainTask(Map<String, String> settings, String topic) {
        this.settings = new HashMap<>(settings);
        this.topic = topic;
        for (String name : new String[] {"key.serializer", "value.serializer"}) {
            this.settings.put(name, ByteArraySerializer.class.getName());
        }
    }

    /** Returns when Kafka has the records of all rows. The settings are those of Kafka's producer. */
    public static void write(Dataset<?> rows, Map<String, String> settings, String topic) {
        var task = new PlainTask(settings, topic);
        QueryExecution execution = rows.queryExecution();
        SQLExecution.withNewExecutionId(execution, Option.apply("write"), () -> {
            execution.toRdd().toJavaRDD().foreachPartition(task);
            return null;
        });
    }

    @Override
    public void call(Iterator<InternalRow> rows) throws Exception {
        if (!rows.hasNext()) {
            return;
        }
        CachedKafkaProducer pooled = InternalKafkaProducerPool$.MODULE$.acquire(settings);
        var failure = new AtomicReference<Exception>();
        try {
            send(rows, pooled.producer(), failure);
        } finally {
            InternalKafkaProducerPool$.MODULE$.release(pooled);
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private void send(
        Iterator<InternalRow> rows, KafkaProducer<byte[], byte[]> producer, AtomicReference<Exception> failure) {
        var records = new PlacedRecords(topic, 0);
        Callback hear = (metadata, error) -> {
            if (error != null) {
                failure.compareAndSet(null, error);
            }
        };
        try {
            while (rows.hasNext() && failure.get() == null) {
                producer.send(records.of(rows.next()), hear);
            }
        } finally {
            // Also of a task that fails: what it has sent comes before what the next attempt sends.
            producer.flush();
        }
    }
}
