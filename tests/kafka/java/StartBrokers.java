import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Starts brokers one after the other in one JVM, as {@code kafka.Kafka} does each, and shuts down each that started.
 * Arguments: their properties files. Standard output: a line for each, "started", or why it ended while it started.
 * A file with {@code test.offsets.after.ms} asks for the log start and end of each partition, that long after the start:
 * "started" is followed by {@code plain-0=0..10}, or {@code plain-1=none} where nobody leads it.
 */
public class StartBrokers {
    /** Of the broker whose thread asks: one that was refused may end the JVM while the next one starts. */
    static final InheritableThreadLocal<CompletableFuture<String>> OUTCOME = new InheritableThreadLocal<>();

    public static void main(String[] paths) throws Exception {
        Exit.setExitProcedure((status, message) -> end("exit " + status + " " + message));
        Exit.setHaltProcedure((status, message) -> end("halt " + status + " " + message));
        try {
            for (String path : paths) {
                Properties properties = new Properties();
                try (InputStream in = new FileInputStream(path)) {
                    properties.load(in);
                }
                System.out.println(start(properties, StartBrokers::offsetsAfterWait).replace('\n', ' '));
                System.out.flush();
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0); // some that were refused have left threads
    }

    /** What is asked of a broker that has started. */
    interface Question {
        String ask(Properties properties) throws Exception;
    }

    static String start(Properties properties, Question question) throws Exception {
        CompletableFuture<String> own = new CompletableFuture<>();
        OUTCOME.set(own);
        KafkaRaftServer[] server = new KafkaRaftServer[1];
        inThread(() -> {
            try {
                server[0] = new KafkaRaftServer(KafkaConfig.fromProps(properties, false), Time.SYSTEM);
                server[0].startup();
                own.complete("started");
            } catch (Throwable thrown) {
                own.complete(thrown.toString());
            }
        });
        String found = own.completeOnTimeout("does not get ready", 60, TimeUnit.SECONDS).get();
        if (found.equals("started")) found += question.ask(properties);
        CompletableFuture<String> stopped = new CompletableFuture<>();
        inThread(() -> {
            try {
                if (server[0] != null) server[0].shutdown();
            } catch (Throwable thrown) {
                thrown.printStackTrace();
            }
            stopped.complete("");
        });
        try {
            stopped.get(found.startsWith("started") ? 60 : 2, TimeUnit.SECONDS);
        } catch (TimeoutException still) {
            if (found.startsWith("started")) throw still;
        }
        return found;
    }

    static String offsetsAfterWait(Properties properties) throws Exception {
        String wait = properties.getProperty("test.offsets.after.ms");
        if (wait == null) return "";
        Thread.sleep(Long.parseLong(wait));
        return offsets(properties.getProperty("advertised.listeners").replaceFirst(".*PLAINTEXT://", ""));
    }

    static String offsets(String servers) throws Exception {
        Map<String, String> found = new TreeMap<>();
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "default.api.timeout.ms", 5000, "request.timeout.ms", 5000);
        Admin admin = Admin.create(settings);
        try {
            var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
                for (var partition : topic.partitions()) {
                    String name = topic.name() + "-" + partition.partition();
                    found.put(name, partition.leader() == null || partition.leader().isEmpty() ? "none" : "");
                }
            }
            Map<TopicPartition, OffsetSpec> first = new java.util.HashMap<>();
            Map<TopicPartition, OffsetSpec> last = new java.util.HashMap<>();
            for (String name : found.keySet()) {
                if (found.get(name).isEmpty()) {
                    int dash = name.lastIndexOf('-');
                    var at = new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
                    first.put(at, OffsetSpec.earliest());
                    last.put(at, OffsetSpec.latest());
                }
            }
            var starts = admin.listOffsets(first);
            var ends = admin.listOffsets(last);
            for (TopicPartition at : first.keySet()) {
                String text = "none";
                try {
                    text = starts.partitionResult(at).get().offset() + ".." + ends.partitionResult(at).get().offset();
                } catch (java.util.concurrent.ExecutionException unserved) {
                    // nobody serves it
                }
                found.put(at.toString(), text);
            }
        } finally {
            admin.close(Duration.ofSeconds(1)); // without a limit it may wait for ever for partitions that nobody leads
        }
        StringBuilder text = new StringBuilder();
        found.forEach((name, offsets) -> text.append(' ').append(name).append('=').append(offsets));
        return text.toString();
    }

    static void inThread(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    /** For whoever would end the JVM: the thread that does ends instead. */
    static void end(String how) {
        if (OUTCOME.get() != null) OUTCOME.get().complete(how);
        throw new ThreadDeath();
    }
}
