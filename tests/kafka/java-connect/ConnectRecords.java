import static java.nio.charset.StandardCharsets.UTF_8;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.runtime.AbstractStatus;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetStorageWriter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Records of MirrorMaker and Kafka Connect, made by their own classes: a line each, TABLE KEY VALUE (base64), SAYS. */
public class ConnectRecords {
    public static void main(String[] arguments) throws Exception {
        long most = Long.MAX_VALUE;
        mirror("mirrorOffsetSyncs", new OffsetSync(new TopicPartition("orders", 0), 120, 118));
        mirror("mirrorOffsetSyncs", new OffsetSync(new TopicPartition("zürich-€", Integer.MAX_VALUE), most, -1));
        mirror("mirrorCheckpoints", new Checkpoint("shipping", new TopicPartition("west.orders", 3), 77, 75, ""));
        mirror("mirrorCheckpoints", new Checkpoint("𝄞", new TopicPartition("a", 0), most, most, "x".repeat(30_000)));
        mirror("mirrorHeartbeats", new Heartbeat("west", "east", 1_795_000_000_123L));
        offset("files", Map.of("filename", "/tmp/a \"b\".txt"), Map.of("position", 1234L));
        offset("db", Map.of("server", "zürich"), ordered("lsn", most, "snapshot", true, "ratio", 0.1, "part", null));
        offset("gone", Map.of("server", "x"), null);
        configs();
        status();
    }

    /** With the keys and schemas of the store. */
    static void configs() throws Exception {
        JsonConverter converter = converter(false);
        Struct config = new Struct(KafkaConfigBackingStore.CONNECTOR_CONFIGURATION_V0);
        config.put("properties", ordered("name", "db-1", "tasks.max", "2"));
        Struct commit = new Struct(KafkaConfigBackingStore.CONNECTOR_TASKS_COMMIT_V0).put("tasks", 2);
        Struct paused = new Struct(KafkaConfigBackingStore.TARGET_STATE_V1).put("state", "PAUSED").put("state.v2", "STOPPED");
        Struct session = new Struct(KafkaConfigBackingStore.SESSION_KEY_V0)
            .put("key", "c2VjcmV0").put("algorithm", "HmacSHA256").put("creation-timestamp", 1_795_000_000_000L);
        Map<String, Struct> made = new LinkedHashMap<>();
        made.put(KafkaConfigBackingStore.CONNECTOR_KEY("db-1"), config);
        made.put(KafkaConfigBackingStore.TASK_KEY(new ConnectorTaskId("db-1", 10)), config);
        made.put(KafkaConfigBackingStore.COMMIT_TASKS_KEY("db-1"), commit);
        made.put(KafkaConfigBackingStore.TARGET_STATE_KEY("db-1"), paused);
        made.put(KafkaConfigBackingStore.SESSION_KEY_KEY, session);
        made.put(KafkaConfigBackingStore.TASK_COUNT_RECORD_KEY("db-1"),
            new Struct(KafkaConfigBackingStore.TASK_COUNT_RECORD_V0).put("task-count", 2));
        made.put(KafkaConfigBackingStore.RESTART_KEY("db-1"), new Struct(KafkaConfigBackingStore.RESTART_REQUEST_V0)
            .put("include-tasks", true).put("only-failed", false));
        made.put(KafkaConfigBackingStore.LOGGER_CLUSTER_KEY("org.apache"),
            new Struct(KafkaConfigBackingStore.LOGGER_LEVEL_V0).put("level", "DEBUG"));
        made.forEach((key, value) ->
            print("connectConfigs", key.getBytes(UTF_8), converter.fromConnectData("t", value.schema(), value), ""));
    }

    /** As the store serializes it; the keys are those of its {@code send} methods. */
    static void status() throws Exception {
        KafkaStatusBackingStore store = new KafkaStatusBackingStore(Time.SYSTEM, converter(false), () -> null, "id");
        Method serialize = KafkaStatusBackingStore.class.getDeclaredMethod("serialize", AbstractStatus.class);
        serialize.setAccessible(true);
        Method ofTopic = KafkaStatusBackingStore.class.getDeclaredMethod("serializeTopicStatus", TopicStatus.class);
        ofTopic.setAccessible(true);
        ConnectorStatus connector = new ConnectorStatus("db-1", AbstractStatus.State.RUNNING, "10.0.0.1:8083", 7);
        TaskStatus task = new TaskStatus(new ConnectorTaskId("db-1", 10), AbstractStatus.State.FAILED, "w:1", 8, "at\nline", "4.3");
        TopicStatus topic = new TopicStatus("orders-1", "db-1", 3, 1_795_000_000_000L);
        Map<String, byte[]> made = new LinkedHashMap<>();
        made.put(KafkaStatusBackingStore.CONNECTOR_STATUS_PREFIX + "db-1", (byte[]) serialize.invoke(store, connector));
        made.put(KafkaStatusBackingStore.TASK_STATUS_PREFIX + "db-1-10", (byte[]) serialize.invoke(store, task));
        made.put(KafkaStatusBackingStore.TOPIC_STATUS_PREFIX + "orders-1" + KafkaStatusBackingStore.TOPIC_STATUS_SEPARATOR
            + "db-1", (byte[]) ofTopic.invoke(store, topic));
        made.forEach((key, value) -> print("connectStatus", key.getBytes(UTF_8), value, ""));
    }

    static JsonConverter converter(boolean ofKeys) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), ofKeys);
        return converter;
    }

    static Map<String, Object> ordered(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) made.put((String) pairs[i], pairs[i + 1]);
        return made;
    }

    static void mirror(String table, Object record) throws Exception {
        print(table, call(record, "recordKey"), call(record, "recordValue"), record.toString());
    }

    static byte[] call(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(record);
    }

    /** By the class that source tasks' workers write offsets with; the store prints what it is given. */
    static void offset(String connector, Map<String, ?> partition, Map<String, ?> offset) throws Exception {
        OffsetBackingStore store = (OffsetBackingStore) Proxy.newProxyInstance(
            ConnectRecords.class.getClassLoader(), new Class<?>[] {OffsetBackingStore.class}, (self, method, given) -> {
                if (method.getName().equals("set"))
                    ((Map<ByteBuffer, ByteBuffer>) given[0]).forEach((key, value) ->
                        print("connectOffsets", key.array(), value == null ? null : value.array(), connector));
                return CompletableFuture.completedFuture(null);
            });
        OffsetStorageWriter writer = new OffsetStorageWriter(store, connector, converter(true), converter(false));
        writer.offset(partition, offset);
        writer.beginFlush();
        writer.doFlush((error, result) -> { });
    }

    static void print(String table, byte[] key, byte[] value, String says) {
        Base64.Encoder base64 = Base64.getEncoder();
        System.out.println(String.join("\t", table, base64.encodeToString(key),
            value == null ? "-" : base64.encodeToString(value), base64.encodeToString(says.getBytes(UTF_8))));
    }
}
