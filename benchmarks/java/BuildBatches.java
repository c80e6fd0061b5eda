import java.io.File;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * Kafka's own builder, filled from the records of a segment that are held in memory: {@code BuildBatches CODEC SEGMENT}.
 *
 * <p>A batch is closed where {@link WriteEvents} closes it, when its records take 16 KiB before compression. Each is
 * built in the same buffer, and left there.
 */
public final class BuildBatches {
    private static final int BATCH_BYTES = 16 * 1024;
    private static final int VARINTS = 10;

    public static void main(String[] arguments) throws Exception {
        Compression compression = Compression.of(CompressionType.forName(arguments[0])).build();
        Events events = new Events(new File(arguments[1]));
        ByteBuffer buffer = ByteBuffer.allocate(4 * BATCH_BYTES);
        ByteBuffer key = ByteBuffer.wrap(events.data);
        ByteBuffer value = ByteBuffer.wrap(events.data);
        Turns.take(() -> {
            long made = 0;
            int row = 0;
            while (row < events.count) {
                buffer.clear();
                MemoryRecordsBuilder builder = MemoryRecords.builder(
                        buffer, RecordBatch.CURRENT_MAGIC_VALUE, compression, TimestampType.CREATE_TIME, row);
                int bytes = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;
                while (row < events.count) {
                    int start = events.keyStart(row);
                    int size = events.valueEnds[row] - start + VARINTS;
                    if (bytes + size > BATCH_BYTES) {
                        break;
                    }
                    // The limit first, as neither may be behind it for a moment.
                    key.limit(events.keyEnds[row]).position(start);
                    value.limit(events.valueEnds[row]).position(events.keyEnds[row]);
                    builder.append(events.timestamps[row++], key, value);
                    bytes += size;
                }
                made += builder.build().sizeInBytes();
            }
            return new Turns.Done(events.count, made);
        });
    }
}
