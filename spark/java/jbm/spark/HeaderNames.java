package jbm.spark;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

import org.apache.spark.unsafe.types.UTF8String;

/** What names of headers mean, worked out once for each: they come again from record to record. For one thread. */
final class HeaderNames {
    /** Names of our own headers, which are no properties. */
    static final Set<String> OWN = Set.of("JBMBody", "JBMCodec", "JBMDuplicateID", "JBMSender", "JBMSubscription",
        "JBMTemporary", "JMSCorrelationID", "JMSDeliveryMode", "JMSDeliveryTime", "JMSExpiration", "JMSMessageID",
        "JMSPriority", "JMSReplyTo", "JMSTimestamp", "JMSType");
    private static final Set<String> TOLD_BY_PROVIDER = Set.of("JMSXDeliveryCount", "JMS_BEA_UnitOfOrder");
    private static final Set<String> KEYWORDS =
        Set.of("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE");
    private static final Pattern TYPED =
        Pattern.compile("jms[.](string|boolean|byte|short|int|long|float|double|null)[.]");
    private static final Pattern NAME =
        Pattern.compile("(?!JMS(?![X_]))[\\p{IsAlphabetic}_$][\\p{IsAlphabetic}\\p{M}\\p{Nd}_$]*");
    private static final int KNOWN_MOST = 10_000;

    /** What headers of one name mean. */
    static final class Header {
        final UTF8String key;
        /** Of our own headers, which it is; else -1. */
        int field = -1;
        boolean isOwn;
        boolean isTyped;
        boolean isNull;
        /** What it shows as; null where it is no property. */
        Property property;

        Header(UTF8String key) {
            this.key = key;
        }
    }

    /** One name of properties, and where the record at hand has it. */
    static final class Property {
        final UTF8String name;
        long record;
        int place;
        boolean isTyped;
        boolean isKept;

        Property(UTF8String name) {
            this.name = name;
        }
    }

    private final Map<String, Integer> fields;
    private final HashMap<UTF8String, Header> known = new HashMap<>();
    private final HashMap<UTF8String, Property> properties = new HashMap<>();
    /** By place in the record: a producer writes the same names one behind the other, record by record. */
    private Header[] expected = new Header[32];
    private long record;
    /** How many properties the record at hand shows so far, and what they are. */
    int shown;
    UTF8String[] names = new UTF8String[32];
    UTF8String[] texts = new UTF8String[32];
    private Property[] shownHere = new Property[32];

    /** `fields` are numbers of those of our own headers that the caller looks at. */
    HeaderNames(Map<String, Integer> fields) {
        this.fields = fields;
    }

    /** A record with so many headers is next. */
    void begin(int count) {
        record++;
        shown = 0;
        // Between records alone, for one that has begun marks in them what it has seen.
        if (known.size() > KNOWN_MOST) {
            known.clear();
            properties.clear();
            expected = new Header[expected.length];
        }
        if (count > expected.length) {
            expected = new Header[count];
            names = new UTF8String[count];
            texts = new UTF8String[count];
            shownHere = new Property[count];
        }
    }

    /** Of the header at that place of the record. */
    Header header(int place, UTF8String key) {
        Header found = expected[place];
        if (found == null || !found.key.equals(key)) {
            found = known.get(key);
            if (found == null) {
                found = made(key.copy());
                known.put(found.key, found);
            }
            expected[place] = found;
        }
        return found;
    }

    /** Shows the value, a text or null, as the header's property: of several the last, and those with a type first. */
    void show(Header header, byte[] value) {
        UTF8String text = value == null || header.isNull ? null : UTF8String.fromBytes(value);
        Property property = header.property;
        if (property.record != record) {
            property.record = record;
            property.place = shown;
            property.isTyped = header.isTyped;
            property.isKept = false;
            names[shown] = property.name;
            shownHere[shown] = property;
            texts[shown++] = text;
        } else if (header.isTyped || !property.isTyped) {
            property.isTyped = header.isTyped;
            texts[property.place] = text;
        }
    }

    /** The property that the record at hand shows under the name, or null; most often it is at that place. */
    Property shownAs(UTF8String name, int place) {
        if (place < shown && shownHere[place].name.equals(name)) {
            return shownHere[place];
        }
        Property found = properties.get(name);
        return found == null || found.record != record ? null : found;
    }

    private Header made(UTF8String key) {
        Header header = new Header(key);
        String text = key.toString();
        header.isOwn = OWN.contains(text);
        if (header.isOwn) {
            header.field = fields.getOrDefault(text, -1);
            return header;
        }
        var typed = TYPED.matcher(text);
        header.isTyped = typed.lookingAt();
        header.isNull = text.startsWith("jms.null.");
        String name = header.isTyped ? text.substring(typed.end()) : text;
        if (isPropertyName(name) && !isToldByProvider(name)) {
            header.property = properties.computeIfAbsent(UTF8String.fromString(name), Property::new);
        }
        return header;
    }

    static boolean isPropertyName(String name) {
        return NAME.matcher(name).matches() && !KEYWORDS.contains(name.toUpperCase(Locale.ROOT));
    }

    static boolean isToldByProvider(String name) {
        return TOLD_BY_PROVIDER.contains(name);
    }
}
