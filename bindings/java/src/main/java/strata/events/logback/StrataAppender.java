// SPDX-License-Identifier: MIT
package strata.events.logback;

import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.IThrowableProxy;
import ch.qos.logback.classic.spi.ThrowableProxy;
import ch.qos.logback.core.UnsynchronizedAppenderBase;

import strata.events.Level;
import strata.events.LogEvents;

/** Records the messages of Logback, and so of SLF4J: {@code <appender name="strata" class="strata.events.logback.StrataAppender"/>}. */
public final class StrataAppender extends UnsynchronizedAppenderBase<ILoggingEvent> {
    private static Level levelOf(ch.qos.logback.classic.Level level) {
        int value = level.toInt();
        if (value >= ch.qos.logback.classic.Level.ERROR_INT) {
            return Level.ERR;
        }
        if (value >= ch.qos.logback.classic.Level.WARN_INT) {
            return Level.WARNING;
        }
        if (value >= ch.qos.logback.classic.Level.INFO_INT) {
            return Level.INFO;
        }
        return value >= ch.qos.logback.classic.Level.DEBUG_INT ? Level.DEBUG_PROGRAM : Level.DEBUG;
    }

    @Override
    protected void append(ILoggingEvent event) {
        IThrowableProxy proxy = event.getThrowableProxy();
        LogEvents.record(
                event.getLoggerName(),
                event.getLevel().toString(),
                levelOf(event.getLevel()),
                event::getFormattedMessage,
                proxy instanceof ThrowableProxy ? ((ThrowableProxy) proxy).getThrowable() : null);
    }
}
