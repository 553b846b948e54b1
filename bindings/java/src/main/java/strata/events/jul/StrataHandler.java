// SPDX-License-Identifier: MIT
package strata.events.jul;

import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;

import strata.events.Level;
import strata.events.LogEvents;

/** Records the messages of java.util.logging: {@code handlers = strata.events.jul.StrataHandler}, or {@code logger.addHandler()}. */
public final class StrataHandler extends Handler {
    private static final Formatter PLAIN = new SimpleFormatter();

    private static Level levelOf(java.util.logging.Level level) {
        int value = level.intValue();
        if (value >= 1000) {
            return Level.ERR;
        }
        if (value >= 900) {
            return Level.WARNING;
        }
        if (value >= 800) {
            return Level.INFO;
        }
        return value >= 700 ? Level.DEBUG_PROGRAM : Level.DEBUG;
    }

    @Override
    public void publish(LogRecord record) {
        if (record == null || !isLoggable(record)) {
            return;
        }
        LogEvents.record(
                record.getLoggerName(),
                record.getLevel().getName(),
                levelOf(record.getLevel()),
                () -> String.valueOf(PLAIN.formatMessage(record)),
                record.getThrown());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
}
