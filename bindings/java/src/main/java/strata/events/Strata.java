// SPDX-License-Identifier: MIT
package strata.events;

/**
 * Trace events and spans of Java programs, recorded by Strata.
 *
 * <pre>{@code
 * static final Event SOLD = Strata.event("shop:sold", Level.INFO, Field.i64("number"), Field.text("customer"));
 *
 * SOLD.record(1, "Ada");
 * }</pre>
 *
 * <p>Where libstrata is not installed the program runs unchanged: {@link #availability} says why nothing is recorded, and with
 * {@code STRATA_VERBOSE} in the environment the program says it once.
 */
public final class Strata {
    private Strata() {}

    /** Makes a class of events, "provider:event". The same class twice is one. */
    public static Event event(String name, Level level, Field... fields) {
        Field[] own = fields.clone();
        return new Event(Library.register(name, level, false, own), own);
    }

    /** Makes a class of spans, whose events are called "provider:span_begin" and "provider:span_end". */
    public static SpanClass span(String name, Level level, Field... fields) {
        Field[] own = fields.clone();
        return new SpanClass(Library.register(name, level, true, own), own);
    }

    /** Returns why events of this program cannot be recorded, or null. */
    public static String availability() {
        return Library.WHY;
    }
}
