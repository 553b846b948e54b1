// SPDX-License-Identifier: MIT
package strata.events;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** libstrata, by java.lang.foreign where there is one, else by JNI. */
final class Library {
    private static final int WHY_BYTES = 256;
    private static final int CLASS_BYTES = 48;
    private static final int FIELD_BYTES = 24;
    private static final int ENUMERATION_BYTES = 24;
    private static final int LABEL_BYTES = 24;
    private static final int SPAN_KEYED = 1;

    private static final boolean IS_FOREIGN = Runtime.version().feature() >= 22;
    /** Why there is no library, or null. */
    static final String WHY;

    static {
        String why = IS_FOREIGN ? Foreign.WHY : Native.load();
        WHY = why;
        if (why != null) {
            complain("events of this program are not recorded: " + why);
        }
    }

    private Library() {}

    /** File that the loader is asked for. */
    static String file() {
        String named = System.getenv("STRATA_LIBRARY");
        return named == null || named.isEmpty() ? "libstrata.so.0" : named;
    }

    static void complain(String why) {
        String verbose = System.getenv("STRATA_VERBOSE");
        if (verbose != null && !verbose.isEmpty()) {
            System.err.println("strata: " + why);
        }
    }

    static long address(ByteBuffer direct) {
        return IS_FOREIGN ? Foreign.address(direct) : Native.address(direct);
    }

    static int record(long event, long[] words, int nr) {
        return IS_FOREIGN ? Foreign.record(event, words, nr) : Native.record(event, words, nr);
    }

    /** Records up to three words. JNI takes them one by one, which costs less than an array. */
    static void record(long event, int nr, long one, long two, long three) {
        if (IS_FOREIGN) {
            Foreign.record(event, new long[] {one, two, three}, nr);
        } else {
            Native.recordThree(event, nr, one, two, three);
        }
    }

    static int beginKey(long span, long key, long[] words, int nr) {
        return IS_FOREIGN ? Foreign.beginKey(span, key, words, nr) : Native.beginKey(span, key, words, nr);
    }

    static int endKey(long span, long key) {
        return IS_FOREIGN ? Foreign.endKey(span, key) : Native.endKey(span, key);
    }

    static long newKey() {
        return IS_FOREIGN ? Foreign.newKey() : Native.newKey();
    }

    /** A class that libstrata knows: its handle, and the word that is not 0 while somebody records it. */
    static final class Registered {
        final long handle;
        final ByteBuffer enabled;

        Registered(long handle, ByteBuffer enabled) {
            this.handle = handle;
            this.enabled = enabled;
        }
    }

    /** Memory that is handed to libstrata: structures at their offsets, texts behind them. */
    private static final class Memory {
        private final List<byte[]> texts = new ArrayList<>();
        private final List<Integer> pointers = new ArrayList<>();
        private int textBytes;

        /** Notes that there is to be the address of this text at this offset. */
        void text(int at, String text) {
            if (text.indexOf('\0') >= 0) {
                throw new IllegalArgumentException("'" + text + "' has a NUL");
            }
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            texts.add(bytes);
            pointers.add(at);
            textBytes += bytes.length + 1;
        }

        ByteBuffer make(int structures) {
            ByteBuffer all = ByteBuffer.allocateDirect(structures + textBytes).order(ByteOrder.nativeOrder());
            long address = address(all);
            int at = structures;
            for (int i = 0; i < texts.size(); i++) {
                all.putLong(pointers.get(i), address + at);
                all.put(at, texts.get(i));
                at += texts.get(i).length + 1;
            }
            return all;
        }
    }

    private static String textAt(ByteBuffer buffer, int at) {
        StringBuilder text = new StringBuilder();
        for (int i = at; i < at + WHY_BYTES && buffer.get(i) != 0; i++) {
            text.append((char) (buffer.get(i) & 0xff));
        }
        return text.toString();
    }

    /** Registers a class of events, or of spans with keys. Returns null if libstrata is not there, or refuses it. */
    static Registered register(String name, Level level, boolean isSpan, Field[] fields) {
        if (WHY != null) {
            return null;
        }
        try {
            return registerKnown(name, level, isSpan, fields);
        } catch (IllegalArgumentException error) {
            complain("'" + name + "' is not recorded: " + error.getMessage());
            return null;
        }
    }

    private static Registered registerKnown(String name, Level level, boolean isSpan, Field[] fields) {
        int colon = name.indexOf(':');
        long provider = provider(colon < 0 ? "java" : name.substring(0, colon));

        int labels = 0;
        int enumerations = 0;
        for (Field field : fields) {
            if (field.labels != null) {
                enumerations++;
                labels += field.labels.getEnumConstants().length;
            }
        }
        int outAt = CLASS_BYTES + FIELD_BYTES * fields.length + ENUMERATION_BYTES * enumerations + LABEL_BYTES * labels;
        int whyAt = outAt + 8;
        int enumerationAt = CLASS_BYTES + FIELD_BYTES * fields.length;
        int labelAt = enumerationAt + ENUMERATION_BYTES * enumerations;
        Memory memory = new Memory();
        memory.text(8, name.substring(colon + 1));
        for (int i = 0; i < fields.length; i++) {
            memory.text(CLASS_BYTES + i * FIELD_BYTES, fields[i].name);
        }
        int at = labelAt;
        for (Field field : fields) {
            if (field.labels != null) {
                for (Enum<?> constant : field.labels.getEnumConstants()) {
                    memory.text(at, constant.name());
                    at += LABEL_BYTES;
                }
            }
        }
        ByteBuffer all = memory.make(whyAt + WHY_BYTES);
        long base = address(all);
        all.putInt(0, CLASS_BYTES).putInt(4, FIELD_BYTES);
        all.putLong(16, base + CLASS_BYTES).putInt(24, fields.length).putInt(28, level.ordinal());
        for (int i = 0; i < fields.length; i++) {
            int field = CLASS_BYTES + i * FIELD_BYTES;
            Field.Kind kind = fields[i].kind;
            all.put(field + 20, (byte) kind.type).put(field + 21, (byte) (kind.isSequence ? 2 : 0));
            all.put(field + 22, (byte) (kind == Field.Kind.HEX ? 16 : 0));
            if (fields[i].labels == null) {
                continue;
            }
            int nr = fields[i].labels.getEnumConstants().length;
            all.putLong(field + 8, base + enumerationAt).putLong(enumerationAt + 8, base + labelAt).putInt(enumerationAt + 16, nr);
            for (int label = 0; label < nr; label++, labelAt += LABEL_BYTES) {
                all.putLong(labelAt + 8, label).putLong(labelAt + 16, label);
            }
            enumerationAt += ENUMERATION_BYTES;
        }
        int code = isSpan
                ? (IS_FOREIGN
                        ? Foreign.registerSpan(provider, base, SPAN_KEYED, base + outAt, base + whyAt, WHY_BYTES)
                        : Native.registerSpan(provider, base, SPAN_KEYED, base + outAt, base + whyAt, WHY_BYTES))
                : (IS_FOREIGN
                        ? Foreign.registerEvent(provider, base, base + outAt, base + whyAt, WHY_BYTES)
                        : Native.registerEvent(provider, base, base + outAt, base + whyAt, WHY_BYTES));
        long handle = all.getLong(outAt);
        if (code != 0 || handle == 0) {
            throw new IllegalArgumentException(textAt(all, whyAt));
        }
        long word = !isSpan
                ? view(handle, 8).getLong(0)
                : IS_FOREIGN ? Foreign.spanEnabled(handle) : Native.spanEnabled(handle);
        return new Registered(handle, view(word, 4));
    }

    private static ByteBuffer view(long address, int bytes) {
        ByteBuffer view = IS_FOREIGN ? Foreign.view(address, bytes) : Native.view(address, bytes);
        return view.order(ByteOrder.nativeOrder());
    }

    private static long provider(String name) {
        Memory memory = new Memory();
        memory.text(0, name);
        int outAt = 8;
        int whyAt = 16;
        ByteBuffer all = memory.make(whyAt + WHY_BYTES);
        long base = address(all);
        long text = all.getLong(0);
        int code = IS_FOREIGN
                ? Foreign.registerProvider(text, base + outAt, base + whyAt, WHY_BYTES)
                : Native.registerProvider(text, base + outAt, base + whyAt, WHY_BYTES);
        if (code != 0) {
            throw new IllegalArgumentException(textAt(all, whyAt));
        }
        return all.getLong(outAt);
    }
}
