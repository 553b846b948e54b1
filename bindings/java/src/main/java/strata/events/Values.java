// SPDX-License-Identifier: MIT
package strata.events;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** The values of one record: words, and memory outside of the heap for what they point to. */
final class Values {
    /** Bytes of texts and arrays of a record; no sub-buffer takes more. */
    static final int BYTES_MAX = 1 << 24;
    private static final byte[] NONE = {};
    /** Memory that is not used just now. A thread that finds none makes some. */
    private static final AtomicReferenceArray<Values> POOL = new AtomicReferenceArray<>(64);

    private ByteBuffer buffer;
    private long address;
    private int used;

    private Values(int bytes) {
        grow(bytes);
    }

    private void grow(int bytes) {
        buffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
        address = Library.address(buffer);
    }

    private static int place() {
        long id = Thread.currentThread().getId();
        return (int) (id ^ id >> 6) & 63;
    }

    /** Takes memory for so many bytes. Give it back by {@link #give}. */
    static Values take(int bytes) {
        Values values = POOL.getAndSet(place(), null);
        if (values == null) {
            values = new Values(Math.max(bytes, 1024));
        } else if (values.buffer.capacity() < bytes) {
            values.grow(bytes);
        }
        values.used = 0;
        return values;
    }

    void give() {
        if (buffer.capacity() <= 1 << 16) {
            POOL.lazySet(place(), this);
        }
    }

    /** Copies bytes. Returns their address. */
    long put(byte[] bytes, int length) {
        long at = address + used;
        buffer.put(used, bytes, 0, length);
        used += length;
        return at;
    }

    static byte[] utf8(String text) {
        return (text == null ? "null" : text).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytesOf(Field.Kind kind, Object value) {
        if (kind == Field.Kind.TEXT) {
            return utf8(textOf(value));
        }
        if (kind == Field.Kind.BYTES) {
            return value instanceof byte[] ? (byte[]) value : NONE;
        }
        ByteBuffer bytes;
        if (kind == Field.Kind.DOUBLES) {
            double[] numbers = value instanceof double[] ? (double[]) value : new double[0];
            bytes = ByteBuffer.allocate(numbers.length * 8).order(ByteOrder.nativeOrder());
            bytes.asDoubleBuffer().put(numbers);
        } else {
            long[] numbers = value instanceof long[] ? (long[]) value : new long[0];
            if (value instanceof int[]) {
                numbers = java.util.Arrays.stream((int[]) value).asLongStream().toArray();
            }
            bytes = ByteBuffer.allocate(numbers.length * 8).order(ByteOrder.nativeOrder());
            bytes.asLongBuffer().put(numbers);
        }
        return bytes.array();
    }

    /** An object whose toString() fails is no reason for the program to fail. */
    private static String textOf(Object value) {
        try {
            return String.valueOf(value);
        } catch (RuntimeException error) {
            return "<" + value.getClass().getName() + " without toString()>";
        }
    }

    private static long wordOf(Field.Kind kind, Object value) {
        switch (kind) {
            case F64:
                return Double.doubleToRawLongBits(value instanceof Number ? ((Number) value).doubleValue() : 0);
            case BOOL:
                return Boolean.TRUE.equals(value) ? 1 : 0;
            case ENUM:
                return value instanceof Enum ? ((Enum<?>) value).ordinal() : -1;
            default:
                if (value instanceof Number) {
                    return ((Number) value).longValue();
                }
                return value instanceof Character ? (Character) value : Boolean.TRUE.equals(value) ? 1 : 0;
        }
    }

    /** What is to be done with the words of a record. */
    interface Use {
        boolean words(long[] words, int nr);
    }

    /** Calls @use with the words of these values, one for each field; null if there are none left. */
    static boolean with(Field[] fields, Object[] values, Use use) {
        long[] words = new long[2 * fields.length];
        byte[][] data = null;
        int total = 0;
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].kind.isSequence) {
                data = data == null ? new byte[fields.length][] : data;
                data[i] = bytesOf(fields[i].kind, i < values.length ? values[i] : null);
                total = (int) Math.min((long) total + data[i].length, BYTES_MAX);
            }
        }
        Values memory = data == null ? null : take(total);
        int nr = 0;
        for (int i = 0; i < fields.length; i++) {
            Object value = i < values.length ? values[i] : null;
            if (!fields[i].kind.isSequence) {
                words[nr++] = wordOf(fields[i].kind, value);
                continue;
            }
            int size = fields[i].kind == Field.Kind.LONGS || fields[i].kind == Field.Kind.DOUBLES ? 8 : 1;
            int length = Math.min(data[i].length, BYTES_MAX - memory.used) / size * size;
            words[nr++] = memory.put(data[i], length);
            words[nr++] = length / size;
        }
        boolean result = use.words(words, nr);
        if (memory != null) {
            memory.give();
        }
        return result;
    }
}
