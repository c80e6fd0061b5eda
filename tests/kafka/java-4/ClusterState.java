import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeFeaturesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Has a broker write records of many kinds into its internal topics, and prints what the broker then says of groups,
 * transactions, topics and more: BOOTSTRAP. One JSON object.
 */
public class ClusterState {
    private static final List<AutoCloseable> open = new ArrayList<>();
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        write();
        System.out.println(new ObjectMapper().writeValueAsString(described()));
        System.out.flush();
        Runtime.getRuntime().halt(0); // what is open stays so: members of groups, a transaction
    }

    private static void write() throws Exception {
        List<NewTopic> topics = List.of(
            new NewTopic("orders", 3, (short) 1).configs(Map.of("retention.ms", "12345", "min.compaction.lag.ms", "77")),
            new NewTopic("payments", 1, (short) 1), new NewTopic("removed", 2, (short) 1).configs(Map.of("segment.ms", "99999")));
        admin.createTopics(topics).all().get();
        admin.deleteTopics(List.of("removed")).all().get();
        admin.createTopics(List.of(new NewTopic("removed", 1, (short) 1))).all().get();
        admin.createPartitions(Map.of("payments", NewPartitions.increaseTo(2))).all().get();
        configure(ConfigResource.Type.TOPIC, "orders", "retention.ms", null);
        configure(ConfigResource.Type.TOPIC, "orders", "segment.bytes", "2000000");
        configure(ConfigResource.Type.GROUP, "shared", "share.auto.offset.reset", "earliest");
        configure(ConfigResource.Type.BROKER, "", "message.max.bytes", "1234567");
        secure();
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            for (int i = 0; i < 30; i++)
                producer.send(new ProducerRecord<>("orders", i % 3, null, ("order " + i).getBytes()));
        }
        transactions();
        consume("classic", "classic-group", true);
        consume("classic", "left-group", false);
        consume("consumer", "new-group", true);
        consume("consumer", "gone-group", false);
        admin.alterConsumerGroupOffsets("by-hand", Map.of(at("orders", 0), new OffsetAndMetadata(7, Optional.of(0), "naïve"),
            at("orders", 1), new OffsetAndMetadata(8))).all().get();
        admin.deleteConsumerGroupOffsets("by-hand", Set.of(at("orders", 1))).all().get();
        admin.deleteConsumerGroups(List.of("gone-group")).all().get();
        share(); // last: what comes after it takes long
    }

    private static void secure() throws Exception {
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice",
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get();
        Map<String, String> named = Map.of(ClientQuotaEntity.USER, "alice"), anyone = new HashMap<>();
        anyone.put(ClientQuotaEntity.CLIENT_ID, null);
        quota(named, 1000.0);
        quota(anyone, 10.0);
        quota(named, null);
        quota(Map.of(ClientQuotaEntity.USER, "bob", ClientQuotaEntity.CLIENT_ID, "app"), 77.0);
        List<AclBinding> acls = List.of(acl("orders", "User:alice", AclOperation.READ), acl("payments", "User:bob", AclOperation.WRITE));
        admin.createAcls(acls).all().get();
        admin.deleteAcls(List.of(acls.get(1).toFilter())).all().get();
    }

    private static void quota(Map<String, String> entity, Double value) throws Exception {
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity),
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", value))))).all().get();
    }

    private static AclBinding acl(String topic, String principal, AclOperation operation) {
        return new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry(principal, "*", operation, AclPermissionType.ALLOW));
    }

    private static void configure(ConfigResource.Type type, String resource, String name, String value) throws Exception {
        var op = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        Collection<AlterConfigOp> ops = List.of(new AlterConfigOp(new ConfigEntry(name, value), op));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, resource), ops)).all().get();
    }

    private static void consume(String protocol, String group, boolean stay) {
        Map<String, Object> settings = new HashMap<>(client());
        settings.put("group.protocol", protocol);
        settings.put("group.id", group);
        settings.put("client.id", "client of " + group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (stay)
            settings.put("group.instance.id", "instance-1");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of("orders"));
        int count = 0;
        for (int i = 0; i < 60 && count < 30; i++)
            count += consumer.poll(Duration.ofSeconds(1)).count();
        consumer.commitSync();
        consumer.commitSync(Map.of(at("orders", 1), new OffsetAndMetadata(3, Optional.of(0), "back to three")));
        if (stay)
            open.add(consumer);
        else
            consumer.close();
    }

    private static void share() throws Exception {
        Map<String, Object> settings = new HashMap<>(client());
        settings.put("group.id", "shared");
        KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings);
        consumer.subscribe(List.of("orders"));
        int count = 0;
        for (int i = 0; i < 60 && count < 30; i++)
            count += consumer.poll(Duration.ofSeconds(1)).count();
        consumer.commitSync();
        open.add(consumer);
    }

    private static void transactions() throws Exception {
        var metadata = new KafkaConsumer<byte[], byte[]>(with(client(), "group.id", "tx-group")).groupMetadata();
        KafkaProducer<byte[], byte[]> producer = producer("tx-done");
        producer.initTransactions();
        long[] offsets = {5, 6, 7};
        for (long offset : offsets) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("payments", 0, null, "paid".getBytes()));
            producer.sendOffsetsToTransaction(Map.of(at("orders", 0), new OffsetAndMetadata(offset)), metadata);
            if (offset == 7)
                producer.abortTransaction();
            else
                producer.commitTransaction();
        }
        KafkaProducer<byte[], byte[]> hanging = producer("tx-open");
        hanging.initTransactions();
        hanging.beginTransaction();
        hanging.send(new ProducerRecord<>("payments", 1, null, "perhaps".getBytes())).get();
        hanging.sendOffsetsToTransaction(Map.of(at("orders", 1), new OffsetAndMetadata(9)), metadata);
        open.add(hanging);
        KafkaProducer<byte[], byte[]> idle = producer("tx-empty");
        idle.initTransactions();
        open.add(idle);
    }

    private static Map<String, Object> described() throws Exception {
        Map<String, Object> all = new TreeMap<>();
        Map<String, Object> offsets = new TreeMap<>(), topics = new TreeMap<>(), transactions = new TreeMap<>();
        for (String group : List.of("classic-group", "left-group", "new-group", "gone-group", "by-hand", "tx-group"))
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> {
                if (offset != null)
                    offsets.put(group + "|" + partition, List.of(offset.offset(), offset.leaderEpoch().orElse(-1), offset.metadata()));
            });
        all.put("offsets", offsets);
        Map<String, Object> groups = new TreeMap<>();
        admin.describeConsumerGroups(List.of("new-group")).all().get().forEach((name, group) -> groups.put(name, List.of(
            group.groupEpoch().get(), group.targetAssignmentEpoch().get(), group.members().size())));
        all.put("groups", groups);
        var names = admin.listTopics(new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true)).names().get();
        admin.describeTopics(names).allTopicNames().get().forEach((name, topic) -> {
            List<Object> partitions = new ArrayList<>();
            topic.partitions().forEach(each -> partitions.add(List.of(each.partition(), each.leader().id(),
                each.replicas().stream().map(Node::id).toList(), each.isr().stream().map(Node::id).toList())));
            topics.put(name, List.of(topic.topicId().toString(), partitions));
        });
        all.put("topics", topics);
        var ids = admin.listTransactions().all().get().stream().map(each -> each.transactionalId()).toList();
        admin.describeTransactions(ids).all().get().forEach((id, each) -> transactions.put(id, List.of(
            each.state().toString(), each.producerId(), each.producerEpoch(), each.transactionTimeoutMs(),
            each.transactionStartTimeMs().orElse(-1), each.topicPartitions().stream().map(Object::toString).sorted().toList())));
        all.put("transactions", transactions);
        List<ConfigResource> resources = new ArrayList<>(names.stream().map(each -> new ConfigResource(ConfigResource.Type.TOPIC, each)).toList());
        resources.add(new ConfigResource(ConfigResource.Type.GROUP, "shared"));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        Map<String, Object> configs = new TreeMap<>();
        admin.describeConfigs(resources).all().get().forEach((resource, config) -> config.entries().forEach(entry -> {
            String source = entry.source().toString();
            boolean inherited = resource.type() == ConfigResource.Type.TOPIC && !source.equals("DYNAMIC_TOPIC_CONFIG");
            if (source.startsWith("DYNAMIC") && !inherited)
                configs.put(resource.type() + "|" + resource.name() + "|" + entry.name(), entry.value());
        }));
        all.put("configs", configs);
        Map<String, Object> features = new TreeMap<>(), quotas = new HashMap<>();
        admin.describeFeatures(new DescribeFeaturesOptions()).featureMetadata().get().finalizedFeatures()
            .forEach((name, range) -> features.put(name, range.maxVersionLevel()));
        all.put("features", features);
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()
            .forEach((entity, values) -> quotas.put(new TreeMap<>(entity.entries()).toString(), values));
        all.put("quotas", quotas);
        all.put("acls", admin.describeAcls(AclBindingFilter.ANY).values().get().stream().map(each -> List.of(
            each.pattern().resourceType().code(), each.pattern().name(), each.pattern().patternType().code(), each.entry().principal(),
            each.entry().host(), each.entry().operation().code(), each.entry().permissionType().code(),
            each.pattern().resourceType().name(), each.pattern().patternType().name(), each.entry().operation().name(),
            each.entry().permissionType().name())).toList());
        return all;
    }

    private static TopicPartition at(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    private static KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap,
            "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class));
        if (transactionalId != null)
            settings.putAll(Map.of("transactional.id", transactionalId, "transaction.timeout.ms", 600_000));
        return new KafkaProducer<>(settings);
    }

    private static Map<String, Object> client() {
        return Map.of("bootstrap.servers", bootstrap, "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
    }

    private static Map<String, Object> with(Map<String, Object> settings, String name, Object value) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(name, value);
        return all;
    }
}
