import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What Kafka's consumer (check.crcs) makes of each partition of a topic, whatever is in its files. Arguments: bootstrap
 * servers, topic, number of partitions, and pairs of a partition and an offset. Standard output: for each partition and
 * isolation level, and for each pair with the offset to begin with, a JSON object with "start" (null for the beginning),
 * "records" (as {@code Consume} prints them), "error" (null, or what the consumer threw), and "stopped" (the offset it
 * asked for in vain, before the end; null where it came to the end).
 */
public class ConsumeCases {
    static final int THREADS = 8;
    static final Duration POLL = Duration.ofMillis(100);
    /** Polls without a record or progress after which it is believed that none comes. */
    static final int PATIENCE = 12;

    /** Consumers that are not used, by isolation level and thread: a thread takes no other one's. */
    static final Map<String, KafkaConsumer<byte[], byte[]>> idle = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[2]);
        ObjectMapper json = new ObjectMapper();
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Object>> found = new ArrayList<>();
        for (int number = 0; number < partitions; number++)
            for (String isolation : List.of("read_uncommitted", "read_committed")) {
                TopicPartition partition = new TopicPartition(args[1], number);
                found.add(pool.submit(() -> consume(args[0], partition, isolation, null)));
            }
        for (int at = 3; at < args.length; at += 2) {
            TopicPartition partition = new TopicPartition(args[1], Integer.parseInt(args[at]));
            long start = Long.parseLong(args[at + 1]);
            found.add(pool.submit(() -> consume(args[0], partition, "read_uncommitted", start)));
        }
        for (Future<Object> each : found) System.out.println(json.writeValueAsString(each.get()));
        pool.shutdown();
        for (KafkaConsumer<byte[], byte[]> each : idle.values()) each.close();
        idle.clear();
    }

    /** A consumer of this thread, which is used again unless it threw or stopped: to make one costs more than most cases. */
    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        KafkaConsumer<byte[], byte[]> known = idle.remove(key(isolation));
        if (known != null) return known;
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "isolation.level", isolation, "enable.auto.commit", "false",
                "auto.offset.reset", "none", "fetch.max.wait.ms", "50", "check.crcs", "true",
                "default.api.timeout.ms", "20000", "max.partition.fetch.bytes", String.valueOf(64 << 20),
                "fetch.max.bytes", String.valueOf(64 << 20));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static String key(String isolation) {
        return isolation + " " + Thread.currentThread().getId();
    }

    static Object consume(String bootstrap, TopicPartition partition, String isolation, Long start) {
        List<Object> records = new ArrayList<>();
        String error = null;
        Long stopped = null;
        KafkaConsumer<byte[], byte[]> consumer = null;
        try {
            consumer = consumer(bootstrap, isolation);
            consumer.assign(List.of(partition));
            long at = start != null ? start : consumer.beginningOffsets(List.of(partition)).get(partition);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seek(partition, at);
            int without = 0;
            try {
                while (at < end && without < PATIENCE) {
                    ConsumerRecords<byte[], byte[]> got = consumer.poll(POLL);
                    for (ConsumerRecord<byte[], byte[]> record : got) records.add(Consume.line(record));
                    long now = consumer.position(partition);
                    without = got.isEmpty() && now <= at ? without + 1 : 0;
                    at = now;
                }
            } catch (Exception thrown) {
                error = thrown.toString();
                if (thrown.getCause() != null) error += " | " + thrown.getCause();
            }
            stopped = at < end ? at : null;
        } catch (Exception thrown) {
            error = "before the first record: " + thrown;
        }
        if (consumer != null && error == null && stopped == null) idle.put(key(isolation), consumer);
        else if (consumer != null) consumer.close();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("partition", partition.partition());
        line.put("isolation", isolation);
        line.put("start", start);
        line.put("records", records);
        line.put("error", error);
        line.put("stopped", stopped);
        return line;
    }
}
