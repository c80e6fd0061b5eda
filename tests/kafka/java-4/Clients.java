import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients, one after the other. Arguments: bootstrap servers, and for each client
 * {@code share,GROUP,TOPIC,COUNT}, {@code consumer,...} or {@code classic,...}, which reads so many records, commits and
 * leaves, or {@code transact,ID,TOPIC,COUNT}, which writes them in a transaction. Standard output: a line for each, with
 * PARTITION:OFFSET of each record, or why it failed. A client ends when it has got nothing for 10 seconds.
 */
public class Clients {
    static final long PATIENCE_MS = 10_000;

    public static void main(String[] args) throws Exception {
        for (String each : List.of(args).subList(1, args.length)) {
            String[] words = each.split(",");
            int count = Integer.parseInt(words[3]);
            try {
                List<String> found = switch (words[0]) {
                    case "share" -> share(args[0], words[1], words[2], count);
                    case "transact" -> transact(args[0], words[1], words[2], count);
                    default -> consume(args[0], words[0], words[1], words[2], count);
                };
                System.out.println(String.join(" ", found));
            } catch (Exception error) {
                System.out.println("failed: " + error.toString().replace('\n', ' '));
            }
        }
    }

    static List<String> share(String servers, String group, String topic, int count) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", servers))) {
            var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", group);
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            List<String> found = poll(() -> consumer.poll(Duration.ofMillis(200)), count);
            consumer.commitSync();
            return found;
        }
    }

    static List<String> consume(String servers, String protocol, String group, String topic, int count) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "group.id", group, "group.protocol", protocol, "enable.auto.commit", "false",
                "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            List<String> found = poll(() -> consumer.poll(Duration.ofMillis(200)), count);
            consumer.commitSync();
            return found;
        }
    }

    static List<String> poll(Supplier<ConsumerRecords<byte[], byte[]>> next, int count) {
        List<String> found = new ArrayList<>();
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < until) {
            for (ConsumerRecord<byte[], byte[]> record : next.get()) {
                found.add(record.partition() + ":" + record.offset());
                until = System.currentTimeMillis() + PATIENCE_MS;
            }
        }
        return found;
    }

    static List<String> transact(String servers, String id, String topic, int count) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "transactional.id", id, "max.block.ms", 20_000);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            List<String> found = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                var sent = producer.send(new ProducerRecord<>(topic, 0, null, new byte[] {(byte) number})).get();
                found.add(sent.partition() + ":" + sent.offset());
            }
            producer.commitTransaction();
            return found;
        }
    }
}
