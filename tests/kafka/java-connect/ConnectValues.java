import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Values by Connect's own JsonConverter: a line each, the decimal and the double that were put in, and its JSON. */
public class ConnectValues {
    public static void main(String[] arguments) {
        String[] digits = {"1234", "-1230", "0", "99999999999999999999999999999999999"};
        double[] doubles = {
            0.1, -0.0, 1e300, Double.MIN_VALUE, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY};
        for (String format : List.of("BASE64", "NUMERIC"))
            for (int scale : new int[] {2, 0, 30, -3})
                for (int number = 0; number < doubles.length; number++)
                    print(format, new BigDecimal(new BigInteger(digits[number % digits.length]), scale), doubles[number]);
    }

    static void print(String format, BigDecimal decimal, double number) {
        Schema own = Decimal.schema(decimal.scale());
        Schema schema = SchemaBuilder.struct()
            .field("decimal", Decimal.builder(decimal.scale()).optional().build())
            .field("decimals", SchemaBuilder.map(Schema.STRING_SCHEMA, SchemaBuilder.array(own).build()).build())
            .field("double", Schema.FLOAT64_SCHEMA)
            .field("float", Schema.OPTIONAL_FLOAT32_SCHEMA)
            .field("pairs", SchemaBuilder.map(Schema.FLOAT64_SCHEMA, Schema.INT32_SCHEMA).build());
        Struct value = new Struct(schema)
            .put("decimal", decimal).put("decimals", Map.of("a", List.of(decimal)))
            .put("double", number).put("float", (float) number).put("pairs", Map.of(number, 1));
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("decimal.format", format), false);
        System.out.println(decimal + "\t" + number + "\t" + new String(converter.fromConnectData("t", schema, value)));
    }
}
