import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Kafka's own consumer, which reads a partition from its beginning to its end: {@code ConsumeRecords SERVERS TOPIC}. */
public final class ConsumeRecords {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", "false");
        List<TopicPartition> partition = List.of(new TopicPartition(arguments[1], 0));
        var bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(partition);
            long end = consumer.endOffsets(partition).get(partition.get(0));
            Turns.take(() -> {
                consumer.seekToBeginning(partition);
                long count = 0;
                while (count < end) {
                    count += consumer.poll(Duration.ofSeconds(10)).count();
                }
                return new Turns.Done(count, 0);
            });
        }
    }
}
