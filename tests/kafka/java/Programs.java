import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs programs one after the other, as a JVM of its own would run each. Standard input: for each, how many texts
 * follow, and these: a directory of classes (or nothing), the main class, its arguments; then what it gets as standard
 * input. Standard output: for each, its exit code, standard output and standard error. Each of them is bytes with
 * their length before them; all numbers have four bytes. The classes of the directory are loaded anew each time, so that
 * what they keep in static fields is not there for the next. Ends when there is no more.
 */
public class Programs {
    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Exited(status); });
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        ByteArrayOutputStream said = new ByteArrayOutputStream(), complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said)); // once, as Scala remembers them
        System.setErr(new PrintStream(complained));
        while (true) {
            byte[] number = in.readNBytes(4);
            if (number.length < 4) Runtime.getRuntime().halt(0);
            String[] words = new String[new DataInputStream(new ByteArrayInputStream(number)).readInt()];
            for (int i = 0; i < words.length; i++) words[i] = new String(bytes(in), StandardCharsets.UTF_8);
            System.setIn(new ByteArrayInputStream(bytes(in)));
            out.writeInt(run(words));
            System.out.flush();
            System.err.flush();
            for (ByteArrayOutputStream each : new ByteArrayOutputStream[] {said, complained}) {
                byte[] bytes = each.toByteArray();
                each.reset();
                out.writeInt(bytes.length);
                out.write(bytes);
            }
            out.flush();
        }
    }

    static byte[] bytes(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    static int run(String[] words) throws Exception {
        String[] arguments = Arrays.copyOfRange(words, 2, words.length);
        try (URLClassLoader loader = new OwnFirst(Path.of(words[0]))) {
            Thread.currentThread().setContextClassLoader(loader);
            Class.forName(words[1], true, loader).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Exited exited) return exited.status;
            thrown.getCause().printStackTrace();
            return 1;
        }
    }

    /** The classes of a directory, although the class path may have them as well. */
    static class OwnFirst extends URLClassLoader {
        final Path directory;

        OwnFirst(Path directory) throws Exception {
            super(new URL[] {directory.toUri().toURL()});
            this.directory = directory;
        }

        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!Files.exists(directory.resolve(name.replace('.', '/') + ".class"))) return super.loadClass(name, resolve);
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? findClass(name) : loaded;
            }
        }
    }

    static class Exited extends Error {
        final int status;

        Exited(int status) {
            super("exit code " + status, null, false, false);
            this.status = status;
        }
    }
}
