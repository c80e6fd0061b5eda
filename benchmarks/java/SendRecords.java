import java.io.File;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer, which sends the records of a segment that are held in memory to one partition, until the broker
 * has said of all that they are in its log: {@code SendRecords SEGMENT TOPIC NAME=VALUE...}, with producer settings.
 */
public final class SendRecords {
    public static void main(String[] arguments) throws Exception {
        Events events = new Events(new File(arguments[0]));
        Map<String, Object> settings = new HashMap<>();
        for (int i = 2; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        var bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.partitionsFor(arguments[1]);
            Turns.take(() -> new Turns.Done(send(events, producer, arguments[1]), 0));
        }
    }

    private static long send(Events events, KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        for (int row = 0; row < events.count; row++) {
            byte[] key = copy(events.data, events.keyStart(row), events.keyEnds[row]);
            byte[] value = copy(events.data, events.keyEnds[row], events.valueEnds[row]);
            producer.send(new ProducerRecord<>(topic, 0, events.timestamps[row], key, value), (done, exception) -> {
                if (exception != null) {
                    failure.set(exception);
                }
            });
        }
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
        return events.count;
    }

    private static byte[] copy(byte[] data, int start, int end) {
        return java.util.Arrays.copyOfRange(data, start, end);
    }
}
