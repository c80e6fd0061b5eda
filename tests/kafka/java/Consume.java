import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own consumer. Arguments: bootstrap servers, topic, partition, isolation level, the offset to begin with, and
 * timestamps (ms). Standard output: a JSON object for each record up to the end; then one with the offset that each
 * timestamp leads to (null for none), and the offsets of the partition's beginning and end.
 */
public class Consume {
    public static void main(String[] args) throws Exception {
        TopicPartition partition = new TopicPartition(args[1], Integer.parseInt(args[2]));
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", args[0], "isolation.level", args[3], "enable.auto.commit", "false",
                "auto.offset.reset", "none");
        ObjectMapper json = new ObjectMapper();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(args[4]));
            long beginning = consumer.beginningOffsets(List.of(partition)).get(partition);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    System.out.println(json.writeValueAsString(line(record)));
            }
            Map<String, Long> found = new LinkedHashMap<>();
            for (int i = 5; i < args.length; i++) {
                OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(args[i]))).get(partition);
                found.put(args[i], at == null ? null : at.offset());
            }
            System.out.println(json.writeValueAsString(Map.of("times", found, "beginning", beginning, "end", end)));
        }
    }

    static Map<String, Object> line(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(base64(header.value()));
            headers.add(pair);
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("offset", record.offset());
        line.put("timestamp", record.timestamp());
        line.put("key", base64(record.key()));
        line.put("value", base64(record.value()));
        line.put("headers", headers);
        return line;
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
