import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints the definitions of settings of topics, brokers and groups, as JSON: name, type, bounds, valid words,
 * default; of a topic's or a group's the names that brokers' defaults for it have, of a broker's whether a running one
 * takes it; and which are internal.
 * {@code scripts/generate_setting_definitions.py} runs it with the jars of each version.
 */
public class ConfigDefinitions {
    public static void main(String[] arguments) throws Exception {
        System.out.println("{\"topic\":" + json(LogConfig.configDefCopy(), synonyms(), Set.of())
            + ",\"broker\":" + json(brokers(), Map.of(), dynamic()) + groups() + "}");
    }

    static Map<String, List<String>> synonyms() {
        Map<String, List<String>> found = new HashMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach(
            (name, of) -> found.put(name, of.stream().map(ConfigSynonym::name).toList()));
        return found;
    }

    /** Those of consumer groups, in versions whose groups have defaults of brokers. */
    static String groups() throws Exception {
        Map<String, List<String>> names = new HashMap<>();
        Class<?> config;
        try {
            config = Class.forName("org.apache.kafka.coordinator.group.GroupConfig");
            Map<?, ?> found = (Map<?, ?>) config.getField("ALL_GROUP_CONFIG_SYNONYMS").get(null);
            found.forEach((name, of) -> ((Optional<?>) of).ifPresent(one -> names.put((String) name, List.of((String) one))));
        } catch (ClassNotFoundException | NoSuchFieldException older) {
            return "";
        }
        return ",\"group\":" + json((ConfigDef) config.getField("CONFIG_DEF").get(null), names, Set.of());
    }

    /** Of versions that have them in Java. */
    static Set<?> dynamic() throws Exception {
        try {
            Class<?> found = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
            return (Set<?>) found.getField("ALL_DYNAMIC_CONFIGS").get(null);
        } catch (ClassNotFoundException older) {
            return Set.of();
        }
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

    static String json(ConfigDef definitions, Map<String, List<String>> synonyms, Set<?> dynamic) throws Exception {
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
            if (key.hasDefault() && key.defaultValue != null) {
                row.append(",\"default\":").append(quoted(ConfigDef.convertToString(key.defaultValue, key.type)));
            }
            List<String> names = synonyms.get(key.name);
            if (names != null) row.append(",\"synonyms\":").append(list(names));
            if (key.internalConfig) row.append(",\"internal\":true");
            if (dynamic.contains(key.name)) row.append(",\"dynamic\":true");
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
