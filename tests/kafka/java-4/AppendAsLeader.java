import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * What the leader of a partition writes of produced batches: each into an empty log of its own. Argument: a directory
 * for them. Standard input: a JSON object for each produce request, with the batches in base64, the topic's settings, the
 * first offset and the leader epoch. Standard output: a JSON object for each, with what is then in the log.
 */
public class AppendAsLeader {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            int number = 0;
            for (String line = lines.readLine(); line != null; line = lines.readLine(), number++) {
                File directory = Path.of(args[0], "topic-" + number).toFile();
                out.append(JSON.writeValueAsString(append(JSON.readTree(line), directory, scheduler))).append('\n');
            }
        }
        scheduler.shutdown();
        System.out.print(out);
    }

    static Map<String, Object> append(JsonNode request, File directory, KafkaScheduler scheduler) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        Map<String, String> settings = new LinkedHashMap<>();
        request.get("settings").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        Files.createDirectories(directory.toPath());
        UnifiedLog log = UnifiedLog.create(
                directory, new LogConfig(settings), request.get("firstOffset").asLong(), 0L, scheduler,
                new BrokerTopicStats(), new Stopped(request.get("nowMs").asLong()), 60_000, new ProducerStateManagerConfig(60_000, false), 60_000,
                new LogDirFailureChannel(1), true, Optional.empty());
        File file = log.activeSegment().log().file();
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(request.get("buffer").binaryValue()));
            AppendOrigin origin = AppendOrigin.valueOf(request.get("origin").asText().toUpperCase());
            LogAppendInfo info = log.appendAsLeader(records, request.get("partitionLeaderEpoch").asInt(), origin);
            answer.put("maxTimestamp", info.maxTimestamp());
            answer.put("logAppendTime", info.logAppendTime());
        } catch (Throwable thrown) {
            answer.put("error", thrown.getClass().getSimpleName());
            answer.put("message", String.valueOf(thrown.getMessage()));
            if (thrown instanceof RecordValidationException refused)
                answer.put("cause", refused.invalidException().getClass().getSimpleName());
        }
        answer.put("nextOffset", log.logEndOffset());
        log.close();
        answer.put("buffer", Files.readAllBytes(file.toPath()));
        Utils.delete(directory);
        return answer;
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
