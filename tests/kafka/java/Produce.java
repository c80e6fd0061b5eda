import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer. Arguments: topic, "none", "commit" or "abort" (of one transaction around all records), and
 * producer settings as name=value. Standard input: a JSON object for each record, with key, value and header values in
 * base64 or null. Standard output: the offset that each record got, one a line.
 */
public class Produce {
    public static void main(String[] args) throws Exception {
        String topic = args[0];
        String transaction = args[1];
        Map<String, Object> settings = new HashMap<>();
        for (int i = 2; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
             BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            if (!transaction.equals("none")) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            ObjectMapper json = new ObjectMapper();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                sent.add(producer.send(record(topic, json.readTree(line))));
            }
            producer.flush();
            if (transaction.equals("commit")) producer.commitTransaction();
            if (transaction.equals("abort")) producer.abortTransaction();
        }
        for (Future<RecordMetadata> metadata : sent) System.out.println(metadata.get().offset());
    }

    static ProducerRecord<byte[], byte[]> record(String topic, JsonNode node) throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : node.get("headers"))
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        Long timestamp = node.get("timestamp").isNull() ? null : node.get("timestamp").asLong();
        return new ProducerRecord<>(
                topic, node.get("partition").asInt(), timestamp, bytes(node.get("key")), bytes(node.get("value")), headers);
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }
}
