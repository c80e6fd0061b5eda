import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;

/**
 * What Kafka makes of batches from which it leaves records out (MemoryRecords.filterTo). Standard input: a JSON object for
 * each buffer of batches, with the offsets of the records that are kept, and the last offsets of batches that stay although
 * they are empty. Standard output: a JSON object for each, with the new batches.
 */
public class FilterBatches {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode request = JSON.readTree(line);
                Map<String, Object> answer = new LinkedHashMap<>();
                answer.put("buffer", filter(request));
                out.append(JSON.writeValueAsString(answer)).append('\n');
            }
        }
        System.out.print(out);
    }

    static byte[] filter(JsonNode request) throws Exception {
        byte[] input = request.get("buffer").binaryValue();
        Set<Long> kept = new HashSet<>(), empties = new HashSet<>();
        request.get("kept").forEach(each -> kept.add(each.asLong()));
        request.get("empties").forEach(each -> empties.add(each.asLong()));
        RecordFilter filter = new RecordFilter(request.get("nowMs").asLong(), request.get("deleteRetentionMs").asLong()) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(
                        empties.contains(batch.lastOffset()) ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY,
                        false);
            }

            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return kept.contains(record.offset());
            }
        };
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(input));
        MemoryRecords.FilterResult result = filterTo(records, filter, ByteBuffer.allocate(4 * input.length + 100_000));
        ByteBuffer output = result.outputBuffer();
        output.flip();
        byte[] bytes = new byte[output.remaining()];
        output.get(bytes);
        return bytes;
    }

    /** Its parameters are others in 3.9 and in 4.4, in another order. */
    static MemoryRecords.FilterResult filterTo(MemoryRecords records, RecordFilter filter, ByteBuffer output) throws Exception {
        for (Method method : MemoryRecords.class.getMethods()) {
            if (!method.getName().equals("filterTo")) continue;
            Object[] arguments = Arrays.stream(method.getParameterTypes()).map(type -> type == RecordFilter.class ? filter
                    : type == ByteBuffer.class ? output
                    : type == int.class ? (Object) Integer.MAX_VALUE
                    : type == TopicPartition.class ? new TopicPartition("topic", 0)
                    : BufferSupplier.NO_CACHING).toArray();
            return (MemoryRecords.FilterResult) method.invoke(records, arguments);
        }
        throw new NoSuchMethodException("filterTo");
    }
}
