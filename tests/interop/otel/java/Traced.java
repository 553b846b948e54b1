import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import strata.events.opentelemetry.StrataSpanProcessor;

/**
 * Spans of OpenTelemetry in Java, for tests/interop/opentelemetry_agents. Prints "SPAN TRACE_ID SPAN_ID PARENT_ID KIND STATUS DESCRIPTION"
 * for each span that has ended, as OpenTelemetry itself says it.
 */
public final class Traced {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static final class Printer implements SpanExporter {
        @Override
        public CompletableResultCode export(Collection<SpanData> spans) {
            for (SpanData span : spans) {
                String parent = span.getParentSpanContext().isValid() ? span.getParentSpanId() : "-";
                OUT.println(String.join("\t", span.getName(), span.getTraceId(), span.getSpanId(), parent, span.getKind().name(),
                    span.getStatus().getStatusCode().name(), span.getStatus().getDescription()));
            }
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode flush() {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode shutdown() {
            return CompletableResultCode.ofSuccess();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        SdkTracerProvider provider = SdkTracerProvider.builder().addSpanProcessor(new StrataSpanProcessor())
            .addSpanProcessor(SimpleSpanProcessor.create(new Printer())).build();
        Tracer tracer = provider.get("test");
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                for (int number = 0; number < 50; number++) {
                    Span request = tracer.spanBuilder("GET /orders/{id}").setNoParent().setSpanKind(SpanKind.SERVER).startSpan();
                    Span ask = tracer.spanBuilder("ask").setParent(Context.root().with(request)).setSpanKind(SpanKind.CLIENT).startSpan();
                    // Its end is another thread's.
                    Thread other = new Thread(ask::end);
                    other.start();
                    try {
                        other.join();
                    } catch (InterruptedException error) {
                        throw new IllegalStateException(error);
                    }
                    if (number == 3) {
                        request.setStatus(StatusCode.ERROR, "no \"such\" order ☃");
                    }
                    request.end();
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // Names with numbers in them, names of any text, and spans that nobody ends.
        for (int number = 0; number < 300; number++) {
            tracer.spanBuilder("user " + number + " ☃\0").startSpan().end();
        }
        for (int number = 0; number < 70000; number++) {
            tracer.spanBuilder("forgotten").startSpan();
        }
        tracer.spanBuilder("").startSpan().end();
        SdkTracerProvider off = SdkTracerProvider.builder().setSampler(Sampler.alwaysOff()).addSpanProcessor(new StrataSpanProcessor()).build();
        off.get("test").spanBuilder("not sampled").startSpan().end();
        provider.close();
        off.close();
    }
}
