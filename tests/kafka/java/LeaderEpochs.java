import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;

/**
 * Kafka's LeaderEpochFileCache. Standard input: "assign EPOCH OFFSET", "end OFFSET", "start OFFSET" or "clear", one a
 * line. Standard output: for each, the entries that are left, as "EPOCH OFFSET,EPOCH OFFSET"; for "ask EPOCH END", what
 * a leader whose log ends at END answers to a follower that asks for this epoch, as "EPOCH OFFSET".
 */
public class LeaderEpochs {
    public static void main(String[] args) throws Exception {
        Path directory = Files.createTempDirectory("epochs");
        File file = LeaderEpochCheckpointFile.newFile(directory.toFile());
        Scheduler never = (Scheduler) Proxy.newProxyInstance(
                Scheduler.class.getClassLoader(), new Class<?>[] {Scheduler.class}, (proxy, method, arguments) -> null);
        LeaderEpochFileCache epochs =
                new LeaderEpochFileCache(new TopicPartition("t", 0), new LeaderEpochCheckpointFile(file, null), never);
        StringBuilder out = new StringBuilder();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            if (words[0].equals("assign")) epochs.assign(Integer.parseInt(words[1]), Long.parseLong(words[2]));
            if (words[0].equals("end")) epochs.truncateFromEndAsyncFlush(Long.parseLong(words[1]));
            if (words[0].equals("start")) epochs.truncateFromStartAsyncFlush(Long.parseLong(words[1]));
            if (words[0].equals("clear")) epochs.clear();
            if (words[0].equals("ask")) {
                var answer = epochs.endOffsetFor(Integer.parseInt(words[1]), Long.parseLong(words[2]));
                out.append(answer.getKey() + " " + answer.getValue() + "\n");
                continue;
            }
            out.append(epochs.epochEntries().stream()
                    .map(each -> each.toString().replaceAll("[^0-9]+", " ").trim())
                    .collect(Collectors.joining(","))).append('\n');
        }
        System.out.print(out);
        Files.deleteIfExists(file.toPath());
        Files.delete(directory);
    }
}
