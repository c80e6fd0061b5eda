import org.apache.kafka.server.share.fetch.RecordState;

/** Prints the code of each state that a share group has for records, and its name. */
public class DeliveryStates {
    public static void main(String[] arguments) {
        for (RecordState each : RecordState.values()) {
            System.out.println(each.id() + " " + each);
        }
    }
}
