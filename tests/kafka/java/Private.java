import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** What a class of Kafka keeps to itself; from version to version, the same field is public or is not. */
final class Private {
    @SuppressWarnings("unchecked")
    static <T> T field(Object object, String name) throws ReflectiveOperationException {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(object);
    }

    @SuppressWarnings("unchecked")
    static <T> T call(Object object, String name, Class<?> type, Object argument) throws ReflectiveOperationException {
        Method method = object.getClass().getDeclaredMethod(name, type);
        method.setAccessible(true);
        return (T) method.invoke(object, argument);
    }
}
