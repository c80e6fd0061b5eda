import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Standard input: bytes in base64, one a line. Standard output: the string that Java makes of them, again as UTF-8. */
public class DecodeUtf8 {
    public static void main(String[] args) throws Exception {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
                System.out.println(Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)));
            }
        }
    }
}
