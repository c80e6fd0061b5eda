import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's cleaner, on the logs of partitions, whose directories it changes. Standard input: a JSON object for each, with the
 * directory, the topic's settings, the time, the offset up to which it was cleaned (or null), and whether a new segment
 * begins first. Standard output: a JSON object for each: up to which offset it is clean now, and for how long it took.
 */
public class CleanLogs {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Map<String, Object> answer = new LinkedHashMap<>();
                try {
                    clean(JSON.readTree(line), answer, scheduler);
                } catch (Throwable thrown) {
                    answer.put("error", thrown.toString());
                }
                out.append(JSON.writeValueAsString(answer)).append('\n');
            }
        }
        scheduler.shutdown();
        System.out.print(out);
    }

    static void clean(JsonNode request, Map<String, Object> answer, KafkaScheduler scheduler) throws Exception {
        Map<String, String> settings = new LinkedHashMap<>();
        request.get("settings").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        long now = request.get("nowMs").asLong();
        Time time = new Stopped(now);
        File directory = new File(request.get("directory").asText());
        UnifiedLog log = UnifiedLog.create(
                directory, new LogConfig(settings), 0L, 0L, scheduler, new BrokerTopicStats(), time, 60_000,
                new ProducerStateManagerConfig(86_400_000, false), 60_000, new LogDirFailureChannel(1), true, Optional.empty());
        log.removeExpiredProducers(now);
        log.updateHighWatermark(log.logEndOffset());
        if (request.get("rolls").asBoolean()) log.roll();
        log.updateHighWatermark(log.logEndOffset());
        Optional<Long> cleaned = request.get("cleaned").isNull() ? Optional.empty() : Optional.of(request.get("cleaned").asLong());
        Method method = LogCleanerManager.class.getDeclaredMethod("cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        method.setAccessible(true);
        Object offsets = method.invoke(null, log, cleaned, now);
        LogToClean toClean = new LogToClean(log, offset(offsets, "firstDirtyOffset"), offset(offsets, "firstUncleanableDirtyOffset"), true);
        Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(128 << 20), 1 << 20, 1 << 20, 0.9,
                new Throttler(1e15, 300, "cleaner", "bytes", Time.SYSTEM), time, partition -> {});
        long before = System.nanoTime();
        answer.put("clean", toClean.cleanableBytes() > 0 ? cleaner.clean(toClean).getKey() : offset(offsets, "firstDirtyOffset"));
        answer.put("seconds", (System.nanoTime() - before) / 1e9);
        log.close();
    }

    static long offset(Object offsets, String name) throws Exception {
        Method method = offsets.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (Long) method.invoke(offsets);
    }

    /** A clock that stands still. */
    record Stopped(long milliseconds) implements Time {
        public long hiResClockMs() {
            return milliseconds;
        }

        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        public void sleep(long ms) {}

        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadline) {}
    }
}
