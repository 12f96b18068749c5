package jbm.spark;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;

/**
 * The one producer of its transactional id: those before it can write nothing more. By the rules of `batch_ledger.py`.
 *
 * <p>One thread at a time. What fails leaves it of no use: close it.
 */
final class SinkProducer implements AutoCloseable {
    /** In which a close may abort what is open; else the next producer of the id does, or the driver. */
    private static final Duration CLOSE = Duration.ofSeconds(2);
    private static final Duration POLL = Duration.ofMillis(200);
    private static final String MESSAGE_ID = "JMSMessageID";

    private final BatchTarget target;
    private final String name;
    private final TopicPartition ledger;
    private final KafkaProducer<byte[], byte[]> producer;
    /** A record of so many bytes may be too large by itself, so it is named. */
    private final int large;
    private LedgerEntry last = LedgerEntry.NONE;
    private boolean isBegun;
    /** Of this transaction, the first that failed, and where it was to go. */
    private volatile Exception refusal;
    private volatile String place;

    /** When this returns, what an older producer committed while it was fenced is known. */
    SinkProducer(BatchTarget target, String name) {
        this.target = target;
        this.name = name;
        this.ledger = new TopicPartition(target.ledger(), 0);
        Map<String, Object> settings = new HashMap<>(target.client());
        settings.putAll(target.producer());
        settings.put("transactional.id", name);
        this.large = Integer.parseInt(target.producer().get("batch.size")) / 2;
        this.producer = step("initialise",
            () -> new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()));
        try {
            step("initialise", () -> {
                producer.initTransactions();
                return null;
            });
            last = step("what it has written", this::lookUp);
        } catch (RuntimeException error) {
            close();
            throw error;
        }
    }

    String name() {
        return name;
    }

    /** Whether a producer for that target would be the same, so that this one may go on as it. */
    boolean isFor(BatchTarget other) {
        return target.client().equals(other.client()) && target.producer().equals(other.producer())
            && target.ledger().equals(other.ledger());
    }

    /** Whether all of the batch was written before; a WriteError where it is another one than that of its number. */
    boolean hasWritten(long batch) {
        LedgerEntry.Written part = last.part();
        if (last.batch() > batch) {
            throw new WriteError("batch " + batch + " comes after batch " + last.batch() + " was written: the "
                + "checkpoint is an older copy, or files of it were removed; begin with a new checkpoint, and with "
                + "`starting` at the first that is not written");
        }
        if (part != null && last.batch() < batch) {
            throw new WriteError("batch " + batch + " comes, and of batch " + last.batch() + " only " + part.rows()
                + " rows were written: it was repeated with other rows, or files of the checkpoint were changed; begin "
                + "with a new checkpoint, and with `starting` at the first that is not written");
        }
        return last.batch() == batch && part == null;
    }

    /** Whether it wrote something of the batch, or of a later one: then nothing of it is to be written now. */
    boolean isOf(long batch) {
        return last.batch() >= batch;
    }

    /**
     * Whether nobody has taken over since, which a task must know before it takes rows that it cannot take again.
     *
     * <p>The transaction of the next part begins with what was recorded last: only the id's own producer may.
     */
    boolean isStillOurs() {
        try {
            begin();
            sendOffsets(last);
            return true;
        } catch (KafkaException | WriteError error) {
            return false; // whatever it is: a new producer finds out, and says it better
        }
    }

    /** What of the batch is not written yet, part by part. */
    void writeParts(long batch, BatchParts parts) {
        if (last.batch() == batch && last.part() != null) {
            parts.passOver(last.part());
        }
        while (!parts.isOver()) {
            begin();
            step("write", () -> {
                parts.beginPart();
                for (ProducerRecord<byte[], byte[]> record; (record = parts.nextOfPart()) != null;) {
                    String named = named(record);
                    producer.send(record, (metadata, error) -> hear(metadata, error, named));
                }
                return null;
            });
            commit(parts.isOver() ? LedgerEntry.ofBatch(batch) : LedgerEntry.ofPart(batch, parts.written()));
        }
    }

    /** Let go; what is open is aborted. */
    @Override
    public void close() {
        try {
            producer.close(CLOSE);
        } catch (KafkaException error) {
            // Interrupted, or it failed before: it is closed all the same.
        }
    }

    private void begin() {
        if (!isBegun) {
            refusal = null;
            place = null;
            step("begin", () -> {
                producer.beginTransaction();
                return null;
            });
            isBegun = true;
        }
    }

    private void commit(LedgerEntry entry) {
        step("commit", () -> {
            // The last record: from it to the commit the ledger's other readers wait.
            producer.send(new ProducerRecord<>(ledger.topic(), ledger.partition(), key(), entry.encode()),
                (metadata, error) -> hear(metadata, error, ""));
            sendOffsets(entry);
            producer.commitTransaction();
            return null;
        });
        isBegun = false;
        last = entry;
    }

    private void sendOffsets(LedgerEntry entry) {
        producer.sendOffsetsToTransaction(
            Map.of(ledger, new OffsetAndMetadata(entry.number(), entry.note())), new ConsumerGroupMetadata(name));
    }

    /** Of most records nothing: what names one is kept until Kafka has it. */
    private String named(ProducerRecord<byte[], byte[]> record) {
        if (record.value() == null || record.value().length < large) {
            return "";
        }
        Header id = record.headers().lastHeader(MESSAGE_ID);
        return ", message " + (id == null ? "" : new String(id.value(), StandardCharsets.UTF_8)) + " of "
            + record.value().length + " bytes";
    }

    private void hear(RecordMetadata metadata, Exception error, String named) {
        if (error != null && refusal == null) {
            place = metadata == null ? null : metadata.topic() + "[" + metadata.partition() + "]" + named;
            refusal = error;
        }
    }

    private <T> T step(String what, Callable<T> work) {
        try {
            return work.call();
        } catch (Exception error) {
            // Of a transaction that failed a call says only that; the record says why.
            Exception first = WriteError.isOnlyConsequence(error) ? refusal : null;
            throw WriteError.of(first == null ? error : first, target, name, what, first == null ? null : place);
        }
    }

    private byte[] key() {
        return name.getBytes(StandardCharsets.UTF_8);
    }

    private LedgerEntry lookUp() throws Exception {
        Map<String, Object> settings = new HashMap<>(target.client());
        settings.put("default.api.timeout.ms", String.valueOf(target.patienceMs()));
        try (Admin admin = Admin.create(settings)) {
            var spec = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(ledger));
            var asked = new ListConsumerGroupOffsetsOptions().requireStable(true);
            OffsetAndMetadata found = admin.listConsumerGroupOffsets(Map.of(name, spec), asked)
                .partitionsToOffsetAndMetadata(name).get().get(ledger);
            if (found != null) {
                // librdkafka sends the byte that ends a text in C, too.
                return new LedgerEntry(found.offset(), found.metadata().replace("\0", ""));
            }
            // Behind the stable end lies a transaction of others, for ours are over. They are waited for only where we
            // have written, too: else each that a killed process left would hold up all queries that begin.
            long stable = end(admin, IsolationLevel.READ_COMMITTED);
            long end = end(admin, IsolationLevel.READ_UNCOMMITTED);
            boolean isBehind = !read(stable, end, IsolationLevel.READ_UNCOMMITTED).equals(LedgerEntry.NONE);
            return read(0, isBehind ? end : stable, IsolationLevel.READ_COMMITTED);
        }
    }

    private long end(Admin admin, IsolationLevel level) throws Exception {
        return admin.listOffsets(Map.of(ledger, OffsetSpec.latest()), new ListOffsetsOptions(level))
            .partitionResult(ledger).get().offset();
    }

    /** Our last entry between these positions of the ledger: for queries that begin, or rest for a week. */
    private LedgerEntry read(long begin, long end, IsolationLevel level) {
        if (begin >= end) {
            return LedgerEntry.NONE;
        }
        Map<String, Object> settings = new HashMap<>(target.client());
        settings.put("isolation.level", level.toString());
        settings.put("enable.auto.commit", "false");
        settings.put("default.api.timeout.ms", String.valueOf(target.patienceMs()));
        LedgerEntry found = LedgerEntry.NONE;
        byte[] key = key();
        long deadlineNs = System.nanoTime() + target.ledgerPatienceMs() * 1_000_000L;
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(ledger));
            if (begin == 0) {
                consumer.seekToBeginning(List.of(ledger));
            } else {
                consumer.seek(ledger, begin);
            }
            while (consumer.position(ledger) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    if (Arrays.equals(key, record.key())) {
                        found = LedgerEntry.decode(record.value()); // no tombstone: queries have no end
                    }
                }
                if (System.nanoTime() - deadlineNs > 0 || TaskContext.get().isInterrupted()) {
                    throw new WriteError(ledger + " was not read to offset " + end + ": a transaction is open in it, or "
                        + "the brokers did not answer; start again");
                }
            }
        }
        return found;
    }
}
