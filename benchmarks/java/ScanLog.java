import java.io.File;
import java.util.Iterator;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Kafka's own reader of a segment file: {@code ScanLog records|batches FILE}.
 *
 * <p>A pass reads the whole file once.
 */
public final class ScanLog {
    /** What was read goes in here, so that no compiler can leave the reading out. */
    private static volatile long touched;

    public static void main(String[] arguments) throws Exception {
        boolean deep = arguments[0].equals("records");
        File file = new File(arguments[1]);
        BufferSupplier buffers = BufferSupplier.create();
        Turns.take(() -> {
            try (FileRecords records = FileRecords.open(file, false)) {
                return new Turns.Done(deep ? records(records, buffers) : batches(records), 0);
            }
        });
    }

    /** Every batch's checksum and every record's fields; of keys and values the sizes, their bytes are not copied. */
    private static long records(FileRecords log, BufferSupplier buffers) {
        long count = 0;
        long sum = 0;
        for (RecordBatch batch : log.batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
                while (records.hasNext()) {
                    Record record = records.next();
                    sum += record.offset() + record.timestamp() + record.keySize() + record.valueSize();
                    for (Header header : record.headers()) {
                        sum += header.key().length();
                    }
                    count++;
                }
            }
        }
        touched = sum;
        return count;
    }

    private static long batches(FileRecords log) {
        long count = 0;
        long sum = 0;
        Iterator<? extends RecordBatch> batches = log.batches().iterator();
        while (batches.hasNext()) {
            RecordBatch batch = batches.next();
            sum += batch.baseOffset() + batch.lastOffset() + batch.countOrNull() + batch.maxTimestamp();
            count++;
        }
        touched = sum;
        return count;
    }
}
