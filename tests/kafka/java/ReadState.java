import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

/** What Kafka reads in the small files of one directory, by their names. Argument: the directory. Output: one JSON object. */
public class ReadState {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        for (File file : new TreeMap<>(byName(new File(args[0]))).values()) {
            String name = file.getName();
            if (name.equals("leader-epoch-checkpoint")) {
                ArrayNode epochs = found.putArray(name);
                for (EpochEntry each : new LeaderEpochCheckpointFile(file, null).read()) {
                    // EpochEntry is a record in newer versions and has fields in older ones: its text is the same.
                    String[] words = each.toString().split("[^0-9]+");
                    epochs.addArray().add(Integer.parseInt(words[1])).add(Long.parseLong(words[2]));
                }
            } else if (name.endsWith("-offset-checkpoint")) {
                ObjectNode offsets = found.putObject(name);
                offsets(file).forEach((partition, offset) -> offsets.put(partition.toString(), (long) offset));
            } else if (name.equals("partition.metadata")) {
                found.put(name, new PartitionMetadataFile(file, null).read().topicId().toString());
            } else if (name.equals("meta.properties")) {
                MetaProperties properties =
                        new MetaProperties.Builder(PropertiesUtils.readPropertiesFile(file.getPath())).build();
                ObjectNode node = found.putObject(name);
                properties.clusterId().ifPresent(id -> node.put("clusterId", id));
                properties.nodeId().ifPresent(id -> node.put("nodeId", id));
                properties.directoryId().ifPresent(id -> node.put("directoryId", id.toString()));
            } else if (name.endsWith(".snapshot")) {
                ArrayNode producers = found.putArray(name);
                for (ProducerStateEntry each : ProducerStateManager.readSnapshot(file)) producers.add(producer(each));
            }
        }
        System.out.println(found);
    }

    /** By reflection, for 3.9 has no such class in Java. */
    static Map<?, ?> offsets(File file) throws Exception {
        Class<?> checkpoint = Class.forName("org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile");
        return (Map<?, ?>) checkpoint.getMethod("read").invoke(checkpoint.getConstructors()[0].newInstance(file, null));
    }

    static TreeMap<String, File> byName(File directory) {
        TreeMap<String, File> files = new TreeMap<>();
        for (File file : directory.listFiles()) files.put(file.getName(), file);
        return files;
    }

    /** A producer as its manager keeps it; of each batch, its first and last sequence and offset. */
    static ObjectNode producer(ProducerStateEntry entry) throws ReflectiveOperationException {
        ObjectNode node = JSON.createObjectNode();
        node.put("producerId", entry.producerId());
        node.put("epoch", entry.producerEpoch());
        node.put("coordinatorEpoch", entry.coordinatorEpoch());
        node.put("timestamp", entry.lastTimestamp());
        node.put("txn", entry.currentTxnFirstOffset().orElse(-1));
        ArrayNode batches = node.putArray("batches");
        for (BatchMetadata each : entry.batchMetadata())
            batches.addArray().add(each.firstSeq()).add(Private.<Integer>field(each, "lastSeq"))
                    .add(each.firstOffset()).add(Private.<Long>field(each, "lastOffset"));
        return node;
    }
}
