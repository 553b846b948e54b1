// SPDX-License-Identifier: MIT
package strata.events;

/** Severity of an event class: the levels of syslog, and LTTng's finer ones for debugging. */
public enum Level {
    EMERG,
    ALERT,
    CRIT,
    ERR,
    WARNING,
    NOTICE,
    INFO,
    DEBUG_SYSTEM,
    DEBUG_PROGRAM,
    DEBUG_PROCESS,
    DEBUG_MODULE,
    DEBUG_UNIT,
    DEBUG_FUNCTION,
    DEBUG_LINE,
    DEBUG
}
