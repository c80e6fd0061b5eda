import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Prints what Kafka's own reader makes of log files, as the JSON Lines of the golden archive's expected.jsonl:
 * FileRecords.batches(), then ensureValid() of each batch, then its streamingIterator(). Goes on after a bad batch.
 * Arguments: files. Standard output: their lines, one file after the other, each closed by an "end" line.
 */
public class ReadLog {
    static final int LONGEST_WHOLE = 1024;
    static final ObjectMapper JSON = new ObjectMapper();
    static final BufferSupplier BUFFERS = BufferSupplier.create();
    static OutputStream out = new BufferedOutputStream(System.out, 1 << 16);

    public static void main(String[] paths) throws Exception {
        for (String path : paths) {
            try (FileRecords records = FileRecords.open(new File(path), false)) {
                read(records);
            }
        }
        out.flush();
    }

    static void read(FileRecords records) throws Exception {
        String file = records.file().getName();
        long position = 0;
        Iterator<FileChannelRecordBatch> batches = records.batches().iterator();
        while (true) {
            FileChannelRecordBatch batch;
            try {
                if (!batches.hasNext()) break;
                batch = batches.next();
            } catch (Throwable thrown) {
                print(error(file, "batches", position, null, thrown));
                break;
            }
            position = batch.position() + (long) batch.sizeInBytes();
            print(batch(file, records, batch));
            Long baseOffset = attempt(batch::baseOffset);
            try {
                batch.ensureValid();
            } catch (Throwable thrown) {
                print(error(file, "ensureValid", batch.position(), baseOffset, thrown));
                continue;
            }
            int given = 0;
            try (CloseableIterator<Record> iterator = batch.streamingIterator(BUFFERS)) {
                while (iterator.hasNext()) {
                    print(record(file, batch, iterator.next()));
                    given++;
                }
            } catch (Throwable thrown) {
                Map<String, Object> line = error(file, "records", batch.position(), baseOffset, thrown);
                line.put("recordsReadInBatch", given);
                print(line);
            }
        }
        Map<String, Object> line = line("end", file);
        line.put("position", position);
        line.put("fileSize", records.file().length());
        line.put("trailingBytes", records.file().length() - position);
        print(line);
    }

    static Map<String, Object> batch(String file, FileRecords records, FileChannelRecordBatch batch) {
        Map<String, Object> line = line("batch", file);
        Map<String, String> failed = new LinkedHashMap<>();
        line.put("position", batch.position());
        line.put("sizeInBytes", batch.sizeInBytes());
        put(line, failed, "baseOffset", batch::baseOffset);
        put(line, failed, "lastOffset", batch::lastOffset);
        put(line, failed, "magic", () -> (int) batch.magic());
        put(line, failed, "compression", () -> batch.compressionType().name);
        put(line, failed, "timestampType", () -> batch.timestampType().name);
        put(line, failed, "baseTimestamp", () -> batch.magic() < 2 ? null : longAt(records, batch.position() + 27L));
        put(line, failed, "maxTimestamp", batch::maxTimestamp);
        put(line, failed, "producerId", batch::producerId);
        put(line, failed, "producerEpoch", () -> (int) batch.producerEpoch());
        put(line, failed, "baseSequence", batch::baseSequence);
        put(line, failed, "lastSequence", batch::lastSequence);
        put(line, failed, "partitionLeaderEpoch", batch::partitionLeaderEpoch);
        put(line, failed, "isTransactional", batch::isTransactional);
        put(line, failed, "isControl", batch::isControlBatch);
        put(line, failed, "deleteHorizonMs", () -> batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        put(line, failed, "count", batch::countOrNull);
        put(line, failed, "checksum", batch::checksum);
        put(line, failed, "isValid", batch::isValid);
        if (!failed.isEmpty()) line.put("fieldErrors", failed);
        return line;
    }

    static Map<String, Object> record(String file, FileChannelRecordBatch batch, Record record) throws Exception {
        Map<String, Object> line = line("record", file);
        line.put("batchPosition", batch.position());
        line.put("offset", record.offset());
        line.put("timestamp", record.timestamp());
        line.put("timestampType", batch.timestampType().name);
        putBytes(line, "key", bytes(record.hasKey() ? record.key() : null));
        putBytes(line, "value", bytes(record.hasValue() ? record.value() : null));
        List<List<Object>> headers = new ArrayList<>();
        for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), header.value()));
        line.put("headers", headers);
        line.put("sequence", record.sequence());
        if (batch.isControlBatch()) line.put("control", control(record));
        return line;
    }

    static Map<String, Object> control(Record record) {
        Map<String, Object> control = new LinkedHashMap<>();
        control.put("typeId", (int) ControlRecordType.parseTypeId(record.key()));
        ControlRecordType type = ControlRecordType.parse(record.key());
        control.put("type", type.name());
        if (type == ControlRecordType.COMMIT || type == ControlRecordType.ABORT)
            control.put("coordinatorEpoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
        return control;
    }

    static Map<String, Object> error(String file, String phase, long position, Long baseOffset, Throwable thrown) {
        Map<String, Object> line = line("error", file);
        line.put("phase", phase);
        line.put("position", position);
        line.put("batchBaseOffset", baseOffset);
        line.put("class", thrown.getClass().getName());
        line.put("message", thrown.getMessage());
        return line;
    }

    static Map<String, Object> line(String type, String file) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("type", type);
        line.put("file", file);
        return line;
    }

    static void put(Map<String, Object> line, Map<String, String> failed, String name, Callable<Object> getter) {
        try {
            line.put(name, getter.call());
        } catch (Throwable thrown) {
            line.put(name, null);
            failed.put(name, thrown.getClass().getName() + ": " + thrown.getMessage());
        }
    }

    static Long attempt(Callable<Long> getter) {
        try {
            return getter.call();
        } catch (Throwable thrown) {
            return null;
        }
    }

    static void putBytes(Map<String, Object> line, String name, byte[] bytes) throws Exception {
        if (bytes == null || bytes.length <= LONGEST_WHOLE) {
            line.put(name, bytes == null ? null : Base64.getEncoder().encodeToString(bytes));
        } else {
            line.put(name + "Len", bytes.length);
            line.put(name + "Sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes)));
        }
    }

    static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    static long longAt(FileRecords records, long position) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(records.file(), "r")) {
            file.seek(position);
            return file.readLong();
        }
    }

    static void print(Map<String, Object> line) throws IOException {
        out.write(JSON.writeValueAsBytes(line));
        out.write('\n');
    }
}
