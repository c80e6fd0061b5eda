import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs brokers one after the other in one JVM, each as {@code kafka.Kafka} does. Standard input: for each, a line with
 * its properties file, and one with the file to which its output is appended; then "stop" for a clean shutdown, after
 * which standard output has a line. A broker that fails ends the JVM, as it would end its own; so does the end of the
 * standard input, at once.
 */
public class Brokers {
    public static void main(String[] none) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        while (true) {
            String path = in.readLine(), output = path == null ? null : in.readLine();
            if (output == null) Runtime.getRuntime().halt(0);
            try (PrintStream to = new PrintStream(new FileOutputStream(output, true), true)) {
                System.setOut(to);
                System.setErr(to);
                KafkaRaftServer server = started(path);
                if (in.readLine() == null) Runtime.getRuntime().halt(0);
                server.shutdown();
                server.awaitShutdown();
            }
            answers.println("stopped");
            answers.flush();
        }
    }

    static KafkaRaftServer started(String path) {
        try (InputStream file = new FileInputStream(path)) {
            Properties properties = new Properties();
            properties.load(file);
            KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(properties, false), Time.SYSTEM);
            server.startup();
            return server;
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            Exit.exit(1);
            throw new IllegalStateException(thrown);
        }
    }
}
