import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;

/**
 * Sends the same requests to several endpoints, encoded and decoded by Kafka's own classes: Exchange HOST:PORT..., or
 * USER:PASSWORD@HOST:PORT, to log in by SCRAM-SHA-256.
 *
 * Each line of stdin is {"key", "version", "body"}; each line of stdout has the answers, null for a closed connection.
 * Records of a Fetch are in base64, in "records".
 */
public class Exchange {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Endpoint[] endpoints = new Endpoint[arguments.length];
        for (int i = 0; i < arguments.length; i++) {
            endpoints[i] = new Endpoint(arguments[i]);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            ArrayNode answers = JSON.createArrayNode();
            for (Endpoint endpoint : endpoints) {
                answers.add(endpoint.exchange(request));
            }
            out.println(answers);
        }
        out.flush();
        for (Endpoint endpoint : endpoints) {
            endpoint.close();
        }
    }

    private static final class Endpoint {
        private final String host;
        private final int port;
        private Socket socket;
        private int correlationId;
        private String user;
        private String password;

        Endpoint(String place) {
            String address = place.substring(place.lastIndexOf('@') + 1);
            if (!address.equals(place)) {
                String[] login = place.substring(0, place.lastIndexOf('@')).split(":", 2);
                user = login[0];
                password = login[1];
            }
            host = address.substring(0, address.lastIndexOf(':'));
            port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        }

        private void logIn() throws Exception {
            ScramMechanism mechanism = ScramMechanism.SCRAM_SHA_256;
            send(ApiKeys.SASL_HANDSHAKE, (short) 1, new SaslHandshakeRequestData().setMechanism(mechanism.mechanismName()));
            ScramSaslClient client = new ScramSaslClient(mechanism, callbacks -> {
                for (Callback each : callbacks) {
                    if (each instanceof NameCallback) {
                        ((NameCallback) each).setName(user);
                    } else if (each instanceof PasswordCallback) {
                        ((PasswordCallback) each).setPassword(password.toCharArray());
                    }
                }
            });
            byte[] answer = new byte[0];
            while (!client.isComplete()) {
                byte[] token = client.evaluateChallenge(answer);
                if (token == null) {
                    break;
                }
                SaslAuthenticateRequestData body = new SaslAuthenticateRequestData().setAuthBytes(token);
                JsonNode answered = send(ApiKeys.SASL_AUTHENTICATE, (short) 2, body);
                if (answered.get("errorCode").asInt() != 0) {
                    throw new IllegalStateException(answered.toString());
                }
                answer = answered.get("authBytes").binaryValue();
            }
        }

        JsonNode exchange(JsonNode request) throws Exception {
            ApiKeys key = ApiKeys.forId(request.get("key").asInt());
            short version = (short) request.get("version").asInt();
            ApiMessage body = (ApiMessage) converter(key, "Request").getMethod("read", JsonNode.class, short.class)
                .invoke(null, request.get("body"), version);
            return send(key, version, body);
        }

        private JsonNode send(ApiKeys key, short version, ApiMessage body) throws Exception {
            try {
                if (socket == null) {
                    socket = new Socket(host, port);
                    socket.setSoTimeout(60000);
                    socket.setTcpNoDelay(true);
                    if (user != null) {
                        logIn();
                    }
                }
                RequestHeaderData header = new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version)
                    .setCorrelationId(++correlationId).setClientId("exchange");
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ObjectSerializationCache headerCache = new ObjectSerializationCache();
                short headerVersion = key.requestHeaderVersion(version);
                int size = header.size(headerCache, headerVersion) + body.size(cache, version);
                ByteBuffer buffer = ByteBuffer.allocate(4 + size);
                buffer.putInt(size);
                header.write(new ByteBufferAccessor(buffer), headerCache, headerVersion);
                body.write(new ByteBufferAccessor(buffer), cache, version);
                DataOutputStream out = new DataOutputStream(socket.getOutputStream());
                out.write(buffer.array());
                out.flush();
                DataInputStream in = new DataInputStream(socket.getInputStream());
                byte[] answer = new byte[in.readInt()];
                in.readFully(answer);
                return decoded(key, version, ByteBuffer.wrap(answer));
            } catch (IOException e) {
                close();
                return JSON.nullNode();
            }
        }

        private JsonNode decoded(ApiKeys key, short version, ByteBuffer answer) throws Exception {
            ByteBufferAccessor readable = new ByteBufferAccessor(answer);
            ResponseHeaderData header = new ResponseHeaderData(readable, key.responseHeaderVersion(version));
            if (header.correlationId() != correlationId) {
                throw new IllegalStateException("the answer to another request");
            }
            ApiMessage body = key.messageType.newResponse();
            body.read(readable, version);
            if (answer.hasRemaining()) {
                throw new IllegalStateException(answer.remaining() + " bytes after the answer");
            }
            List<String> records = new ArrayList<>();
            if (body instanceof FetchResponseData) {
                for (FetchResponseData.FetchableTopicResponse topic : ((FetchResponseData) body).responses()) {
                    for (FetchResponseData.PartitionData partition : topic.partitions()) {
                        MemoryRecords found = (MemoryRecords) partition.records();
                        records.add(found == null ? null : base64(found.buffer()));
                        partition.setRecords(MemoryRecords.EMPTY);
                    }
                }
            }
            JsonNode json = (JsonNode) converter(key, "Response").getMethod("write", body.getClass(), short.class)
                .invoke(null, body, version);
            if (body instanceof FetchResponseData) {
                ArrayNode found = ((ObjectNode) json).putArray("records");
                records.forEach(found::add);
            }
            return json;
        }

        private static String base64(ByteBuffer data) {
            byte[] bytes = new byte[data.remaining()];
            data.duplicate().get(bytes);
            return Base64.getEncoder().encodeToString(bytes);
        }

        private static Class<?> converter(ApiKeys key, String kind) throws Exception {
            Object message = kind.equals("Request") ? key.messageType.newRequest() : key.messageType.newResponse();
            return Class.forName(message.getClass().getName() + "JsonConverter");
        }

        void close() throws IOException {
            if (socket != null) {
                socket.close();
                socket = null;
            }
        }
    }
}
