import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** Standard input: the bytes of an address in hex, and the number of its scope (0 for none), one a line. Standard output: how Java writes it. */
public class HostAddresses {
    public static void main(String[] args) throws Exception {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                byte[] bytes = HexFormat.of().parseHex(words[0]);
                int scope = Integer.parseInt(words[1]);
                InetAddress address =
                    scope == 0 ? InetAddress.getByAddress(bytes) : Inet6Address.getByAddress(null, bytes, scope);
                System.out.println(address.getHostAddress());
            }
        }
    }
}
