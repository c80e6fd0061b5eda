import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;

/**
 * The same in a bucket of an S3 server that takes any signature ({@code rsm.config.url}, with the bucket; a directory
 * without one). An object
 * is there as a whole or not at all: while there is a file {@code rsm.config.hold}, a copy stops after the log, and says
 * so by that name with ".held" after it.
 */
public class S3RemoteStorage extends DirectoryRemoteStorage {
    private final HttpClient client = HttpClient.newHttpClient();
    private String url;
    private Path hold;

    @Override
    public void configure(Map<String, ?> settings) {
        url = (String) settings.get("url");
        if (url == null) super.configure(settings);
        else if (settings.get("hold") != null) hold = Path.of((String) settings.get("hold"));
    }

    @Override
    void writeLog(String name, byte[] bytes) throws IOException, InterruptedException {
        write(name, bytes);
        while (Files.exists(hold)) {
            Files.write(Path.of(hold + ".held"), name.getBytes());
            Thread.sleep(20);
        }
    }

    @Override
    void write(String name, byte[] bytes) throws IOException, InterruptedException {
        send(name, request(name).PUT(HttpRequest.BodyPublishers.ofByteArray(bytes)));
    }

    @Override
    InputStream read(String name, int start) throws IOException, InterruptedException {
        if (url == null) return super.read(name, start);
        return new ByteArrayInputStream(send(name, request(name).header("Range", "bytes=" + start + "-").GET()));
    }

    @Override
    void delete(String name) throws IOException, InterruptedException {
        if (url == null) super.delete(name);
        else send(name, request(name).DELETE());
    }

    private HttpRequest.Builder request(String name) {
        return HttpRequest.newBuilder(URI.create(url + "/" + name)).header("Authorization", "AWS key:signature");
    }

    private byte[] send(String name, HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse<byte[]> answer = client.send(request.build(), BodyHandlers.ofByteArray());
        if (answer.statusCode() == 404) throw new NoSuchFileException(name);
        if (answer.statusCode() == 416) return new byte[0]; // an empty object
        if (answer.statusCode() >= 300) throw new IOException(name + ": " + answer.statusCode());
        return answer.body();
    }
}
