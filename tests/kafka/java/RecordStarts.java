import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Starts brokers as {@code StartBrokers} does, and says what each made of its directories. Standard input: a line for each
 * with its properties file. Standard output: for each a JSON object: "outcome" ("started", or why it ended); "partitions":
 * by name null where nobody serves it, else "start", "end", and by isolation level "records" (offset and SHA-256 of each),
 * "error" and "stopped" as {@code ConsumeCases} has them; "groups": by group and partition the committed offset; "files":
 * sizes by path, {@code record.wait.ms} after the start.
 */
public class RecordStarts {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(100);
    static final int PATIENCE = 12, THREADS = 6, MOST_WAITS = 40;

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> StartBrokers.end("exit " + status + " " + message));
        Exit.setHaltProcedure((status, message) -> StartBrokers.end("halt " + status + " " + message));
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String path; (path = in.readLine()) != null; ) {
            Properties properties = new Properties();
            try (InputStream file = new FileInputStream(path)) {
                properties.load(file);
            }
            String said;
            try {
                said = StartBrokers.start(properties, RecordStarts::ask);
            } catch (Throwable thrown) {
                thrown.printStackTrace();
                said = "failed: " + thrown;
            }
            Map<String, Object> answer = new HashMap<>();
            int at = said.indexOf('{');
            boolean isStarted = said.startsWith("started{");
            answer.put("outcome", isStarted ? "started" : said);
            if (isStarted) answer.putAll(JSON.readValue(said.substring(at), Map.class));
            else answer.put("files", files(properties));
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static String ask(Properties properties) throws Exception {
        String servers = properties.getProperty("advertised.listeners").replaceFirst(".*PLAINTEXT://", "");
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "default.api.timeout.ms", 5000, "request.timeout.ms", 5000);
        Admin admin = Admin.create(settings);
        try {
            Map<TopicPartition, Boolean> led = led(admin);
            Thread.sleep(Long.parseLong(properties.getProperty("record.wait.ms")));
            Map<String, Object> answer = new HashMap<>();
            answer.put("partitions", partitions(admin, servers, led));
            answer.put("groups", groups(admin));
            answer.put("files", files(properties));
            return JSON.writeValueAsString(answer);
        } finally {
            admin.close(Duration.ofSeconds(1));
        }
    }

    /** All partitions, and whether somebody leads them: waits while more of them get a leader. */
    static Map<TopicPartition, Boolean> led(Admin admin) throws Exception {
        Map<TopicPartition, Boolean> found = new HashMap<>();
        int same = 0;
        for (int turn = 0; turn < MOST_WAITS && same < 10; turn++) {
            Map<TopicPartition, Boolean> now = new HashMap<>();
            var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values())
                for (var each : topic.partitions())
                    now.put(new TopicPartition(topic.name(), each.partition()),
                            each.leader() != null && !each.leader().isEmpty());
            same = now.equals(found) ? same + 1 : 0;
            found = now;
            if (!now.isEmpty() && !now.containsValue(false) && same > 2) break;
            Thread.sleep(100);
        }
        return found;
    }

    static Map<String, Object> partitions(Admin admin, String servers, Map<TopicPartition, Boolean> led)
            throws Exception {
        Map<TopicPartition, OffsetSpec> first = new HashMap<>(), last = new HashMap<>();
        led.forEach((at, isLed) -> {
            if (isLed) {
                first.put(at, OffsetSpec.earliest());
                last.put(at, OffsetSpec.latest());
            }
        });
        var starts = admin.listOffsets(first);
        var ends = admin.listOffsets(last);
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        Map<String, Object> found = new TreeMap<>();
        Map<String, Future<Map<String, Object>>> consumed = new TreeMap<>();
        for (TopicPartition at : led.keySet()) {
            found.put(at.toString(), null);
            if (!led.get(at)) continue;
            try {
                long start = starts.partitionResult(at).get().offset(), end = ends.partitionResult(at).get().offset();
                boolean isInternal = at.topic().startsWith("__");
                consumed.put(at.toString(), pool.submit(() -> consumed(servers, at, start, end, isInternal)));
            } catch (ExecutionException unserved) {
                // null says so
            }
        }
        for (String each : consumed.keySet()) found.put(each, consumed.get(each).get());
        pool.shutdown();
        return found;
    }

    static Map<String, Object> consumed(String servers, TopicPartition at, long start, long end, boolean isInternal) {
        Map<String, Object> answer = new TreeMap<>(Map.of("start", start, "end", end));
        if (!isInternal)
            for (String isolation : List.of("read_uncommitted", "read_committed"))
                answer.put(isolation, consume(servers, at, isolation, start, end));
        return answer;
    }

    static Object consume(String servers, TopicPartition partition, String isolation, long start, long end) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "isolation.level", isolation, "enable.auto.commit", "false",
                "auto.offset.reset", "none", "fetch.max.wait.ms", "50", "check.crcs", "true");
        List<Object> records = new ArrayList<>();
        Map<String, Object> answer = new TreeMap<>();
        answer.put("records", records);
        if (start == end) return answer;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, start);
            long at = start;
            try {
                for (int idle = 0; at < end && idle < PATIENCE; ) {
                    ConsumerRecords<byte[], byte[]> got = consumer.poll(POLL);
                    for (ConsumerRecord<byte[], byte[]> each : got) records.add(List.of(each.offset(), digest(each)));
                    long now = consumer.position(partition);
                    idle = got.isEmpty() && now <= at ? idle + 1 : 0;
                    at = now;
                }
            } catch (Exception thrown) {
                answer.put("error", thrown.toString());
            }
            if (at < end) answer.put("stopped", at);
        }
        return answer;
    }

    /** Of time, key, value and headers, each text with its length (four bytes, -1 for null) before it. */
    static String digest(ConsumerRecord<byte[], byte[]> record) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(record.timestamp());
        write(out, record.key());
        write(out, record.value());
        for (Header each : record.headers()) {
            write(out, each.key().getBytes(StandardCharsets.UTF_8));
            write(out, each.value());
        }
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes.toByteArray());
        StringBuilder text = new StringBuilder();
        for (byte each : digest) text.append(String.format("%02x", each));
        return text.substring(0, 16);
    }

    static void write(DataOutputStream out, byte[] text) throws IOException {
        out.writeInt(text == null ? -1 : text.length);
        if (text != null) out.write(text);
    }

    static Map<String, Object> groups(Admin admin) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (var group : admin.listConsumerGroups().valid().get()) {
            Map<String, Object> offsets = new TreeMap<>();
            try {
                admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get()
                        .forEach((at, offset) -> offsets.put(at.toString(), offset == null ? null : offset.offset()));
                found.put(group.groupId(), offsets);
            } catch (ExecutionException unserved) {
                found.put(group.groupId(), null);
            }
        }
        return found;
    }

    /** Those that go while they are listed are left out, and all others are not. */
    static Map<String, Object> files(Properties properties) throws IOException {
        Map<String, Object> found = new TreeMap<>();
        for (String directory : properties.getProperty("log.dirs").split(",")) {
            Path root = Path.of(directory);
            Files.walkFileTree(root, new SimpleFileVisitor<Path>() {
                void put(Path path, long size) {
                    if (!path.equals(root)) found.put(root.getFileName() + "/" + root.relativize(path), size);
                }

                @Override
                public FileVisitResult preVisitDirectory(Path path, BasicFileAttributes attributes) {
                    put(path, -1);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFile(Path path, BasicFileAttributes attributes) {
                    put(path, attributes.size());
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path path, IOException gone) {
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path path, IOException gone) {
                    return FileVisitResult.CONTINUE;
                }
            });
        }
        return found;
    }
}
