// SPDX-License-Identifier: MIT
package strata.events.log4j;

import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.config.plugins.Plugin;
import org.apache.logging.log4j.core.config.plugins.PluginAttribute;
import org.apache.logging.log4j.core.config.plugins.PluginElement;
import org.apache.logging.log4j.core.config.plugins.PluginFactory;

import strata.events.Level;
import strata.events.LogEvents;

/** Records the messages of Log4j 2: {@code <Strata name="strata"/>} below {@code <Appenders>}. */
@Plugin(name = "Strata", category = "Core", elementType = "appender", printObject = true)
public final class StrataAppender extends AbstractAppender {
    private StrataAppender(String name, Filter filter) {
        super(name, filter, null, true, Property.EMPTY_ARRAY);
    }

    /** Makes the appender that a configuration names. */
    @PluginFactory
    public static StrataAppender create(@PluginAttribute("name") String name, @PluginElement("Filter") Filter filter) {
        return new StrataAppender(name == null ? "strata" : name, filter);
    }

    private static Level levelOf(org.apache.logging.log4j.Level level) {
        int value = level.intLevel();
        if (value <= 100) {
            return Level.CRIT;
        }
        if (value <= 200) {
            return Level.ERR;
        }
        if (value <= 300) {
            return Level.WARNING;
        }
        return value <= 400 ? Level.INFO : value <= 500 ? Level.DEBUG_PROGRAM : Level.DEBUG;
    }

    @Override
    public void append(LogEvent event) {
        LogEvents.record(
                event.getLoggerName(),
                event.getLevel().name(),
                levelOf(event.getLevel()),
                () -> event.getMessage().getFormattedMessage(),
                event.getThrown());
    }
}
