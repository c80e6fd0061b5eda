import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;

/**
 * The warm process of a side in Java: for each line on standard input it runs one pass, and answers with how many records
 * (or batches) there were, how many seconds that took, how many on a core, and the bytes that were made (0: none).
 */
final class Turns {
    interface Pass {
        Done run() throws Exception;

        /** What has to be there before each pass, and is not measured. */
        default void prepare() throws Exception {}
    }

    record Done(long count, long bytes) {}

    static void take(Pass pass) throws Exception {
        BufferedReader turns = new BufferedReader(new InputStreamReader(System.in));
        var process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        while (turns.readLine() != null) {
            pass.prepare();
            long start = System.nanoTime();
            long cpuStart = process.getProcessCpuTime();
            Done done = pass.run();
            double seconds = (System.nanoTime() - start) / 1e9;
            double cpuSeconds = (process.getProcessCpuTime() - cpuStart) / 1e9;
            System.out.println(done.count + " " + seconds + " " + cpuSeconds + " " + done.bytes);
        }
    }

    private Turns() {}
}
