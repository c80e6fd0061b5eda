import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Starts brokers one after the other in one JVM, as {@code kafka.Kafka} does each, and shuts down each that started.
 * Arguments: their properties files. Standard output: a line for each, "started", or why it ended while it started.
 */
public class StartBrokers {
    static volatile CompletableFuture<String> outcome;

    public static void main(String[] paths) throws Exception {
        Exit.setExitProcedure((status, message) -> end("exit " + status + " " + message));
        Exit.setHaltProcedure((status, message) -> end("halt " + status + " " + message));
        for (String path : paths) {
            Properties properties = new Properties();
            try (InputStream in = new FileInputStream(path)) {
                properties.load(in);
            }
            System.out.println(start(properties).replace('\n', ' '));
        }
        Runtime.getRuntime().halt(0); // some that were refused have left threads
    }

    static String start(Properties properties) throws Exception {
        CompletableFuture<String> own = new CompletableFuture<>();
        outcome = own;
        KafkaRaftServer[] server = new KafkaRaftServer[1];
        inThread(() -> {
            try {
                server[0] = new KafkaRaftServer(KafkaConfig.fromProps(properties, false), Time.SYSTEM);
                server[0].startup();
                own.complete("started");
            } catch (Throwable thrown) {
                own.complete(thrown.toString());
            }
        });
        String found = own.get(90, TimeUnit.SECONDS);
        CompletableFuture<String> stopped = new CompletableFuture<>();
        inThread(() -> {
            try {
                if (server[0] != null) server[0].shutdown();
            } catch (Throwable thrown) {
                thrown.printStackTrace();
            }
            stopped.complete("");
        });
        try {
            stopped.get(found.equals("started") ? 60 : 2, TimeUnit.SECONDS);
        } catch (TimeoutException still) {
            if (found.equals("started")) throw still;
        }
        return found;
    }

    static void inThread(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    /** For whoever would end the JVM: the thread that does ends instead. */
    static void end(String how) {
        outcome.complete(how);
        throw new ThreadDeath();
    }
}
