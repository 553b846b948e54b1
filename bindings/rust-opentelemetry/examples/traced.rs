//! Spans of OpenTelemetry, recorded by Strata. Prints "SPAN TRACE_ID SPAN_ID PARENT_ID KIND STATUS DESCRIPTION" for each span that has
//! ended, as OpenTelemetry itself says it.

use opentelemetry::trace::{
    Span as _, SpanId, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use strata_opentelemetry::SpanProcessor;

#[derive(Debug)]
struct Printer;

impl SpanExporter for Printer {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        for span in spans {
            let parent = match span.parent_span_id {
                SpanId::INVALID => "-".to_owned(),
                id => id.to_string(),
            };
            let (status, description) = match &span.status {
                Status::Error { description } => ("Error", &**description),
                Status::Ok => ("Ok", ""),
                Status::Unset => ("Unset", ""),
            };
            let context = &span.span_context;
            println!(
                "{}\t{}\t{}\t{parent}\t{:?}\t{status}\t{description}",
                span.name,
                context.trace_id(),
                context.span_id(),
                span.span_kind
            );
        }
        Ok(())
    }
}

fn main() {
    let provider = SdkTracerProvider::builder()
        .with_span_processor(SpanProcessor::new())
        .with_simple_exporter(Printer)
        .build();
    let tracer = provider.tracer("test");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..50 {
                    let of = tracer.span_builder("GET /orders/{id}").with_kind(SpanKind::Server);
                    let request =
                        Context::new().with_span(of.start_with_context(&tracer, &Context::new()));
                    let of = tracer.span_builder("ask").with_kind(SpanKind::Client);
                    let mut ask = of.start_with_context(&tracer, &request);
                    // Its end is another thread's.
                    scope.spawn(move || ask.end()).join().expect("the other thread");
                    if number == 3 {
                        request.span().set_status(Status::error("no \"such\" order ☃"));
                    }
                    request.span().end();
                }
            });
        }
    });
    // Names with numbers in them, names of any text, and spans that nobody ends.
    for number in 0..300 {
        tracer.start(format!("user {number} ☃\0")).end();
    }
    for _ in 0..70000 {
        std::mem::forget(tracer.start("forgotten"));
    }
    tracer.start("").end();
    let off = SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOff)
        .with_span_processor(SpanProcessor::new())
        .build();
    off.tracer("test").start("not sampled").end();
}
