package jbm.spark;

import java.io.Serializable;
import java.util.Map;

/**
 * Which batch it is, where it goes, and the limits of a transaction, which are those of the Python writer.
 *
 * @param client Kafka's properties by which all clients get in; they may be secrets
 * @param producer those of the producer besides
 * @param ledger the topic where each transactional id records what it has written last
 * @param query how the query's transactional ids begin
 * @param partRowsMax of one transaction
 * @param partMsMax a slow one ends sooner
 * @param patienceMs for brokers that are away, in each step
 * @param ledgerPatienceMs for open transactions of others in the ledger
 */
public record BatchTarget(Map<String, String> client, Map<String, String> producer, String ledger, String query,
    String topic, long batch, int partRowsMax, int partMsMax, int patienceMs, int ledgerPatienceMs)
    implements Serializable {

    String sinkName(int sink) {
        return query + "-" + sink;
    }

    String bootstrap() {
        return client.get("bootstrap.servers");
    }

    @Override
    public String toString() {
        return "batch " + batch + " of " + query + " to " + topic;
    }
}
