import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own cleaner, with a broker's defaults and no limit of its speed: {@code CompactLog PARTITION RECORDS SCRATCH}.
 * Each pass cleans a copy of the partition (a link to its segment) from its start to its end; the copy, and opening it as a
 * broker does, are not measured.
 */
public final class CompactLog implements Turns.Pass {
    private static final long MAX_MESSAGE_BYTES = 1_048_588;
    private final long records;
    private final Path template;
    private final Path partition;
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(128 << 20), 256 << 10, (int) MAX_MESSAGE_BYTES, 0.9,
            new Throttler(1e15, 300, "cleaner", "bytes", Time.SYSTEM), Time.SYSTEM, each -> {});
    private UnifiedLog log;

    public static void main(String[] arguments) throws Exception {
        Turns.take(new CompactLog(Path.of(arguments[0]), Long.parseLong(arguments[1]), Path.of(arguments[2])));
    }

    private CompactLog(Path source, long records, Path scratch) throws Exception {
        this.records = records;
        template = scratch.resolve("template").resolve(source.getFileName());
        partition = scratch.resolve("pass").resolve(source.getFileName());
        scheduler.startup();
        copy(source, template);
        open(template.toFile()).close(); // which makes the indexes
    }

    @Override
    public void prepare() throws Exception {
        if (log != null) {
            log.close();
        }
        copy(template, partition);
        log = open(partition.toFile());
        log.updateHighWatermark(log.logEndOffset());
        log.roll();
        log.updateHighWatermark(log.logEndOffset());
    }

    @Override
    public Turns.Done run() throws Exception {
        cleaner.clean(new LogToClean(log, 0, log.logEndOffset(), true));
        return new Turns.Done(records, log.size());
    }

    private UnifiedLog open(File directory) throws Exception {
        return UnifiedLog.create(
                directory, new LogConfig(Map.of("cleanup.policy", "compact")), 0L, 0L, scheduler, new BrokerTopicStats(),
                Time.SYSTEM, 60_000, new ProducerStateManagerConfig(86_400_000, false), 60_000, new LogDirFailureChannel(1), true,
                Optional.empty());
    }

    private static void copy(Path from, Path to) throws Exception {
        if (Files.exists(to)) {
            for (Path each : listed(to)) {
                Files.delete(each);
            }
        }
        Files.createDirectories(to);
        for (Path each : listed(from)) {
            Path target = to.resolve(each.getFileName());
            if (each.toString().endsWith(".log")) {
                Files.createLink(target, each);
            } else {
                Files.copy(each, target);
            }
        }
    }

    private static List<Path> listed(Path directory) throws Exception {
        try (Stream<Path> each = Files.list(directory)) {
            return each.toList();
        }
    }
}
