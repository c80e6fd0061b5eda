import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;

/** Prints the field of an ACL, a code, and its name, for all that Kafka has. */
public class AclNames {
    public static void main(String[] arguments) {
        for (ResourceType each : ResourceType.values()) {
            System.out.println("resourceType " + each.code() + " " + each);
        }
        for (PatternType each : PatternType.values()) {
            System.out.println("patternType " + each.code() + " " + each);
        }
        for (AclOperation each : AclOperation.values()) {
            System.out.println("operation " + each.code() + " " + each);
        }
        for (AclPermissionType each : AclPermissionType.values()) {
            System.out.println("permissionType " + each.code() + " " + each);
        }
    }
}
