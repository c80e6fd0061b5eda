import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/**
 * Fills batches with Kafka's own builder until each is full, as its producer does. Standard input: a JSON object for
 * each case, with what MemoryRecordsBuilder takes and "records", each [timestamp, key, value, headers] with bytes in
 * base64 or null. Standard output: for each case one line, the batches in base64, with spaces between.
 */
public class BuildBatches {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) build(json.readTree(line));
        }
    }

    static void build(JsonNode node) throws Exception {
        List<String> batches = new ArrayList<>();
        long offset = node.get("baseOffset").asLong();
        MemoryRecordsBuilder builder = null;
        for (JsonNode record : node.get("records")) {
            long timestamp = record.get(0).asLong();
            byte[] key = bytes(record.get(1));
            byte[] value = bytes(record.get(2));
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : record.get(3))
                headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
            Header[] array = headers.toArray(new Header[0]);
            if (builder != null && !builder.hasRoomFor(timestamp, key, value, array)) {
                batches.add(close(builder));
                builder = null;
            }
            if (builder == null) builder = open(node, offset);
            builder.append(timestamp, key, value, array);
            offset++;
        }
        if (builder != null) batches.add(close(builder));
        System.out.println(String.join(" ", batches));
    }

    static MemoryRecordsBuilder open(JsonNode node, long baseOffset) {
        CompressionType codec = CompressionType.forName(node.get("codec").asText());
        long appendTime = node.get("appendTime").asLong();
        byte magic = (byte) node.get("magic").asInt();
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
                : appendTime >= 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                new ByteBufferOutputStream(ByteBuffer.allocate(1 << 16)), magic, Compression.of(codec).build(), type,
                baseOffset, appendTime, node.get("producerId").asLong(), (short) node.get("producerEpoch").asInt(),
                node.get("baseSequence").asInt(), node.get("isTransactional").asBoolean(), false,
                node.get("leaderEpoch").asInt(), node.get("batchSize").asInt());
        builder.setEstimatedCompressionRatio((float) node.get("ratio").asDouble());
        return builder;
    }

    static String close(MemoryRecordsBuilder builder) {
        ByteBuffer buffer = builder.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }
}
