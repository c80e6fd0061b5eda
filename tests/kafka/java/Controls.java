import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * Control records by Kafka's own classes. For each line of JSON on standard input, one line:
 * {"read": type id, "value": base64}: what Kafka reads in a control record's value, as JSON, or null if it throws;
 * {"records": [[type id, data], ...], "offset", "timestamp", "leaderEpoch"}: a batch with them, in base64;
 * {"commit", "producerId", "producerEpoch", "coordinatorEpoch", "offset", "timestamp", "leaderEpoch"}: a transaction's
 * marker, in base64.
 */
public class Controls {
    static final ObjectMapper JSON = new ObjectMapper();
    static final short V0 = 0;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            if (asked.has("read")) {
                ByteBuffer value = ByteBuffer.wrap(Base64.getDecoder().decode(asked.get("value").asText()));
                out.append(JSON.writeValueAsString(read(asked.get("read").asInt(), value)));
            } else {
                ByteBuffer batch = (asked.has("records") ? batch(asked) : marker(asked)).buffer();
                byte[] bytes = new byte[batch.remaining()];
                batch.get(bytes);
                out.append('"').append(Base64.getEncoder().encodeToString(bytes)).append('"');
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    static JsonNode read(int type, ByteBuffer value) {
        try {
            return switch (ControlRecordType.fromTypeId((short) type)) {
                case LEADER_CHANGE -> LeaderChangeMessageJsonConverter.write(
                        ControlRecordUtils.deserializeLeaderChangeMessage(value), V0);
                case SNAPSHOT_HEADER -> SnapshotHeaderRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotHeaderRecord(value), V0);
                case SNAPSHOT_FOOTER -> SnapshotFooterRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotFooterRecord(value), V0);
                case KRAFT_VERSION -> KRaftVersionRecordJsonConverter.write(
                        ControlRecordUtils.deserializeKRaftVersionRecord(value), V0);
                case KRAFT_VOTERS -> VotersRecordJsonConverter.write(
                        ControlRecordUtils.deserializeVotersRecord(value), V0);
                default -> throw new IllegalArgumentException("no message of KRaft's");
            };
        } catch (RuntimeException refused) {
            return null;
        }
    }

    static MemoryRecords batch(JsonNode asked) {
        long timestamp = asked.get("timestamp").asLong();
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE, TimestampType.CREATE_TIME,
                asked.get("offset").asLong(), timestamp, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                RecordBatch.NO_SEQUENCE, false, true, asked.get("leaderEpoch").asInt(), buffer.capacity())) {
            for (JsonNode record : asked.get("records")) {
                JsonNode data = record.get(1);
                switch (ControlRecordType.fromTypeId((short) record.get(0).asInt())) {
                    case LEADER_CHANGE -> builder.appendLeaderChangeMessage(
                            timestamp, LeaderChangeMessageJsonConverter.read(data, V0));
                    case SNAPSHOT_HEADER -> builder.appendSnapshotHeaderMessage(
                            timestamp, SnapshotHeaderRecordJsonConverter.read(data, V0));
                    case SNAPSHOT_FOOTER -> builder.appendSnapshotFooterMessage(
                            timestamp, SnapshotFooterRecordJsonConverter.read(data, V0));
                    case KRAFT_VERSION -> builder.appendKRaftVersionMessage(
                            timestamp, KRaftVersionRecordJsonConverter.read(data, V0));
                    case KRAFT_VOTERS -> builder.appendVotersMessage(
                            timestamp, VotersRecordJsonConverter.read(data, V0));
                    default -> throw new IllegalArgumentException("no message of KRaft's");
                }
            }
            return builder.build();
        }
    }

    static MemoryRecords marker(JsonNode asked) {
        ControlRecordType type = asked.get("commit").asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return MemoryRecords.withEndTransactionMarker(
                asked.get("offset").asLong(), asked.get("timestamp").asLong(), asked.get("leaderEpoch").asInt(),
                asked.get("producerId").asLong(), (short) asked.get("producerEpoch").asInt(),
                new EndTransactionMarker(type, asked.get("coordinatorEpoch").asInt()));
    }
}
