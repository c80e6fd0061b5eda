import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * What Kafka's LogValidator makes of produced batches. Standard input: a JSON object for each produce request, with the
 * batches in base64, the topic's settings, and what the broker knows. Standard output: a JSON object for each.
 */
public class Validate {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Map<String, Object> answer = new LinkedHashMap<>();
                try {
                    validate(JSON.readTree(line), answer);
                } catch (Throwable thrown) {
                    answer.put("error", thrown.getClass().getSimpleName());
                    answer.put("message", String.valueOf(thrown.getMessage()));
                    if (thrown instanceof RecordValidationException) {
                        RecordValidationException refused = (RecordValidationException) thrown;
                        answer.put("cause", refused.invalidException().getClass().getSimpleName());
                        List<Integer> indexes = new ArrayList<>();
                        for (RecordError error : refused.recordErrors()) indexes.add(error.batchIndex);
                        answer.put("recordErrors", indexes);
                    }
                }
                out.append(JSON.writeValueAsString(answer)).append('\n');
            }
        }
        System.out.print(out);
    }

    static void validate(JsonNode request, Map<String, Object> answer) throws Exception {
        long now = request.get("nowMs").asLong();
        // Kafka sets headers in the buffer that it is given.
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(request.get("buffer").binaryValue()));
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(request.get("firstOffset").asLong());
        List<Object> arguments = new ArrayList<>(Arrays.asList(
                records,
                new TopicPartition("topic", 0),
                new Stopped(now),
                CompressionType.forName(request.get("sourceCompression").asText()),
                Compression.of(CompressionType.forName(request.get("targetCompression").asText())).build(),
                request.get("compacted").asBoolean(),
                (byte) request.get("toMagic").asInt(),
                TimestampType.forName(request.get("timestampType").asText()),
                request.get("timestampBeforeMaxMs").asLong(),
                request.get("timestampAfterMaxMs").asLong(),
                request.get("partitionLeaderEpoch").asInt(),
                AppendOrigin.valueOf(request.get("origin").asText().toUpperCase())));
        Constructor<?> constructor = LogValidator.class.getConstructors()[0];
        if (constructor.getParameterCount() > arguments.size()) arguments.add(MetadataVersion.latestTesting());
        LogValidator validator = (LogValidator) constructor.newInstance(arguments.toArray());
        LogValidator.ValidationResult result =
                validator.validateMessagesAndAssignOffsets(offset, new NoMetrics(), BufferSupplier.NO_CACHING);
        ByteBuffer buffer = Private.<MemoryRecords>field(result, "validatedRecords").buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        answer.put("buffer", bytes);
        answer.put("nextOffset", offset.value);
        answer.put("maxTimestamp", Private.<Long>field(result, "maxTimestampMs"));
        answer.put("inPlace", !Private.<Boolean>field(result, "messageSizeMaybeChanged"));
        Object stats = Private.field(result, "recordValidationStats");
        answer.put("recordsConverted", Private.<Integer>field(stats, "numRecordsConverted"));
    }

    static class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() {}

        public void recordInvalidOffset() {}

        public void recordInvalidSequence() {}

        public void recordInvalidChecksums() {}

        public void recordNoKeyCompactedTopic() {}
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
