import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's UnifiedLog, driven by commands on standard input, a line each; what it schedules, it does at once.
 *
 *   open DIRECTORY CLEAN LOG_START RECOVERY_POINT NOW_MS NAME=VALUE...   (topic settings)
 *   append FILE             its bytes, batch by batch, as a follower
 *   roll | flush | close | kill
 *   truncate OFFSET | restart OFFSET | start OFFSET | retain NOW_MS
 *
 * After each, a line with the log start offset and the log end offset; or "refused" and the exception's name.
 */
public class WriteLog {
    static long now;
    static UnifiedLog log;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            try {
                run(line.split(" "));
                System.out.println(log.logStartOffset() + " " + log.logEndOffset());
            } catch (Throwable thrown) {
                System.out.println("refused " + thrown.getClass().getSimpleName() + " " + thrown.getMessage());
            }
        }
    }

    static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> open(words);
            case "append" -> append(Files.readAllBytes(Path.of(words[1])));
            case "roll" -> {
                if (log.activeSegment().size() > 0) log.roll();
            }
            case "flush" -> log.flush(false);
            case "truncate" -> log.truncateTo(Long.parseLong(words[1]));
            case "restart" -> log.truncateFullyAndStartAt(Long.parseLong(words[1]), Optional.empty());
            case "start" -> {
                log.maybeIncrementLogStartOffset(
                    Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                now = Long.MIN_VALUE / 2;  // retention by time is another command
                log.deleteOldSegments();
                now = 0;
            }
            case "retain" -> {
                now = Long.parseLong(words[1]);
                log.deleteOldSegments();
                now = 0;
            }
            case "close" -> {
                log.prepareActiveSegmentForClose();
                log.close();
            }
            case "kill" -> {}  // its files are left as they are
            default -> throw new IllegalArgumentException(words[0]);
        }
        if (!words[0].equals("close") && !words[0].equals("kill")) log.updateHighWatermark(log.logEndOffset());
    }

    static void append(byte[] bytes) throws Exception {
        MemoryRecords all = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        int at = 0;
        for (var batch : all.batches()) {
            MemoryRecords one = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes, at, batch.sizeInBytes()).slice());
            log.appendAsFollower(one, Integer.MAX_VALUE);
            log.updateHighWatermark(log.logEndOffset());
            at += batch.sizeInBytes();
        }
    }

    static void open(String[] words) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 6; i < words.length; i++) {
            String[] pair = words[i].split("=");
            settings.put(pair[0], pair[1]);
        }
        now = Long.parseLong(words[5]);
        log = UnifiedLog.create(
            new File(words[1]), new LogConfig(settings), Long.parseLong(words[3]), Long.parseLong(words[4]),
            new AtOnce(), new BrokerTopicStats(), new Clock(), Integer.MAX_VALUE,
            new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(5),
            Boolean.parseBoolean(words[2]), Optional.empty());
        // As a broker's regular look at retention does; what is not known by then, truncating does not find out.
        for (var segment : log.logSegments()) segment.largestTimestamp();
        now = 0;
    }

    /** Stands still. */
    static class Clock implements Time {
        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return System.nanoTime();
        }

        public void sleep(long ms) {}

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {}

        public <T> T waitForFuture(java.util.concurrent.Future<T> future, long deadline) throws TimeoutException {
            throw new TimeoutException();
        }
    }

    /** Runs what is to be done once at once, and what is to be done again and again never. */
    static class AtOnce implements Scheduler {
        public void startup() {}

        public void shutdown() {}

        public void resizeThreadPool(int size) {}

        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (period < 0) task.run();
            return new Done();
        }
    }

    static class Done extends CompletableFuture<Object> implements ScheduledFuture<Object> {
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
