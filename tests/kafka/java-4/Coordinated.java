import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Asks coordinators. Arguments: bootstrap servers and {@code commit TOPIC OFFSET}, {@code offsets}, {@code shared},
 * {@code transact TOPIC} or {@code transactions}. Standard input: groups or transactional ids, one a line. Standard output: each, a tab, and its
 * offsets ({@code TOPIC-PARTITION:OFFSET,...}) or producer ID; "none" where the coordinator has none; else why it failed.
 */
public class Coordinated {
    public static void main(String[] args) throws Exception {
        List<String> names;
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            names = lines.lines().collect(Collectors.toList());
        }
        if (args[1].equals("transact")) {
            for (String name : names)
                transact(args[0], name, args[2]);
            return;
        }
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", args[0]))) {
            switch (args[1]) {
                case "commit" -> commit(admin, names, new TopicPartition(args[2], 0), Long.parseLong(args[3]));
                case "offsets" -> offsets(admin, names);
                case "shared" -> shared(admin, names);
                default -> transactions(admin, names);
            }
        }
    }

    static void commit(Admin admin, List<String> names, TopicPartition place, long offset) throws Exception {
        List<AlterConsumerGroupOffsetsResult> results = new ArrayList<>();
        for (String name : names)
            results.add(admin.alterConsumerGroupOffsets(name, Map.of(place, new OffsetAndMetadata(offset))));
        for (AlterConsumerGroupOffsetsResult each : results)
            each.all().get();
    }

    static void offsets(Admin admin, List<String> names) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        for (String name : names)
            specs.put(name, new ListConsumerGroupOffsetsSpec());
        var results = admin.listConsumerGroupOffsets(specs);
        for (String name : names) {
            try {
                Map<String, Long> found = new TreeMap<>();
                results.partitionsToOffsetAndMetadata(name).get().forEach((place, each) -> found.put(place.toString(), each.offset()));
                String text = found.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue()).collect(Collectors.joining(","));
                System.out.println(name + "\t" + (text.isEmpty() ? "none" : text));
            } catch (ExecutionException error) {
                String why = error.getCause().getClass().getSimpleName();
                System.out.println(name + "\t" + (why.equals("GroupIdNotFoundException") ? "none" : why));
            }
        }
    }

    static void shared(Admin admin, List<String> names) throws Exception {
        Map<String, ListShareGroupOffsetsSpec> specs = new HashMap<>();
        for (String name : names)
            specs.put(name, new ListShareGroupOffsetsSpec());
        var results = admin.listShareGroupOffsets(specs);
        for (String name : names) {
            try {
                Map<String, Long> found = new TreeMap<>();
                results.partitionsToOffsetInfo(name).get().forEach((place, each) -> {
                    if (each != null)
                        found.put(place.toString(), each.startOffset());
                });
                String text = found.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue()).collect(Collectors.joining(","));
                System.out.println(name + "\t" + (text.isEmpty() ? "none" : text));
            } catch (ExecutionException error) {
                System.out.println(name + "\t" + error.getCause().getClass().getSimpleName());
            }
        }
    }

    static void transact(String servers, String name, String topic) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "transactional.id", name, "max.block.ms", 20_000);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])).get();
            producer.commitTransaction();
        }
    }

    static void transactions(Admin admin, List<String> names) throws Exception {
        var results = admin.describeTransactions(names);
        for (String name : names) {
            try {
                System.out.println(name + "\t" + results.description(name).get().producerId());
            } catch (ExecutionException error) {
                String why = error.getCause().getClass().getSimpleName();
                System.out.println(name + "\t" + (why.equals("TransactionalIdNotFoundException") ? "none" : why));
            }
        }
    }
}
