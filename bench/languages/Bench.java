// SPDX-License-Identifier: MIT
import java.util.function.LongConsumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * What an event of a Java program costs: the lowest of some rounds [ns], without the loop.
 *
 * Bench LABEL [--once] [--lttng]: with --lttng only messages of java.util.logging, by LTTng's agent.
 */
public final class Bench {
    private static int rounds = 20;
    private static int events = 100_000;
    private static String label;

    private static double lowest(LongConsumer each) {
        double best = Double.MAX_VALUE;
        for (int round = 0; round < rounds; round++) {
            long begin = System.nanoTime();
            for (long number = 0; number < events; number++) {
                each.accept(number);
            }
            best = Math.min(best, System.nanoTime() - begin);
        }
        return best / events;
    }

    private static void show(String what, LongConsumer each) {
        System.out.printf("RESULT %s/%s %.1f%n", label, what, lowest(each));
    }

    private static final Logger LOGGER = Logger.getLogger("bench");

    private static void logged(String what, Handler handler) {
        LOGGER.setUseParentHandlers(false);
        for (Handler old : LOGGER.getHandlers()) {
            LOGGER.removeHandler(old);
        }
        LOGGER.addHandler(handler);
        show("java.util.logging, " + what, number -> LOGGER.info("a message"));
    }

    private static final class Nothing extends Handler {
        @Override
        public void publish(LogRecord record) {}

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    /** The classes of the package, which LTTng's part does not load. */
    private static final class Own {
        static final strata.events.Event PAIR = strata.events.Strata.event(
                "bench:pair", strata.events.Level.INFO, strata.events.Field.i64("one"), strata.events.Field.i64("two"));
        static final strata.events.Event SOLD = strata.events.Strata.event(
                "bench:sold", strata.events.Level.INFO, strata.events.Field.i64("number"), strata.events.Field.text("text"));
        static final strata.events.SpanClass SPAN =
                strata.events.Strata.span("bench:span", strata.events.Level.INFO, strata.events.Field.i64("number"));

        static void all() {
            show("two integers", number -> PAIR.record(number, number));
            show("an integer and a text of 31 characters", number -> SOLD.record(number, "thirty-one characters and more."));
            show("a span with an integer, begin and end", number -> {
                try (strata.events.Span span = SPAN.begin(number)) {
                    assert span != null;
                }
            });
            logged("StrataHandler", new strata.events.jul.StrataHandler());
        }
    }

    public static void main(String[] arguments) throws Exception {
        label = arguments[0];
        boolean isLttng = false;
        for (String argument : arguments) {
            isLttng |= argument.equals("--lttng");
            if (argument.equals("--once")) {
                rounds = 2;
                events = 1000;
            }
        }
        if (!isLttng) {
            Own.all();
        }
        logged("a handler that does nothing", new Nothing());
        if (isLttng) {
            events /= 10;
            logged("LTTng's agent", (Handler) Class.forName("org.lttng.ust.agent.jul.LttngLogHandler").getConstructor().newInstance());
        }
        System.exit(0);
    }
}
