import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;

/** The records of a segment in memory: keys and values one after the other in one array, and where each ends. */
final class Events {
    final int count;
    final long[] timestamps;
    final int[] keyEnds;
    final int[] valueEnds;
    final byte[] data;

    Events(File segment) throws IOException {
        int records = 0;
        long[] times = new long[1 << 16];
        int[] keys = new int[1 << 16];
        int[] values = new int[1 << 16];
        int at = 0;
        try (FileRecords log = FileRecords.open(segment, false)) {
            byte[] bytes = new byte[log.sizeInBytes()];
            for (Record record : log.records()) {
                if (records == times.length) {
                    times = Arrays.copyOf(times, 2 * records);
                    keys = Arrays.copyOf(keys, 2 * records);
                    values = Arrays.copyOf(values, 2 * records);
                }
                times[records] = record.timestamp();
                at = put(record.key(), bytes, at);
                keys[records] = at;
                at = put(record.value(), bytes, at);
                values[records++] = at;
            }
            data = bytes;
        }
        count = records;
        timestamps = times;
        keyEnds = keys;
        valueEnds = values;
    }

    private static int put(ByteBuffer from, byte[] to, int at) {
        int size = from.remaining();
        from.get(to, at, size);
        return at + size;
    }

    int keyStart(int row) {
        return row == 0 ? 0 : valueEnds[row - 1];
    }
}
