import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's ProducerStateManager. Standard input: a JSON object a line, with "do": "new" (begin anew), "append" ("origin",
 * and "batches" in base64 with their final offsets), "expire" or "restart" (both with "now"; the second takes a
 * snapshot and loads it). Standard output: for each, an object with what came of it and the state afterwards.
 */
public class Producers {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int DAY = 24 * 60 * 60 * 1000;

    public static void main(String[] args) throws Exception {
        Path directory = Files.createTempDirectory("producers");
        ProducerStateManager state = open(directory);
        StringBuilder out = new StringBuilder();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode step = JSON.readTree(line);
            ObjectNode result = JSON.createObjectNode();
            switch (step.get("do").asText()) {
                case "new":
                    state.truncateFullyAndStartAt(0);
                    break;
                case "append":
                    MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(step.get("batches").binaryValue()));
                    AppendOrigin origin = AppendOrigin.valueOf(step.get("origin").asText());
                    try {
                        if (origin == AppendOrigin.REPLICATION) recover(state, records, result);
                        else append(state, records, origin, result);
                    } catch (RuntimeException exception) {
                        result.put("exception", exception.getClass().getSimpleName());
                    }
                    break;
                case "expire":
                    state.removeExpiredProducers(step.get("now").asLong());
                    break;
                case "restart":
                    state.takeSnapshot();
                    long end = state.mapEndOffset();
                    state = open(directory);
                    state.truncateAndReload(0, end, step.get("now").asLong());
            }
            ObjectNode producers = result.putObject("producers");
            for (Map.Entry<Long, ProducerStateEntry> each : new TreeMap<>(state.activeProducers()).entrySet())
                producers.set(each.getKey().toString(), producer(each.getValue()));
            state.firstUndecidedOffset().ifPresent(offset -> result.put("unstable", offset));
            result.put("end", state.mapEndOffset());
            out.append(result).append('\n');
        }
        System.out.print(out);
        state.truncateFullyAndStartAt(0);
        Files.delete(directory);
    }

    static ProducerStateManager open(Path directory) throws Exception {
        return new ProducerStateManager(
                new TopicPartition("t", 0), directory.toFile(), 60000, new ProducerStateManagerConfig(DAY, false), Time.SYSTEM);
    }

    /** From 4.2 on it is told the version of transactions; with 2 (KIP-890), a marker's epoch has to be above that of its
     * transaction, which is for the coordinator to see to. */
    private static Optional<CompletedTxn> append(ProducerAppendInfo append, RecordBatch batch)
            throws ReflectiveOperationException {
        Method method;
        try {
            method = ProducerAppendInfo.class.getMethod("append", RecordBatch.class, Optional.class, short.class);
        } catch (NoSuchMethodException old) {
            return append.append(batch, Optional.empty());
        }
        try {
            @SuppressWarnings("unchecked")
            Optional<CompletedTxn> completed = (Optional<CompletedTxn>) method.invoke(append, batch, Optional.empty(), (short) 1);
            return completed;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof RuntimeException cause) throw cause;
            throw thrown;
        }
    }

    /** As UnifiedLog does for what a producer or a coordinator sends: all of it or nothing. */
    static void append(ProducerStateManager state, MemoryRecords records, AppendOrigin origin, ObjectNode result)
            throws ReflectiveOperationException {
        Map<Long, ProducerAppendInfo> appends = new HashMap<>();
        List<CompletedTxn> completed = new ArrayList<>();
        long end = state.mapEndOffset();
        for (RecordBatch batch : records.batches()) {
            end = batch.lastOffset() + 1;
            if (!batch.hasProducerId()) continue;
            Optional<ProducerStateEntry> known = state.lastEntry(batch.producerId());
            if (origin == AppendOrigin.CLIENT) {
                Optional<BatchMetadata> duplicate = known.isEmpty() ? Optional.empty()
                        : Private.call(known.get(), "findDuplicateBatch", RecordBatch.class, batch);
                if (duplicate.isPresent()) {
                    long lastOffset = Private.field(duplicate.get(), "lastOffset");
                    long timestamp = Private.field(duplicate.get(), "timestamp");
                    result.putArray("duplicate").add(duplicate.get().firstOffset()).add(lastOffset).add(timestamp);
                    return;
                }
            }
            if (batch.isTransactional() && known.isPresent() && batch.producerEpoch() < known.get().producerEpoch())
                throw new InvalidProducerEpochException("as UnifiedLog of 4.1 does before it looks at the transaction");
            ProducerAppendInfo info = appends.computeIfAbsent(batch.producerId(), id -> state.prepareUpdate(id, origin));
            append(info, batch).ifPresent(completed::add);
        }
        appends.values().forEach(state::update);
        for (CompletedTxn each : completed) complete(state, each, result);
        state.updateMapEndOffset(end);
    }

    /** As LogSegment.recover does: batch by batch. */
    static void recover(ProducerStateManager state, MemoryRecords records, ObjectNode result)
            throws ReflectiveOperationException {
        for (RecordBatch batch : records.batches()) {
            if (batch.hasProducerId()) {
                ProducerAppendInfo append = state.prepareUpdate(batch.producerId(), AppendOrigin.REPLICATION);
                Optional<CompletedTxn> completed = append.append(batch, Optional.empty());
                state.update(append);
                if (completed.isPresent()) complete(state, completed.get(), result);
            }
            state.updateMapEndOffset(batch.lastOffset() + 1);
        }
    }

    static void complete(ProducerStateManager state, CompletedTxn completed, ObjectNode result)
            throws ReflectiveOperationException {
        ArrayNode values = result.withArray("completed").addArray();
        for (String name : new String[] {"producerId", "firstOffset", "lastOffset"})
            values.add(Private.<Long>field(completed, name));
        values.add(Private.<Boolean>field(completed, "isAborted")).add(state.lastStableOffset(completed));
        state.completeTxn(completed);
    }

    static ObjectNode producer(ProducerStateEntry entry) throws ReflectiveOperationException {
        ObjectNode node = ReadState.producer(entry);
        node.remove("producerId");
        return node;
    }
}
