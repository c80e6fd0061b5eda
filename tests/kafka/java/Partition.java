import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/**
 * Where Kafka's producer sends keys. Arguments: numbers of partitions. Standard input: a key in base64 on each line.
 * Standard output: for each key a line with its hash, and its partition for each number.
 */
public class Partition {
    public static void main(String[] numbers) throws Exception {
        StringBuilder out = new StringBuilder();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] key = Base64.getDecoder().decode(line);
            out.append(Utils.murmur2(key));
            for (String number : numbers)
                out.append(' ').append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(number)));
            out.append('\n');
        }
        System.out.print(out);
    }
}
