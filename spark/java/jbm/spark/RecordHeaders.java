package jbm.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers that a row is written with, but for our own: the expressions of outgoing.py in one call.
 *
 * <p>A property that the message came with, and still has, goes on as its record has it; so does what is no property.
 */
public final class RecordHeaders {
    private static final int BODY = 0, CODEC = 1;
    private static final Map<String, Integer> LOOKED_AT = Map.of("JBMBody", BODY, "JBMCodec", CODEC);
    private static final byte[] NOTHING = {};
    private static final ArrayData NO_HEADERS = new GenericArrayData(new Object[0]);
    private static final UTF8String NULL = UTF8String.fromString("jms.null.");
    /** Bytes of a header's lengths, at most. */
    private static final int LENGTHS_MOST = 10;

    private static final ThreadLocal<RecordHeaders> OF_THREAD = ThreadLocal.withInitial(RecordHeaders::new);

    private final HeaderNames headerNames = new HeaderNames(LOOKED_AT);
    private InternalRow[] carried = new InternalRow[32];
    private HeaderNames.Property[] showsAs = new HeaderNames.Property[32];

    private RecordHeaders() {
    }

    /**
     * A row of `carried`, `added`, the fault of a property's name, the kind and codec of the body that the record
     * came with, and bytes that its headers take at most.
     *
     * @param came those of the record that the row came from, or null
     * @param properties names and texts, or null
     * @param type what a property's header begins with, such as `jms.string.`
     * @param areTexts whether the properties are as they were shown, so that those that are the same are kept
     */
    public static InternalRow encode(ArrayData came, MapData properties, UTF8String type, boolean areTexts) {
        return OF_THREAD.get().made(came, properties, type, areTexts);
    }

    private InternalRow made(ArrayData came, MapData properties, UTF8String type, boolean areTexts) {
        Object[] row = new Object[6];
        int others = read(came, row);
        List<InternalRow> added = added(properties, areTexts, row);
        row[0] = new GenericArrayData(kept(others));
        row[1] = added.isEmpty() ? NO_HEADERS : typed(added, type, row);
        return new GenericInternalRow(row);
    }

    /** The properties that the record does not have, and a fault of their names; the others are marked as kept. */
    private List<InternalRow> added(MapData properties, boolean areTexts, Object[] row) {
        int count = properties == null ? 0 : properties.numElements();
        if (count == 0) {
            return List.of();
        }
        ArrayData names = properties.keyArray();
        ArrayData texts = properties.valueArray();
        List<InternalRow> added = List.of();
        for (int i = 0; i < count; i++) {
            UTF8String name = names.getUTF8String(i);
            UTF8String text = texts.isNullAt(i) ? null : texts.getUTF8String(i);
            HeaderNames.Property known = areTexts ? headerNames.shownAs(name, i) : null;
            if (known != null && isSame(text, headerNames.texts[known.place])) {
                known.isKept = true;
                continue;
            }
            if (row[2] == null) {
                row[2] = fault(name.toString());
            }
            if (added.isEmpty()) {
                added = new ArrayList<>(count);
            }
            added.add(pair(name, text == null ? null : text.getBytes()));
        }
        return added;
    }

    private Object[] kept(int others) {
        Object[] kept = new Object[others];
        int count = 0;
        for (int i = 0; i < others; i++) {
            if (showsAs[i] == null || showsAs[i].isKept) {
                kept[count++] = carried[i];
            }
        }
        return count == others ? kept : Arrays.copyOf(kept, count);
    }

    /** How many headers are not ours; they are in `carried`. */
    private int read(ArrayData came, Object[] row) {
        int count = came == null ? 0 : came.numElements();
        headerNames.begin(count);
        if (count > carried.length) {
            carried = new InternalRow[count];
            showsAs = new HeaderNames.Property[count];
        }
        int others = 0;
        long bytesMost = 0;
        for (int i = 0; i < count; i++) {
            InternalRow pair = came.getStruct(i, 2);
            UTF8String key = pair.getUTF8String(0);
            HeaderNames.Header header = headerNames.header(i, key);
            byte[] value = pair.isNullAt(1) ? null : pair.getBinary(1);
            bytesMost += key.numBytes() + (value == null ? 0 : value.length) + LENGTHS_MOST;
            if (header.field == BODY) {
                row[3] = value == null ? null : UTF8String.fromBytes(value);
            } else if (header.field == CODEC && value != null && value.length > 0) {
                row[4] = value;
            }
            if (header.isOwn) {
                continue;
            }
            boolean isShown = header.property != null && (value == null || Texts.areUtf8(value));
            if (isShown) {
                headerNames.show(header, value);
            }
            carried[others] = pair(header.key, value);
            showsAs[others++] = isShown ? header.property : null;
        }
        row[5] = bytesMost;
        return others;
    }

    private static String shown(String name) {
        return "properties: '" + name + "' is no name of a property: use letters, digits, '_' and '$', no digit first, "
            + "no word of the selector language, and no 'JMS' in front";
    }

    private static UTF8String fault(String name) {
        if (HeaderNames.isToldByProvider(name)) {
            return UTF8String.fromString("property '" + name + "' is read-only: leave it out");
        }
        return HeaderNames.isPropertyName(name) ? null : UTF8String.fromString(shown(name));
    }

    /** Their headers, in the order of the names; what they take is added to that of the row. */
    private static ArrayData typed(List<InternalRow> added, UTF8String type, Object[] row) {
        added.sort(Comparator.comparing((InternalRow each) -> each.getUTF8String(0)));
        Object[] headers = new Object[added.size()];
        long bytesMost = (long) row[5];
        for (int i = 0; i < headers.length; i++) {
            InternalRow each = added.get(i);
            boolean isNull = each.isNullAt(1);
            UTF8String key = UTF8String.concat(isNull ? NULL : type, each.getUTF8String(0));
            byte[] value = isNull ? NOTHING : each.getBinary(1);
            headers[i] = pair(key, value);
            bytesMost += key.numBytes() + value.length + LENGTHS_MOST;
        }
        row[5] = bytesMost;
        return new GenericArrayData(headers);
    }

    private static InternalRow pair(UTF8String key, byte[] value) {
        return new GenericInternalRow(new Object[] {key, value});
    }

    private static boolean isSame(UTF8String text, UTF8String other) {
        return text == null ? other == null : text.equals(other);
    }
}
