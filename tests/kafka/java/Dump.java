import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.stream.Stream;

/**
 * Kafka's dump tool, for one file after the other: its main class, the files with commas between them, its options. The
 * tool of 4.3 closes a log that it has printed by a method that logs of 4.4 do not have; they are left open then.
 */
public class Dump {
    public static void main(String[] arguments) throws Throwable {
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        Stream<String> options = Stream.of(arguments).skip(2);
        String[] words = Stream.concat(Stream.of("--files", ""), options).toArray(String[]::new);
        for (String file : arguments[1].split(",")) {
            words[1] = file;
            try {
                tool.invoke(null, (Object) words);
            } catch (InvocationTargetException thrown) {
                Throwable cause = thrown.getCause();
                if (!(cause instanceof NoSuchMethodError) || !cause.getMessage().endsWith("FileRecords.closeHandlers()'"))
                    throw cause;
            }
        }
    }
}
