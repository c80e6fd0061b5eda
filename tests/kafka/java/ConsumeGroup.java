import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own consumer as a member of a group. Arguments: bootstrap servers, topic, group, its protocol (classic or
 * consumer), and how many records to read before it commits and leaves. Standard output: partition and offset of each.
 */
public class ConsumeGroup {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", args[0], "group.id", args[2], "group.protocol", args[3], "enable.auto.commit", "false",
                "auto.offset.reset", "earliest", "isolation.level", "read_committed", "max.poll.records", "10");
        int count = Integer.parseInt(args[4]);
        List<String> lines = new ArrayList<>();
        long giveUp = System.currentTimeMillis() + 60_000;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            while (lines.size() < count && System.currentTimeMillis() < giveUp) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    lines.add(record.partition() + " " + record.offset());
                consumer.commitSync();
            }
        }
        for (String line : lines) System.out.println(line);
    }
}
