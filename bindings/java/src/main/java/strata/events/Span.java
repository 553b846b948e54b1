// SPDX-License-Identifier: MIT
package strata.events;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/** A span that has begun. It ends when it is closed, the first time. */
public final class Span implements AutoCloseable {
    private static final VarHandle CLASS;

    static {
        try {
            CLASS = MethodHandles.lookup().findVarHandle(Span.class, "spanClass", long.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private long spanClass;
    private final long key;

    Span(long spanClass, long key) {
        this.spanClass = spanClass;
        this.key = key;
    }

    @Override
    public void close() {
        if (spanClass != 0) {
            long ended = (long) CLASS.getAndSet(this, 0L);
            if (ended != 0) {
                Library.endKey(ended, key);
            }
        }
    }
}
