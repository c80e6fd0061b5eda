import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.storage.internals.log.OffsetIndex;

/**
 * Writes a web shop's event log, the same records once for each compression, as partition directories
 * {@code events-<codec>-0} with one segment and its offset index each: {@code WriteEvents DIRECTORY RECORDS CODEC...}.
 *
 * <p>A batch is closed when its records take 16 KiB before compression, so that all files have the same batches.
 */
public final class WriteEvents {
    private static final int BATCH_BYTES = 16 * 1024;
    private static final int INDEX_BYTES = 10 << 20;
    /** A broker's log.index.interval.bytes. */
    private static final int INDEX_INTERVAL = 4096;
    private static final long SEED = 20260101;
    private static final long FIRST_TIMESTAMP = 1_767_225_600_000L;
    private static final String[] EVENTS = {"view", "view", "view", "view", "search", "cart", "cart", "purchase"};
    private static final String[] CATEGORIES = {"garden", "kitchen", "books", "toys", "shoes", "music", "office"};
    private static final String[] SOURCES = {"search", "search", "newsletter", "direct", "direct", "campaign-7"};
    private static final String[] CURRENCIES = {"EUR", "EUR", "EUR", "USD", "CHF"};

    private final Random random = new Random(SEED);
    private final StringBuilder text = new StringBuilder();
    private long timestamp = FIRST_TIMESTAMP;

    public static void main(String[] arguments) throws IOException {
        Path directory = Path.of(arguments[0]);
        long records = Long.parseLong(arguments[1]);
        for (int i = 2; i < arguments.length; i++) {
            Path partition = Files.createDirectories(directory.resolve("events-" + arguments[i] + "-0"));
            Path file = partition.resolve("00000000000000000000.log");
            File index = partition.resolve("00000000000000000000.index").toFile();
            try (OffsetIndex offsets = new OffsetIndex(index, 0, INDEX_BYTES, true);
                    FileChannel channel =
                            FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                new WriteEvents().write(channel, offsets, CompressionType.forName(arguments[i]), records);
                offsets.trimToValidSize();
            }
        }
    }

    private void write(FileChannel channel, OffsetIndex offsets, CompressionType type, long records)
            throws IOException {
        Compression compression = Compression.of(type).build();
        ByteBuffer buffer = ByteBuffer.allocate(4 * BATCH_BYTES);
        long offset = 0;
        long indexed = 0;
        Event event = next();
        while (offset < records) {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(
                    buffer, RecordBatch.CURRENT_MAGIC_VALUE, compression, TimestampType.CREATE_TIME, offset);
            int bytes = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;
            while (offset < records && bytes + event.size() <= BATCH_BYTES) {
                builder.appendWithOffset(offset++, event.timestamp, event.key, event.value);
                bytes += event.size();
                event = next();
            }
            if (channel.position() - indexed > INDEX_INTERVAL) {
                offsets.append(offset - 1, (int) channel.position());
                indexed = channel.position();
            }
            ByteBuffer batch = builder.build().buffer();
            while (batch.hasRemaining()) {
                channel.write(batch);
            }
        }
    }

    private Event next() {
        timestamp += random.nextInt(40);
        int user = skewed(200_000);
        int product = skewed(20_000);
        text.setLength(0);
        text.append("{\"event\":\"").append(any(EVENTS));
        text.append("\",\"user\":").append(user);
        text.append(",\"product\":").append(100_000 + product);
        text.append(",\"kind\":\"").append(CATEGORIES[product % CATEGORIES.length]);
        text.append("\",\"count\":").append(1 + skewed(9));
        text.append(",\"price\":").append(product % 97).append(".").append(10 + product % 89);
        text.append(",\"currency\":\"").append(any(CURRENCIES));
        text.append("\",\"session\":\"").append(session(user));
        text.append("\",\"from\":\"").append(any(SOURCES)).append("\"}");
        return new Event(timestamp, bytes("user-" + user), bytes(text.toString()));
    }

    /** Small numbers are far more frequent than large ones, as with users and products of a shop. */
    private int skewed(int bound) {
        double share = random.nextDouble();
        return (int) (bound * share * share * share);
    }

    private static String session(int user) {
        return Long.toHexString((user + 1) * 0x9E3779B97F4A7C15L >>> 8);
    }

    private String any(String[] choices) {
        return choices[random.nextInt(choices.length)];
    }

    private static byte[] bytes(String string) {
        return string.getBytes(StandardCharsets.US_ASCII);
    }

    private record Event(long timestamp, byte[] key, byte[] value) {
        /** What it takes in a batch, with about ten bytes of varints. */
        int size() {
            return key.length + value.length + 10;
        }
    }
}
