import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.LogCleanerManager;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/** The same as the program of this name for Kafka 4, with the cleaner of 3.9. */
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
        UnifiedLog log = UnifiedLog.apply(
                new File(request.get("directory").asText()), new LogConfig(settings), 0L, 0L, scheduler,
                new BrokerTopicStats(false), time, 60_000, new ProducerStateManagerConfig(86_400_000, false), 60_000,
                new LogDirFailureChannel(1), true, Option.empty(), true, new ConcurrentHashMap<>(), false,
                LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.removeExpiredProducers(now);
        log.updateHighWatermark(log.logEndOffset());
        if (request.get("rolls").asBoolean()) log.roll(Option.empty());
        log.updateHighWatermark(log.logEndOffset());
        Option<Object> cleaned = request.get("cleaned").isNull() ? Option.empty() : Option.apply(request.get("cleaned").asLong());
        OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, cleaned, now);
        LogToClean toClean = new LogToClean(
                log.topicPartition(), log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), true);
        Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(128 << 20), 1 << 20, 1 << 20, 0.9,
                new Throttler(1e15, 300, "cleaner", "bytes", Time.SYSTEM), time, partition -> BoxedUnit.UNIT);
        answer.put("clean", toClean.cleanableBytes() > 0
                ? (Long) cleaner.doClean(toClean, now)._1() : (Long) offsets.firstDirtyOffset());
        log.close();
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
