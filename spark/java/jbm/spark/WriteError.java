package jbm.spark;

import java.util.Collection;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;

/** Rows were not written. The message is one line with the remedy, which `causes.py` finds among those of Spark. */
public final class WriteError extends RuntimeException {
    private static final String RIGHTS = "jbm-kafka docs security lists those that are needed";

    WriteError(String message) {
        super(String.join(" ", message.split("\\s+")));
    }

    /** What Kafka's client says, of a transactional id in one step; `place` is where its first failed record goes. */
    static RuntimeException of(Throwable error, BatchTarget target, String name, String step, String place) {
        Throwable cause = innermost(error);
        if (cause instanceof InterruptException || !(cause instanceof KafkaException)) {
            return cause instanceof RuntimeException unchecked ? unchecked : new RuntimeException(cause);
        }
        String about = "transactional id " + name + " at " + target.bootstrap() + ": " + step + ": ";
        return new WriteError(about + (place == null ? "" : place + ": ") + told(cause, target, name));
    }

    private static String told(Throwable cause, BatchTarget target, String name) {
        String kind = cause.getClass().getSimpleName().replaceAll("Exception$", "");
        String text = cause.getMessage() + " (" + kind + ")";
        if (isFenced(cause)) {
            return text + "; another task has taken over, another process writes with a copy of the checkpoint, or the "
                + "brokers were away for longer than a transaction may take: start again";
        }
        if (cause instanceof AuthorizationException) {
            return text + "; no access rule of Kafka's allows " + right(cause, target, name) + ": " + RIGHTS;
        }
        if (cause instanceof AuthenticationException) {
            return text + "; check " + CommonClientConfigs.SECURITY_PROTOCOL_CONFIG + " and what it needs";
        }
        if (cause instanceof RecordTooLargeException) {
            return text + "; the message is too large: write less, raise max.message.bytes of the topic, or leave "
                + "kafka.compression.type out, for rejects to take it";
        }
        if (cause instanceof TimeoutException || cause instanceof DisconnectException) {
            return "no answer from Kafka: " + text + "; see that the brokers run, and start again";
        }
        return text;
    }

    private static String right(Throwable cause, BatchTarget target, String name) {
        if (cause instanceof TopicAuthorizationException topics && !topics.unauthorizedTopics().isEmpty()) {
            return "Write on topic " + String.join(", ", sorted(topics.unauthorizedTopics()));
        }
        if (cause instanceof GroupAuthorizationException) {
            return "Read on group " + name;
        }
        return cause instanceof TransactionalIdAuthorizationException ? "Write on transactional id " + name : "it";
    }

    private static Collection<String> sorted(Collection<String> names) {
        return names.stream().sorted().toList();
    }

    /** Whether it may be of a record before: of a transaction that failed each call says that it did. */
    static boolean isOnlyConsequence(Throwable error) {
        return error instanceof KafkaException && !(error instanceof InterruptException) && !isFenced(error);
    }

    /** Whether a producer's transactional id has been taken over, or forgotten. */
    private static boolean isFenced(Throwable error) {
        Throwable cause = innermost(error);
        return cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException
            || cause instanceof InvalidPidMappingException;
    }

    /** Kafka's own, which says more than those around it: they name the step that found it. */
    private static Throwable innermost(Throwable error) {
        Throwable found = error;
        while (found.getCause() != null
            && (found instanceof ExecutionException || found.getClass() == KafkaException.class
                || (found instanceof KafkaException && found.getCause() instanceof ApiException))) {
            found = found.getCause();
        }
        return found;
    }
}
