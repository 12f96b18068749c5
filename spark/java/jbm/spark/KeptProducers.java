package jbm.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Producers of this process that nobody uses now, by their transactional ids, for the next batch.
 *
 * <p>To make one takes connections, a fence and a look-up. Nobody but its user has one, so that two attempts of a task
 * never share it. A batch may go to other processes meanwhile: so whoever takes one asks it whether it is still theirs.
 */
final class KeptProducers {
    /** A query whose batches come later makes them anew. */
    private static final long IDLE_S = 60;

    private static final Map<String, Kept> KEPT = new HashMap<>();
    private static final ScheduledThreadPoolExecutor CLOSING = new ScheduledThreadPoolExecutor(1, work -> {
        Thread thread = new Thread(work, "jbm-kept-producers");
        thread.setDaemon(true);
        return thread;
    });

    static {
        CLOSING.setRemoveOnCancelPolicy(true);
    }

    private record Kept(SinkProducer producer, ScheduledFuture<?> end) {
    }

    private KeptProducers() {
    }

    /** The one of that name; null where there is none, or one with other properties. */
    static SinkProducer take(BatchTarget target, String name) {
        SinkProducer found = taken(name);
        if (found != null && !found.isFor(target)) {
            found.close();
            return null;
        }
        return found;
    }

    /** Kept for the next batch; for a moment two of a name may be there, of which the older one is fenced. */
    static void keep(SinkProducer producer) {
        Kept before;
        synchronized (KEPT) {
            var end = CLOSING.schedule(() -> end(producer), IDLE_S, TimeUnit.SECONDS);
            before = KEPT.put(producer.name(), new Kept(producer, end));
        }
        if (before != null) {
            before.end.cancel(false);
            before.producer.close();
        }
    }

    private static SinkProducer taken(String name) {
        synchronized (KEPT) {
            Kept found = KEPT.remove(name);
            if (found == null) {
                return null;
            }
            found.end.cancel(false);
            return found.producer;
        }
    }

    private static void end(SinkProducer producer) {
        synchronized (KEPT) {
            Kept found = KEPT.get(producer.name());
            if (found == null || found.producer != producer) {
                return;
            }
            KEPT.remove(producer.name());
        }
        producer.close();
    }
}
