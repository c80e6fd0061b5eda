import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.OAEPParameterSpec;
import javax.crypto.spec.PSource;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/**
 * A bucket in the layout of Aiven's plugin that is only read and deleted from: a log, all indexes in one object, and a
 * manifest that says where each of them is. What is encrypted, and not compressed, is decrypted with the private key in
 * the file {@code rsm.config.key} (PEM, PKCS #8).
 */
public class PluginLayoutStorage extends S3RemoteStorage {
    private static final Map<IndexType, String> INDEXES = Map.of(
            IndexType.OFFSET, "offset",
            IndexType.TIMESTAMP, "timestamp",
            IndexType.TRANSACTION, "transaction",
            IndexType.PRODUCER_SNAPSHOT, "producerSnapshot",
            IndexType.LEADER_EPOCH, "leaderEpoch");
    private PrivateKey key;

    @Override
    public void configure(Map<String, ?> settings) {
        super.configure(settings);
        if (settings.get("key") == null) return;
        try {
            String pem = Files.readString(Path.of((String) settings.get("key"))).replaceAll("-----[^-]*-----|\\s", "");
            var spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
            key = KeyFactory.getInstance("RSA").generatePrivate(spec);
        } catch (IOException | GeneralSecurityException failed) {
            throw new IllegalArgumentException(failed);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        try {
            String manifest = manifest(segment);
            if (!manifest.contains("\"encryption\"")) return read(object(segment, ".log"), start);
            byte[] stored = whole(segment, ".log");
            var log = new ByteArrayOutputStream();
            int chunk = Integer.parseInt(member(manifest, "\"transformedChunkSize\":(\\d+)"));
            for (int at = 0; at < stored.length; at += chunk) {
                log.write(decrypt(manifest, Arrays.copyOfRange(stored, at, Math.min(stored.length, at + chunk))));
            }
            byte[] bytes = log.toByteArray();
            return new ByteArrayInputStream(bytes, start, bytes.length - start);
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
            String manifest = manifest(segment);
            String name = INDEXES.get(type);
            Matcher place = Pattern.compile("\"" + name + "\":\\{\"position\":(\\d+),\"size\":(\\d+)\\}").matcher(manifest);
            if (!place.find()) throw new RemoteResourceNotFoundException("there is no " + name);
            int position = Integer.parseInt(place.group(1)), size = Integer.parseInt(place.group(2));
            byte[] indexes = whole(segment, ".indexes");
            byte[] stored = Arrays.copyOfRange(indexes, position, position + size);
            boolean isPlain = size == 0 || !manifest.contains("\"encryption\"");
            return new ByteArrayInputStream(isPlain ? stored : decrypt(manifest, stored));
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException(missing);
        } catch (IOException | InterruptedException failed) {
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

    private String manifest(RemoteLogSegmentMetadata segment) throws IOException, InterruptedException {
        return new String(whole(segment, ".rsm-manifest"), StandardCharsets.UTF_8);
    }

    private byte[] whole(RemoteLogSegmentMetadata segment, String suffix) throws IOException, InterruptedException {
        try (InputStream object = read(object(segment, suffix), 0)) {
            return object.readAllBytes();
        }
    }

    private static String member(String manifest, String pattern) throws IOException {
        Matcher found = Pattern.compile(pattern).matcher(manifest);
        if (!found.find()) throw new IOException("the manifest has no " + pattern);
        return found.group(1);
    }

    private byte[] decrypt(String manifest, byte[] stored) throws IOException {
        try {
            Cipher rsa = Cipher.getInstance("RSA/ECB/OAEPPadding");
            var padding = new OAEPParameterSpec(
                    "SHA3-512", "MGF1", new MGF1ParameterSpec("SHA3-512"), PSource.PSpecified.DEFAULT);
            rsa.init(Cipher.DECRYPT_MODE, key, padding);
            var base64 = Base64.getDecoder();
            byte[] dataKey = rsa.doFinal(base64.decode(member(manifest, "\"dataKey\":\"[^:\"]*:([^\"]*)\"")));
            Cipher aes = Cipher.getInstance("AES/GCM/NoPadding");
            aes.init(Cipher.DECRYPT_MODE, new SecretKeySpec(dataKey, "AES"), new GCMParameterSpec(128, stored, 0, 12));
            aes.updateAAD(base64.decode(member(manifest, "\"aad\":\"([^\"]*)\"")));
            return aes.doFinal(stored, 12, stored.length - 12);
        } catch (GeneralSecurityException failed) {
            throw new IOException(failed);
        }
    }

    private static String object(RemoteLogSegmentMetadata segment, String suffix) {
        var partition = segment.topicIdPartition();
        String name = String.format("%020d-%s%s", segment.startOffset(), segment.remoteLogSegmentId().id(), suffix);
        return partition.topic() + "-" + partition.topicId() + "/" + partition.partition() + "/" + name;
    }
}
