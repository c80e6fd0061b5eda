import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.mirror.MirrorSourceTask;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * Mirrors partitions with MirrorMaker's own task, whose records are produced as a Connect worker does it.
 *
 * Arguments: the bootstrap servers of both clusters, the source's alias, the target's alias, the partitions with commas,
 * an offset from which to go on (-1: from the beginning), and how many records there are to mirror, at least.
 */
public class Mirror {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        long from = Long.parseLong(args[4]);
        long count = Long.parseLong(args[5]);
        Map<String, String> config = new HashMap<>();
        config.put("name", "mirror");
        config.put("connector.class", "org.apache.kafka.connect.mirror.MirrorSourceConnector");
        config.put("source.cluster.alias", args[1]);
        config.put("target.cluster.alias", args[2]);
        config.put("source.cluster.bootstrap.servers", bootstrap);
        config.put("target.cluster.bootstrap.servers", bootstrap);
        config.put("task.assigned.partitions", args[3]);
        config.put("task.index", "0");
        config.put("offset.lag.max", "20");
        if (args.length > 6) config.put("source.consumer.isolation.level", args[6]);

        Object reader = Proxy.newProxyInstance(Mirror.class.getClassLoader(), new Class<?>[] {OffsetStorageReader.class},
            (proxy, method, values) -> from < 0 ? null : Map.of("offset", from - 1));
        SourceTaskContext context = (SourceTaskContext) Proxy.newProxyInstance(Mirror.class.getClassLoader(),
            new Class<?>[] {SourceTaskContext.class},
            (proxy, method, values) -> method.getName().equals("offsetStorageReader") ? reader : null);
        MirrorSourceTask task = new MirrorSourceTask();
        task.initialize(context);
        task.start(config);
        long mirrored = 0;
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", 5);
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            int idle = 0;
            while (mirrored < count || idle < 3) {
                List<SourceRecord> records = task.poll();
                idle = records == null ? idle + 1 : 0;
                if (records == null) continue;
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (SourceRecord each : records) sent.add(producer.send(converted(each)));
                for (int row = 0; row < sent.size(); row++) task.commitRecord(records.get(row), sent.get(row).get());
                mirrored += records.size();
                task.commit();
            }
        }
        task.commit();
        Thread.sleep(500);
        task.stop();
        System.out.println(mirrored);
    }

    private static ProducerRecord<byte[], byte[]> converted(SourceRecord each) {
        RecordHeaders headers = new RecordHeaders();
        for (Header header : each.headers()) headers.add(header.key(), (byte[]) header.value());
        return new ProducerRecord<>(
            each.topic(), each.kafkaPartition(), each.timestamp(), (byte[]) each.key(), (byte[]) each.value(), headers);
    }
}
