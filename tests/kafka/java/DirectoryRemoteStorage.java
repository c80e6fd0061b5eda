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
            Files.createDirectories(object(segment, ".log").getParent());
            copyLog(data.logSegment(), object(segment, ".log"));
            Files.copy(data.offsetIndex(), object(segment, ".index"));
            Files.copy(data.timeIndex(), object(segment, ".timeindex"));
            if (data.transactionIndex().isPresent()) {
                Files.copy(data.transactionIndex().get(), object(segment, ".txnindex"));
            }
            Files.copy(data.producerSnapshotIndex(), object(segment, ".snapshot"));
            ByteBuffer epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            Files.write(object(segment, ".leader_epoch_checkpoint"), bytes);
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
        return Optional.empty();
    }

    private void copyLog(Path log, Path object) throws IOException, InterruptedException {
        byte[] bytes = Files.readAllBytes(log);
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
            Files.deleteIfExists(object(segment, ".log"));
            for (String suffix : SUFFIXES.values()) Files.deleteIfExists(object(segment, suffix));
        } catch (IOException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    private InputStream open(RemoteLogSegmentMetadata segment, String suffix, int start) throws RemoteStorageException {
        try {
            return Channels.newInputStream(FileChannel.open(object(segment, suffix)).position(start));
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException(missing);
        } catch (IOException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    private Path object(RemoteLogSegmentMetadata segment, String suffix) {
        var partition = segment.topicIdPartition();
        String name = String.format("%020d-%s%s", segment.startOffset(), segment.remoteLogSegmentId().id(), suffix);
        String above = partition.topic() + "-" + partition.partition() + "-" + partition.topicId();
        return directory.resolve(above).resolve(name);
    }

    @Override
    public void close() {
    }
}
