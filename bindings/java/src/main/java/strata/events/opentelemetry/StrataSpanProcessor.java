// SPDX-License-Identifier: MIT
package strata.events.opentelemetry;

import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.data.StatusData;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import strata.events.Event;
import strata.events.Field;
import strata.events.Level;
import strata.events.Span;
import strata.events.SpanClass;
import strata.events.Strata;

/**
 * Records each span of OpenTelemetry that is sampled as a span "otel:NAME" of Strata, from its begin to its end, in whichever
 * threads these are: {@code SdkTracerProvider.builder().addSpanProcessor(new StrataSpanProcessor())}.
 *
 * <p>Fields are name, trace_id (32 hexadecimal digits), span_id (16), parent_id (of the span that it is a part of, which may be in
 * another process; empty if there is none), and kind. A span that ends with an error is also an event "otel:error" with its ids and
 * what is said of it. Where Strata is not installed nothing happens.
 *
 * <p>Of spans that their program never ends, the oldest are ended here when more than 65,536 are open.
 */
public final class StrataSpanProcessor implements SpanProcessor {
    /** A span's name is a class' name. Names are to be few, but some programs put numbers into them: beyond so many, spans are of the class "otel:span". */
    private static final int NAMES_MAX = 256;
    private static final int NAME_MAX = 200;
    /** Half of the spans that may be open at a time. */
    private static final int OPEN_MAX = 1 << 15;
    private static final Pattern UNUSUAL = Pattern.compile("[^A-Za-z0-9_./-]+");

    private final boolean isThere = Strata.availability() == null;
    private final Map<String, SpanClass> names = new ConcurrentHashMap<>();
    private final SpanClass others = spanClass("span");
    private final Event failed = Strata.event(
        "otel:error", Level.ERR, Field.text("name"), Field.text("trace_id"), Field.text("span_id"), Field.text("description"));
    /** What is open: what has begun since the last time that young was full, and what had begun by then. */
    private Map<String, Span> young = new HashMap<>();
    private Map<String, Span> old = new HashMap<>();

    private static SpanClass spanClass(String name) {
        return Strata.span("otel:" + name, Level.INFO, Field.text("name"), Field.text("trace_id"), Field.text("span_id"),
            Field.text("parent_id"), Field.text("kind"));
    }

    private static String className(String name) {
        String usual = UNUSUAL.matcher(name).replaceAll("_");
        String trimmed = usual.substring(0, Math.min(usual.length(), NAME_MAX)).replaceAll("^_+|_+$", "");
        return trimmed.isEmpty() ? "span" : trimmed;
    }

    private SpanClass classOf(String name) {
        SpanClass known = names.get(name);
        if (known != null) {
            return known;
        }
        // Threads that come here at the same time make some names more.
        return names.size() >= NAMES_MAX ? others : names.computeIfAbsent(name, text -> spanClass(className(text)));
    }

    /** Ids of a span are those of a trace and within it. */
    private static String key(SpanContext context) {
        return context.getTraceId() + context.getSpanId();
    }

    @Override
    public void onStart(Context parentContext, ReadWriteSpan span) {
        SpanContext own = span.getSpanContext();
        if (!isThere || !own.isSampled()) {
            return;
        }
        SpanClass spans = classOf(span.getName());
        if (!spans.isOn()) {
            return;
        }
        SpanContext parent = span.getParentSpanContext();
        Span begun = spans.begin(span.getName(), own.getTraceId(), own.getSpanId(), parent.isValid() ? parent.getSpanId() : "",
            span.getKind().name().toLowerCase(Locale.ROOT));
        Map<String, Span> forgotten = null;
        synchronized (this) {
            if (young.size() >= OPEN_MAX) {
                forgotten = old;
                old = young;
                young = new HashMap<>();
            }
            young.put(key(own), begun);
        }
        if (forgotten != null) {
            forgotten.values().forEach(Span::close);
        }
    }

    @Override
    public boolean isStartRequired() {
        return isThere;
    }

    @Override
    public void onEnd(ReadableSpan span) {
        SpanContext own = span.getSpanContext();
        if (!own.isSampled()) {
            return;
        }
        String key = key(own);
        Span begun;
        synchronized (this) {
            begun = young.remove(key);
            if (begun == null) {
                begun = old.remove(key);
            }
        }
        if (begun == null) {
            return;
        }
        if (failed.isOn()) {
            SpanData data = span.toSpanData();
            StatusData status = data.getStatus();
            if (status.getStatusCode() == StatusCode.ERROR) {
                failed.record(data.getName(), own.getTraceId(), own.getSpanId(), status.getDescription());
            }
        }
        begun.close();
    }

    @Override
    public boolean isEndRequired() {
        return isThere;
    }
}
