// SPDX-License-Identifier: MIT
package strata.events;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * The event classes of log messages, for the handlers and appenders: LOGGER:LEVEL, with an exception LOGGER:LEVEL_exception. Fields are
 * message, thread (the number that Java gives it, as virtual threads have no other), thread_name and exception.
 */
public final class LogEvents {
    private static final ConcurrentHashMap<String, ConcurrentHashMap<String, Event>> EVENTS = new ConcurrentHashMap<>();

    private LogEvents() {}

    /** Returns the event class of a logger's messages of a level. */
    public static Event of(String logger, String levelName, Level level, boolean hasException) {
        String name = logger == null || logger.isEmpty() ? "root" : logger;
        ConcurrentHashMap<String, Event> levels = EVENTS.get(name);
        if (levels == null) {
            levels = EVENTS.computeIfAbsent(name, unused -> new ConcurrentHashMap<>());
        }
        String key = hasException ? levelName + "_exception" : levelName;
        Event event = levels.get(key);
        return event != null ? event : levels.computeIfAbsent(key, unused -> make(name, key, level, hasException));
    }

    private static Event make(String logger, String key, Level level, boolean hasException) {
        // A colon ends the name of the group.
        String name = logger.replace(':', '.') + ":" + key.toLowerCase(Locale.ROOT);
        Field[] fields = {Field.text("message"), Field.i64("thread"), Field.text("thread_name"), Field.text("exception")};
        return Strata.event(name, level, hasException ? fields : java.util.Arrays.copyOf(fields, 3));
    }

    /** Records a message, which is formatted only while somebody records it. */
    public static void record(
            String logger, String levelName, Level level, Supplier<String> message, Throwable thrown) {
        Event event = of(logger, levelName, level, thrown != null);
        if (!event.isOn()) {
            return;
        }
        Thread thread = Thread.currentThread();
        if (thrown == null) {
            event.record(message.get(), thread.getId(), thread.getName());
            return;
        }
        StringWriter trace = new StringWriter();
        thrown.printStackTrace(new PrintWriter(trace));
        event.record(message.get(), thread.getId(), thread.getName(), trace.toString());
    }
}
