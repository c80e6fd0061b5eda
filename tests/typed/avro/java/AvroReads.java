import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;

/**
 * Prints what Java makes of payloads, a line for each. Lines of input: the schemas of all versions, the payload, which
 * of them wrote it, and the last one with all aliases ("last") and without ("reader"). "direct": as the reader does it,
 * which applies the aliases twice where that changes something; "chained": the writer's schema is renamed by each
 * version after it once.
 */
public class AvroReads {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode found = JSON.readTree(line);
            int writer = found.get("writer").asInt();
            byte[] payload = Base64.getDecoder().decode(found.get("payload").asText());
            List<String> texts = new ArrayList<>();
            found.get("schemas").forEach(each -> texts.add(each.asText()));
            ObjectNode answer = JSON.createObjectNode();
            String last = found.get("last").asText();
            answer.set("direct", read(texts.subList(0, writer + 1), writer, last, payload));
            answer.set("chained", read(texts, writer, found.get("reader").asText(), payload));
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode read(List<String> texts, int writer, String last, byte[] payload) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Schema own = parse(texts.get(writer));
            for (int version = writer + 1; version < texts.size(); version++) {
                own = Schema.applyAliases(own, parse(texts.get(version)));
            }
            Object value = new GenericDatumReader<Object>(own, parse(last))
                .read(null, DecoderFactory.get().binaryDecoder(payload, null));
            answer.set("value", JSON.readTree(value.toString()));
        } catch (RuntimeException error) {
            answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        return answer;
    }

    private static Schema parse(String text) {
        return new Schema.Parser(NameValidator.UTF_VALIDATOR).setValidateDefaults(false).parse(text);
    }
}
