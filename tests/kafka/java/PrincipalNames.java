import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Standard input: lines of a distinguished name in DER and mapping rules, both in base64. Standard output: in base64, the
 * name that Java gives it, and what a broker with these rules makes of that; "-" for what Java or Kafka refuses.
 */
public class PrincipalNames {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ", -1);
                String rules = new String(Base64.getDecoder().decode(words[1]), StandardCharsets.UTF_8);
                String name;
                try {
                    name = new X500Principal(Base64.getDecoder().decode(words[0])).getName();
                } catch (IllegalArgumentException error) {
                    out.println("- -");
                    continue;
                }
                String mapped = "-";
                try {
                    mapped = encoded(SslPrincipalMapper.fromRules(rules).getName(name));
                } catch (Exception error) {
                    // No rule applies, or these are no rules.
                }
                out.println(encoded(name) + " " + mapped);
            }
        }
        out.flush();
    }

    private static String encoded(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
