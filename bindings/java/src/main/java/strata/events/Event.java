// SPDX-License-Identifier: MIT
package strata.events;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A class of events. Made once, by {@link Strata#event}, and recorded in any thread.
 *
 * <p>A call with another number of values than there are fields records 0 and "null" for those that are not given. A value of another
 * type than its field is converted; one that cannot be is recorded as 0 or as nothing.
 */
public final class Event {
    static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
    static final ByteBuffer OFF = ByteBuffer.allocateDirect(4);

    private final long handle;
    private final ByteBuffer enabled;
    private final Field[] fields;
    /** The arguments of the fields, as {@link Field.Kind#argument}. */
    private final String arguments;

    Event(Library.Registered registered, Field[] fields) {
        this.handle = registered == null ? 0 : registered.handle;
        this.enabled = registered == null ? OFF : registered.enabled;
        this.fields = fields;
        StringBuilder all = new StringBuilder();
        for (Field field : fields) {
            all.append(field.kind.argument);
        }
        this.arguments = all.toString().intern();
    }

    /** Returns true while somebody records the event. */
    public boolean isOn() {
        return (int) WORD.getOpaque(enabled, 0) != 0;
    }

    /** Records an event without fields. */
    public void record() {
        if (isOn()) {
            recordAll();
        }
    }

    /** Records an event with one integer. */
    public void record(long one) {
        if (isOn()) {
            if (arguments == "i") {
                Library.record(handle, 1, one, 0, 0);
            } else {
                recordAll(one);
            }
        }
    }

    /** Records an event with two integers. */
    public void record(long one, long two) {
        if (isOn()) {
            if (arguments == "ii") {
                Library.record(handle, 2, one, two, 0);
            } else {
                recordAll(one, two);
            }
        }
    }

    /** Records an event with a text. */
    public void record(String one) {
        if (isOn()) {
            if (arguments == "s") {
                byte[] text = Values.utf8(one);
                int length = Math.min(text.length, Values.BYTES_MAX);
                Values memory = Values.take(length);
                Library.record(handle, 2, memory.put(text, length), length, 0);
                memory.give();
            } else {
                recordAll(one);
            }
        }
    }

    /** Records an event with an integer and a text. */
    public void record(long one, String two) {
        if (isOn()) {
            if (arguments == "is") {
                byte[] text = Values.utf8(two);
                int length = Math.min(text.length, Values.BYTES_MAX);
                Values memory = Values.take(length);
                Library.record(handle, 3, one, memory.put(text, length), length);
                memory.give();
            } else {
                recordAll(one, two);
            }
        }
    }

    /** Records an event with these values. While nobody records it, they are still boxed: ask {@link #isOn} first. */
    public void record(Object... values) {
        if (isOn()) {
            recordAll(values);
        }
    }

    private void recordAll(Object... values) {
        Values.with(fields, values, (words, nr) -> Library.record(handle, words, nr) == 0);
    }
}
