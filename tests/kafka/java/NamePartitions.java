import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.utils.Utils;

/**
 * Argument: the number of partitions. Standard input: names as UTF-16 (big-endian) in base64, one a line, with or without
 * whole pairs of surrogates. Standard output: the hash code of each, and the partition in which a coordinator looks for it.
 */
public class NamePartitions {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] data = Base64.getDecoder().decode(line);
                char[] units = new char[data.length / 2];
                for (int at = 0; at < units.length; at++)
                    units[at] = (char) ((data[2 * at] & 0xff) << 8 | data[2 * at + 1] & 0xff);
                int hash = new String(units).hashCode();
                System.out.println(hash + " " + Utils.abs(hash) % count);
            }
        }
    }
}
