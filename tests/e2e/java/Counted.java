// SPDX-License-Identifier: MIT
import java.util.concurrent.atomic.AtomicLong;

import strata.events.Event;
import strata.events.Field;
import strata.events.Level;
import strata.events.Span;
import strata.events.SpanClass;
import strata.events.Strata;

/** A program with events of all kinds. Says how many it has recorded: "N events". */
public final class Counted {
    private static final AtomicLong EVENTS = new AtomicLong();

    enum Colour {
        RED,
        BLUE
    }

    static final class Fails {
        @Override
        public String toString() {
            throw new IllegalStateException();
        }
    }

    private static void values() {
        Event all = Strata.event("java:values", Level.WARNING, Field.i64("least"), Field.u64("most"), Field.hex("flags"), Field.f64("half"),
                Field.bool("yes"), Field.text("text"), Field.bytes("bytes"), Field.longs("longs"), Field.doubles("doubles"),
                Field.enumeration("colour", Colour.class));
        all.record(Long.MIN_VALUE, -1L, 255, 0.5, true, "é\"", new byte[] {0, -1}, new long[] {1, -2}, new double[] {1.5}, Colour.BLUE);
        // Values of other types, and too few of them.
        all.record("no number", 7, (short) 3, 2, 1, new Fails(), "no bytes", new int[] {5}, null, "no colour");
        all.record(1);
        Event text = Strata.event("java:text", Level.INFO, Field.text("text"));
        text.record("x".repeat(100_000));
        text.record("");
        text.record((String) null);
        text.record(42);
        Strata.event("java:none", Level.EMERG).record();
        Strata.event("without_provider", Level.DEBUG, Field.i64("number"), Field.i64("other")).record(1, 2);
        EVENTS.addAndGet(9);
        // What libstrata refuses is no error of the program.
        Strata.event("bad\n:name", Level.INFO).record();
        Strata.event("java:\0", Level.INFO).record();
        Strata.event("java:twice", Level.INFO, Field.i64("a"), Field.i64("a")).record(1, 2);
    }

    private static void work(long thread, Event step, Event pair, SpanClass span) {
        for (long number = 0; number < 500; number++) {
            try (Span one = span.begin(thread)) {
                step.record(number, thread + "/" + number);
                pair.record(thread, number);
            }
            EVENTS.addAndGet(4);
        }
    }

    private static void threads(boolean isVirtual) throws Exception {
        Event step = Strata.event("java:step", Level.DEBUG, Field.i64("number"), Field.text("text"));
        Event pair = Strata.event("java:pair", Level.DEBUG, Field.i64("thread"), Field.i64("number"));
        SpanClass span = Strata.span("java:work", Level.INFO, Field.i64("thread"));
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            long thread = i;
            Runnable run = () -> work(thread, step, pair, span);
            threads[i] = isVirtual
                    ? (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, run)
                    : new Thread(run);
            if (!isVirtual) {
                threads[i].start();
            }
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // A span that ends twice, in another thread.
        Span one = span.begin(9);
        Thread ender = new Thread(one::close);
        ender.start();
        ender.join();
        one.close();
        EVENTS.addAndGet(2);
    }

    private static void logging() {
        java.util.logging.Logger logger = java.util.logging.Logger.getLogger("shop.orders");
        logger.setUseParentHandlers(false);
        logger.setLevel(java.util.logging.Level.ALL);
        logger.addHandler(new strata.events.jul.StrataHandler());
        for (int number = 0; number < 50; number++) {
            logger.log(java.util.logging.Level.INFO, "order {0} of {1}", new Object[] {number, "Ada"});
            logger.fine("detail");
            EVENTS.addAndGet(2);
        }
        logger.log(java.util.logging.Level.SEVERE, "failed", new IllegalStateException("no money"));
        EVENTS.addAndGet(1);
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "values":
                values();
                break;
            case "threads":
            case "virtual":
                threads(arguments[0].equals("virtual"));
                break;
            case "logging":
                logging();
                break;
            case "killed":
                threads(false);
                System.out.println(EVENTS.get() + " events");
                System.out.flush();
                Runtime.getRuntime().exec(new String[] {"kill", "-KILL", Long.toString(ProcessHandle.current().pid())});
                Thread.currentThread().join();
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println(EVENTS.get() + " events");
    }
}
