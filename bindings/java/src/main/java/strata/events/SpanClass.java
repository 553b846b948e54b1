// SPDX-License-Identifier: MIT
package strata.events;

import java.nio.ByteBuffer;

/** A class of spans, made by {@link Strata#span}. Spans have keys: they may overlap, and end in any thread, also in virtual ones. */
public final class SpanClass {
    private static final Span NONE = new Span(0, 0);

    private final long handle;
    private final ByteBuffer enabled;
    private final Field[] fields;

    SpanClass(Library.Registered registered, Field[] fields) {
        this.handle = registered == null ? 0 : registered.handle;
        this.enabled = registered == null ? Event.OFF : registered.enabled;
        this.fields = fields;
    }

    /** Returns true while somebody records begins of the span. */
    public boolean isOn() {
        return (int) Event.WORD.getOpaque(enabled, 0) != 0;
    }

    /** Begins a span without fields: {@code try (Span span = PAY.begin()) { … }}. */
    public Span begin() {
        return isOn() ? beginAll() : NONE;
    }

    /** Begins a span with one integer. */
    public Span begin(long one) {
        return isOn() ? beginAll(one) : NONE;
    }

    /** Begins a span with these values. */
    public Span begin(Object... values) {
        return isOn() ? beginAll(values) : NONE;
    }

    private Span beginAll(Object... values) {
        long key = Library.newKey();
        return Values.with(fields, values, (words, nr) -> Library.beginKey(handle, key, words, nr) == 1) ? new Span(handle, key) : NONE;
    }
}
