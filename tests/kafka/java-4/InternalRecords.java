import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Logs of the internal topics with records of every type in every version that Kafka knows, filled at random:
 * DIRECTORY SEED COUNT MUTATE. With MUTATE true, bytes of keys and values are changed, cut off or added.
 */
public class InternalRecords {
    static Random chance;

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        chance = new Random(Long.parseLong(arguments[1]));
        int count = Integer.parseInt(arguments[2]);
        boolean mutate = Boolean.parseBoolean(arguments[3]);
        List<SimpleRecord> records = new ArrayList<>();
        for (var type : org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++)
                for (int i = 0; i < count; i++)
                    records.add(record(type.id(), type.newRecordKey(), type.newRecordValue(), version, i));
        write(new File(directory, "__consumer_offsets-0"), records, mutate);
        for (var type : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++)
                for (int i = 0; i < count; i++)
                    records.add(record(type.id(), type.newRecordKey(), type.newRecordValue(), version, i));
        write(new File(directory, "__transaction_state-0"), records, mutate);
        for (var type : org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++)
                for (int i = 0; i < count; i++)
                    records.add(record(type.id(), type.newRecordKey(), type.newRecordValue(), version, i));
        write(new File(directory, "__share_group_state-0"), records, mutate);
        for (MetadataRecordType type : MetadataRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++)
                for (int i = 0; i < count; i++)
                    records.add(new SimpleRecord(null, metadata(type.newMetadataRecord(), version, i)));
        write(new File(directory, "__cluster_metadata-0"), records, mutate);
    }

    /** The first of each has all defaults, the second is a tombstone. */
    private static SimpleRecord record(short id, ApiMessage key, ApiMessage value, short version, int number) {
        fill(key, key, (short) 0);
        if (number > 0)
            fill(value, value, version);
        byte[] keyBytes = MessageUtil.toCoordinatorTypePrefixedBytes(key);
        return new SimpleRecord(keyBytes, number == 1 ? null : MessageUtil.toVersionPrefixedBytes(version, value));
    }

    private static byte[] metadata(ApiMessage message, short version, int number) {
        if (number > 0)
            fill(message, message, version);
        ApiMessageAndVersion versioned = new ApiMessageAndVersion(message, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(versioned, cache));
        MetadataRecordSerde.INSTANCE.write(versioned, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    /** Sets each field of a part of a message to anything, and back where the message cannot be written then. */
    static void fill(Object part, Message whole, short version) {
        try {
            for (Field field : part.getClass().getDeclaredFields()) {
                String name = field.getName();
                boolean links = name.equals("next") || name.equals("prev");
                if (Modifier.isStatic(field.getModifiers()) || name.startsWith("_") || links || chance.nextInt(8) == 0)
                    continue;
                field.setAccessible(true);
                Object before = field.get(part);
                Object after = anything(part, name, field.getGenericType(), field.getType());
                field.set(part, after);
                try {
                    MessageUtil.toVersionPrefixedBytes(version, whole);
                } catch (RuntimeException error) {
                    field.set(part, before);
                    continue;
                }
                if (after instanceof Collection<?> all)
                    all.stream().filter(each -> each instanceof Message).forEach(each -> fill(each, whole, version));
                else if (after instanceof Message)
                    fill(after, whole, version);
            }
        } catch (ReflectiveOperationException error) {
            throw new RuntimeException(error);
        }
    }

    private static Object anything(Object part, String name, Type type, Class<?> raw) throws ReflectiveOperationException {
        if (raw == boolean.class) return chance.nextBoolean();
        if (raw == byte.class) return (byte) chance.nextInt();
        if (raw == short.class) return (short) chance.nextInt();
        if (raw == int.class) return chance.nextInt() >> chance.nextInt(32);
        if (raw == long.class) return chance.nextLong() >> chance.nextInt(64);
        if (raw == double.class) return new double[] {0.1, Double.NaN, -1e300, Double.NEGATIVE_INFINITY}[chance.nextInt(4)];
        if (raw == Uuid.class) return new Uuid(chance.nextLong(), chance.nextLong());
        if (chance.nextInt(6) == 0) return null;
        if (raw == String.class) return name.equals("protocolType") && chance.nextBoolean() ? "consumer" : text();
        if (raw == byte[].class) return bytes(part, name);
        if (raw == ByteBuffer.class) return ByteBuffer.wrap(bytes(part, name));
        if (raw == List.class) {
            List<Object> all = new ArrayList<>();
            Type of = ((ParameterizedType) type).getActualTypeArguments()[0];
            for (int i = chance.nextInt(4); i > 0; i--)
                all.add(element((Class<?>) of));
            return all;
        }
        Object made = raw.getDeclaredConstructor().newInstance();
        if (made instanceof Collection<?>) {
            Class<?> of = Class.forName(raw.getName().replaceAll("Collection$", ""));
            @SuppressWarnings("unchecked") Collection<Object> all = (Collection<Object>) made;
            for (int i = chance.nextInt(4); i > 0; i--)
                all.add(of.getDeclaredConstructor().newInstance());
        }
        return made;
    }

    private static Object element(Class<?> of) throws ReflectiveOperationException {
        if (of == Integer.class) return chance.nextInt();
        if (of == Short.class) return (short) chance.nextInt();
        if (of == Long.class) return chance.nextLong();
        if (of == String.class) return text();
        if (of == Uuid.class) return new Uuid(chance.nextLong(), chance.nextLong());
        return of.getDeclaredConstructor().newInstance();
    }

    private static String text() {
        String[] texts = {"", "a", "orders", "группа \"1\"\\\n\t\u0001", "日本語\u2028\u0085😀", "x".repeat(300)};
        return texts[chance.nextInt(texts.length)];
    }

    private static byte[] bytes(Object part, String name) {
        boolean embedded = name.equals("subscription") || name.equals("assignment");
        if (embedded && part.getClass().getSimpleName().equals("MemberMetadata") && chance.nextInt(4) > 0) {
            short version = (short) chance.nextInt(4);
            Message said = name.equals("subscription") ? new ConsumerProtocolSubscription() : new ConsumerProtocolAssignment();
            fill(said, said, version);
            return MessageUtil.toVersionPrefixedBytes(version, said);
        }
        byte[] anything = new byte[chance.nextInt(20)];
        chance.nextBytes(anything);
        return anything;
    }

    static void write(File directory, List<SimpleRecord> records, boolean mutate) throws Exception {
        directory.mkdirs();
        try (FileRecords file = FileRecords.open(new File(directory, "00000000000000000000.log"))) {
            long offset = 0;
            for (SimpleRecord record : records) {
                SimpleRecord written = mutate ? mutated(record) : record;
                file.append(MemoryRecords.withRecords(offset++, Compression.NONE, written));
            }
        }
        records.clear();
    }

    static SimpleRecord mutated(SimpleRecord record) {
        byte[] key = array(record.key()), value = array(record.value());
        if (key != null && chance.nextInt(3) == 0)
            key = mutated(key, 0);
        if (value != null)
            value = mutated(value, chance.nextInt(4) == 0 ? 0 : 2);
        return new SimpleRecord(key, value);
    }

    /** Leaves the first bytes alone, which say of what version it is. */
    private static byte[] mutated(byte[] bytes, int first) {
        byte[] changed = bytes.clone();
        for (int i = 1 + chance.nextInt(3); i > 0 && changed.length > first; i--) {
            int at = first + chance.nextInt(changed.length - first);
            switch (chance.nextInt(5)) {
                case 0 -> changed = java.util.Arrays.copyOf(changed, at);
                case 1 -> changed = java.util.Arrays.copyOf(changed, changed.length + 1 + chance.nextInt(3));
                case 2 -> changed[at] ^= (byte) (1 << chance.nextInt(8));
                case 3 -> changed[at] = (byte) 0xff;
                default -> changed[at] = (byte) chance.nextInt(4);
            }
        }
        return changed;
    }

    static byte[] array(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
