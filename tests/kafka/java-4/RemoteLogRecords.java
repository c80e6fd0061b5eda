import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.BytesApiMessageSerde;
import org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType;

/**
 * A log of __remote_log_metadata with records of every type and version, filled at random: DIRECTORY SEED COUNT MUTATE,
 * as InternalRecords. Prints what Kafka's converter makes of each, a line each; null where Kafka refuses it.
 */
public class RemoteLogRecords {
    static final BytesApiMessageSerde SERDE = new BytesApiMessageSerde() {
        public ApiMessage apiMessageFor(short id) {
            return MetadataRecordType.fromId(id).newMetadataRecord();
        }
    };

    public static void main(String[] arguments) throws Exception {
        InternalRecords.chance = new Random(Long.parseLong(arguments[1]));
        int count = Integer.parseInt(arguments[2]);
        boolean mutate = Boolean.parseBoolean(arguments[3]);
        List<SimpleRecord> records = new ArrayList<>();
        for (MetadataRecordType type : MetadataRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++)
                for (int i = 0; i < count; i++) {
                    ApiMessage message = type.newMetadataRecord();
                    if (i > 0) InternalRecords.fill(message, message, version);
                    SimpleRecord record = new SimpleRecord(SERDE.serialize(new ApiMessageAndVersion(message, version)));
                    records.add(mutate ? InternalRecords.mutated(record) : record);
                }
        ObjectMapper json = new ObjectMapper();
        for (SimpleRecord record : records)
            System.out.println(json.writeValueAsString(read(InternalRecords.array(record.value()))));
        InternalRecords.write(new File(arguments[0], "__remote_log_metadata-0"), records, false);
    }

    static Map<String, Object> read(byte[] value) throws Exception {
        ApiMessageAndVersion found;
        try {
            found = SERDE.deserialize(value);
        } catch (RuntimeException refused) {
            return null;
        }
        ApiMessage message = found.message();
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("type", MetadataRecordType.fromId(message.apiKey()).name());
        told.put("version", found.version());
        told.put("data", Class.forName(message.getClass().getName() + "JsonConverter")
            .getMethod("write", message.getClass(), short.class).invoke(null, message, found.version()));
        return told;
    }
}
