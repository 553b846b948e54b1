// SPDX-License-Identifier: MIT
package strata.events;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Optional;

/**
 * The functions of libstrata by java.lang.foreign, which Java 22 and later have. It is reached by reflection, so that one class file serves
 * Java 17, too; a method handle that is a constant costs no more for that.
 */
final class Foreign {
    private static final MethodHandle RECORD;
    private static final MethodHandle BEGIN_KEY;
    private static final MethodHandle END_KEY;
    private static final MethodHandle NEW_KEY;
    private static final MethodHandle REGISTER_PROVIDER;
    private static final MethodHandle REGISTER_EVENT;
    private static final MethodHandle REGISTER_SPAN;
    private static final MethodHandle SPAN_ENABLED;
    private static final MethodHandle ADDRESS;
    private static final MethodHandle VIEW;
    /** Why the functions cannot be called, or null. */
    static final String WHY;

    private Foreign() {}

    /** What java.lang.foreign needs to make a function callable. */
    private static final class Maker {
        final Class<?> segment = Class.forName("java.lang.foreign.MemorySegment");
        final Class<?> layout = Class.forName("java.lang.foreign.MemoryLayout");
        final Class<?> values = Class.forName("java.lang.foreign.ValueLayout");
        final Class<?> linker = Class.forName("java.lang.foreign.Linker");
        final Class<?> option = Class.forName("java.lang.foreign.Linker$Option");
        final Class<?> descriptor = Class.forName("java.lang.foreign.FunctionDescriptor");
        final Class<?> arena = Class.forName("java.lang.foreign.Arena");
        final Class<?> symbols = Class.forName("java.lang.foreign.SymbolLookup");
        final Object lookup;
        final Object nativeLinker;
        final Object critical;

        Maker(String file) throws ReflectiveOperationException {
            Object global = arena.getMethod("global").invoke(null);
            lookup = symbols.getMethod("libraryLookup", String.class, arena).invoke(null, file, global);
            nativeLinker = linker.getMethod("nativeLinker").invoke(null);
            critical = option.getMethod("critical", boolean.class).invoke(null, true);
        }

        private Object layoutOf(Class<?> type) throws ReflectiveOperationException {
            String name = type == int.class ? "JAVA_INT" : type == long.class ? "JAVA_LONG" : "ADDRESS";
            return values.getField(name).get(null);
        }

        /** Returns a handle of this type for the function of this name. A long[] is handed over in place. */
        MethodHandle function(String name, boolean isShort, MethodType type) throws ReflectiveOperationException {
            Optional<?> address = (Optional<?>) symbols.getMethod("find", String.class).invoke(lookup, name);
            if (address.isEmpty()) {
                throw new NoSuchMethodException("libstrata is too old: it has no " + name);
            }
            Object arguments = Array.newInstance(layout, type.parameterCount());
            for (int i = 0; i < type.parameterCount(); i++) {
                Array.set(arguments, i, layoutOf(type.parameterType(i)));
            }
            Object described = descriptor.getMethod("of", layout, arguments.getClass())
                    .invoke(null, layoutOf(type.returnType()), arguments);
            Object options = Array.newInstance(option, isShort ? 1 : 0);
            if (isShort) {
                Array.set(options, 0, critical);
            }
            MethodHandle handle = (MethodHandle) linker.getMethod("downcallHandle", segment, descriptor, options.getClass())
                    .invoke(nativeLinker, address.get(), described, options);
            MethodHandle ofArray = MethodHandles.publicLookup()
                    .findStatic(segment, "ofArray", MethodType.methodType(segment, long[].class));
            for (int i = 0; i < type.parameterCount(); i++) {
                if (type.parameterType(i) == long[].class) {
                    handle = MethodHandles.filterArguments(handle, i, ofArray);
                }
            }
            return handle.asType(type);
        }

        MethodHandle address() throws ReflectiveOperationException {
            MethodHandles.Lookup all = MethodHandles.publicLookup();
            MethodHandle of = all.findStatic(segment, "ofBuffer", MethodType.methodType(segment, java.nio.Buffer.class));
            MethodHandle address = all.findVirtual(segment, "address", MethodType.methodType(long.class));
            return MethodHandles.filterReturnValue(of, address).asType(MethodType.methodType(long.class, ByteBuffer.class));
        }
    }

    static {
        MethodHandle[] found = new MethodHandle[10];
        String why = null;
        try {
            Maker maker = new Maker(Library.file());
            Class<?> i = int.class;
            Class<?> l = long.class;
            found[0] = maker.function("strata_event_record", true, MethodType.methodType(i, l, long[].class, i));
            found[1] = maker.function("strata_span_begin_key", true, MethodType.methodType(i, l, l, long[].class, i));
            found[2] = maker.function("strata_span_end_key", true, MethodType.methodType(i, l, l));
            found[3] = maker.function("strata_span_new_key", true, MethodType.methodType(l));
            found[4] = maker.function("strata_provider_register", false, MethodType.methodType(i, l, l, l, l));
            found[5] = maker.function("strata_event_register", false, MethodType.methodType(i, l, l, l, l, l));
            found[6] = maker.function("strata_span_register", false, MethodType.methodType(i, l, l, i, l, l, l));
            found[7] = maker.function("strata_span_enabled", false, MethodType.methodType(l, l));
            found[8] = maker.address();
            found[9] = MethodHandles.lookup()
                    .findStatic(Foreign.class, "viewBy", MethodType.methodType(ByteBuffer.class, Class.class, long.class, int.class))
                    .bindTo(maker.segment);
        } catch (ReflectiveOperationException | RuntimeException | Error error) {
            Throwable cause = error instanceof java.lang.reflect.InvocationTargetException ? error.getCause() : error;
            why = cause.getMessage() == null ? cause.toString() : cause.getMessage();
        }
        WHY = why;
        RECORD = found[0];
        BEGIN_KEY = found[1];
        END_KEY = found[2];
        NEW_KEY = found[3];
        REGISTER_PROVIDER = found[4];
        REGISTER_EVENT = found[5];
        REGISTER_SPAN = found[6];
        SPAN_ENABLED = found[7];
        ADDRESS = found[8];
        VIEW = found[9];
    }

    private static ByteBuffer viewBy(Class<?> segment, long address, int bytes) throws ReflectiveOperationException {
        Object at = segment.getMethod("ofAddress", long.class).invoke(null, address);
        Object sized = segment.getMethod("reinterpret", long.class).invoke(at, (long) bytes);
        return ((ByteBuffer) segment.getMethod("asByteBuffer").invoke(sized)).order(ByteOrder.nativeOrder());
    }

    /** A call of libstrata throws nothing. */
    private static Error unexpected(Throwable error) {
        return error instanceof Error ? (Error) error : new AssertionError(error);
    }

    static long address(ByteBuffer direct) {
        try {
            return (long) ADDRESS.invokeExact(direct);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static ByteBuffer view(long address, int bytes) {
        try {
            return (ByteBuffer) VIEW.invokeExact(address, bytes);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int registerProvider(long name, long out, long why, long whyBytes) {
        try {
            return (int) REGISTER_PROVIDER.invokeExact(name, out, why, whyBytes);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int registerEvent(long provider, long description, long out, long why, long whyBytes) {
        try {
            return (int) REGISTER_EVENT.invokeExact(provider, description, out, why, whyBytes);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int registerSpan(long provider, long description, int flags, long out, long why, long whyBytes) {
        try {
            return (int) REGISTER_SPAN.invokeExact(provider, description, flags, out, why, whyBytes);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static long spanEnabled(long span) {
        try {
            return (long) SPAN_ENABLED.invokeExact(span);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int record(long event, long[] words, int nr) {
        try {
            return (int) RECORD.invokeExact(event, words, nr);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int beginKey(long span, long key, long[] words, int nr) {
        try {
            return (int) BEGIN_KEY.invokeExact(span, key, words, nr);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static int endKey(long span, long key) {
        try {
            return (int) END_KEY.invokeExact(span, key);
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }

    static long newKey() {
        try {
            return (long) NEW_KEY.invokeExact();
        } catch (Throwable error) {
            throw unexpected(error);
        }
    }
}
