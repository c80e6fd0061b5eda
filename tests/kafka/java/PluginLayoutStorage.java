import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/**
 * A bucket in the layout of Aiven's plugin, plain, that is only read and deleted from: a log, all indexes in one object, and a
 * manifest that says where each of them is.
 */
public class PluginLayoutStorage extends DirectoryRemoteStorage {
    private static final Map<IndexType, String> INDEXES = Map.of(
            IndexType.OFFSET, "offset",
            IndexType.TIMESTAMP, "timestamp",
            IndexType.TRANSACTION, "transaction",
            IndexType.PRODUCER_SNAPSHOT, "producerSnapshot",
            IndexType.LEADER_EPOCH, "leaderEpoch");
    private Path bucket;

    @Override
    public void configure(Map<String, ?> settings) {
        super.configure(settings);
        bucket = Path.of((String) settings.get("dir"));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        try {
            return read(object(segment, ".log"), start);
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException(missing);
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
            throws RemoteStorageException {
        return fetchLogSegment(segment, start); // whoever reads it stops at the end
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        try {
            String manifest = Files.readString(bucket.resolve(object(segment, ".rsm-manifest")));
            String name = INDEXES.get(type);
            Matcher place = Pattern.compile("\"" + name + "\":\\{\"position\":(\\d+),\"size\":(\\d+)\\}").matcher(manifest);
            if (!place.find()) throw new RemoteResourceNotFoundException("there is no " + name);
            int position = Integer.parseInt(place.group(1)), size = Integer.parseInt(place.group(2));
            byte[] indexes = Files.readAllBytes(bucket.resolve(object(segment, ".indexes")));
            return new ByteArrayInputStream(Arrays.copyOfRange(indexes, position, position + size));
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException(missing);
        } catch (IOException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try {
            for (String suffix : new String[] {".rsm-manifest", ".indexes", ".log"}) delete(object(segment, suffix));
        } catch (IOException | InterruptedException failed) {
            throw new RemoteStorageException(failed);
        }
    }

    private static String object(RemoteLogSegmentMetadata segment, String suffix) {
        var partition = segment.topicIdPartition();
        String name = String.format("%020d-%s%s", segment.startOffset(), segment.remoteLogSegmentId().id(), suffix);
        return partition.topic() + "-" + partition.topicId() + "/" + partition.partition() + "/" + name;
    }
}
