import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A bucket that is a directory ({@code rsm.config.dir}): each file of a segment is an object, in the order log, indexes,
 * producer snapshot, leader epochs, named as Kafka's LocalTieredStorage names them. While a file beside the directory
 * named as it is, with ".hold", is there, a copy stops after half of the log, and says so by ".held".
 */
public class DirectoryRemoteStorage implements RemoteStorageManager {
    private static final Map<IndexType, String> SUFFIXES = Map.of(
            IndexType.OFFSET, ".index",
            IndexType.TIMESTAMP, ".timeindex",
            IndexType.TRANSACTION, ".txnindex",
            IndexType.PRODUCER_SNAPSHOT, ".snapshot",
            IndexType.LEADER_EPOCH, ".leader_epoch_checkpoint");
    private Path directory;

    @Override
    public void configure(Map<String, ?> settings) {
        directory = Path.of((String) settings.get("dir"));
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        try {
            writeLog(object(segment, ".log"), Files.readAllBytes(data.logSegment()));
            write(object(segment, ".index"), Files.readAllBytes(data.offsetIndex()));
            write(object(segment, ".timeindex"), Files.readAllBytes(data.timeIndex()));
            if (data.transactionIndex().isPresent()) {
                write(object(segment, ".txnindex"), Files.readAllBytes(data.transactionIndex().get()));
            }
            write(object(segment, ".snapshot"), Files.readAllBytes(data.producerSnapshotIndex()));
            ByteBuffer epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            write(object(segment, ".leader_epoch_checkpoint"), bytes);
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
        return Optional.empty();
    }

    void writeLog(String name, byte[] bytes) throws IOException, InterruptedException {
        Path object = directory.resolve(name);
        Files.createDirectories(object.getParent());
        Path hold = Path.of(directory + ".hold");
        try (OutputStream out = Files.newOutputStream(object)) {
            out.write(bytes, 0, bytes.length / 2);
            while (Files.exists(hold)) {
                Files.write(Path.of(directory + ".held"), object.toString().getBytes());
                Thread.sleep(20);
            }
            out.write(bytes, bytes.length / 2, bytes.length - bytes.length / 2);
        }
    }

    void write(String name, byte[] bytes) throws IOException, InterruptedException {
        Files.write(directory.resolve(name), bytes);
    }

    InputStream read(String name, int start) throws IOException, InterruptedException {
        return Channels.newInputStream(FileChannel.open(directory.resolve(name)).position(start));
    }

    void delete(String name) throws IOException, InterruptedException {
        Files.deleteIfExists(directory.resolve(name));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        return open(segment, ".log", start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
            throws RemoteStorageException {
        return open(segment, ".log", start); // whoever reads it stops at the end
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        return open(segment, SUFFIXES.get(type), 0);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try {
            delete(object(segment, ".log"));
            for (String suffix : SUFFIXES.values()) delete(object(segment, suffix));
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    private InputStream open(RemoteLogSegmentMetadata segment, String suffix, int start) throws RemoteStorageException {
        try {
            return read(object(segment, suffix), start);
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException(missing);
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    private static String object(RemoteLogSegmentMetadata segment, String suffix) {
        var partition = segment.topicIdPartition();
        String name = String.format("%020d-%s%s", segment.startOffset(), segment.remoteLogSegmentId().id(), suffix);
        return partition.topic() + "-" + partition.partition() + "-" + partition.topicId() + "/" + name;
    }

    @Override
    public void close() {
    }
}
