import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints the definitions of topic settings, and of the brokers' settings, as JSON: name, type, bounds, valid words.
 * {@code scripts/generate_setting_definitions.py} runs it with the jars of each version.
 */
public class ConfigDefinitions {
    public static void main(String[] arguments) throws Exception {
        System.out.println("{\"topic\":" + json(LogConfig.configDefCopy()) + ",\"broker\":" + json(brokers()) + "}");
    }

    static ConfigDef brokers() throws Exception {
        Class<?> config;
        try {
            config = Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig");
        } catch (ClassNotFoundException older) {
            config = Class.forName("kafka.server.KafkaConfig");
        }
        for (String name : List.of("configDef", "CONFIG_DEF")) {
            try {
                return (ConfigDef) config.getMethod(name).invoke(null);
            } catch (NoSuchMethodException absent) {
                // a field, in newer versions
            }
            try {
                return (ConfigDef) config.getField(name).get(null);
            } catch (NoSuchFieldException absent) {
                // the other name
            }
        }
        throw new IllegalStateException("no definitions in " + config);
    }

    static String json(ConfigDef definitions) throws Exception {
        List<String> rows = new ArrayList<>();
        for (ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            StringBuilder row = new StringBuilder("{\"name\":" + quoted(key.name) + ",\"type\":" + quoted(key.type.name()));
            if (key.validator instanceof ConfigDef.Range range) {
                bound(row, "least", field(range, "min"));
                bound(row, "most", field(range, "max"));
            } else if (key.validator instanceof ConfigDef.ValidString words) {
                row.append(",\"words\":").append(words(words));
            } else if (key.validator instanceof ConfigDef.CaseInsensitiveValidString words) {
                row.append(",\"anyCase\":").append(list((Iterable<?>) field(words, "validStrings")));
            } else if (key.validator instanceof ConfigDef.ValidList words) {
                String found = words(field(words, "validString"));
                if (!found.equals("[]")) row.append(",\"words\":").append(found);
                if (has(words, "isEmptyAllowed")) row.append(",\"mayBeEmpty\":").append(field(words, "isEmptyAllowed"));
            } else if (key.validator != null) {
                row.append(",\"validator\":").append(quoted(key.validator.toString()));
            }
            rows.add(row.append('}').toString());
        }
        return "[\n" + String.join(",\n", rows) + "\n]";
    }

    static void bound(StringBuilder row, String name, Object value) {
        if (value != null) row.append(",\"" + name + "\":").append(value);
    }

    static String words(Object validString) throws Exception {
        return list((Iterable<?>) field(validString, "validStrings"));
    }

    static String list(Iterable<?> words) {
        List<String> found = new ArrayList<>();
        words.forEach(word -> found.add(quoted(String.valueOf(word))));
        return "[" + String.join(",", found) + "]";
    }

    static boolean has(Object of, String name) {
        for (Field each : of.getClass().getDeclaredFields()) {
            if (each.getName().equals(name)) return true;
        }
        return false;
    }

    static Object field(Object of, String name) throws Exception {
        Field found = of.getClass().getDeclaredField(name);
        found.setAccessible(true);
        return found.get(of);
    }

    static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
