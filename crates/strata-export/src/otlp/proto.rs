//! The part of OpenTelemetry's protocol that is written: messages with the published field numbers, as protobuf and as
//! JSON.
//!
//! The JSON form is that of protobuf with OpenTelemetry's exceptions: ids are hexadecimal, enumerations are numbers,
//! and numbers of 64 bits are texts. Members with their default value are left out.

use prost::{Message, Oneof};
use serde::{Serialize, Serializer};

/// The values of `Span.SpanKind`.
pub(super) const KIND_INTERNAL: i32 = 1;
pub(super) const KIND_SERVER: i32 = 2;
pub(super) const KIND_CLIENT: i32 = 3;
pub(super) const KIND_PRODUCER: i32 = 4;
pub(super) const KIND_CONSUMER: i32 = 5;

/// `Status.StatusCode` of a span that failed.
pub(super) const STATUS_ERROR: i32 = 2;

/// The content of one request, or of a file: `TracesData` and `ExportTraceServiceRequest` have the same encoding.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TracesData {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The spans of one process.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// The library that has made the spans: `InstrumentationScope`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hexadecimal")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hexadecimal")]
    pub span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hexadecimal", skip_serializing_if = "Vec::is_empty")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "decimal")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "decimal")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "10")]
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_attributes_count: u32,
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    #[prost(uint32, tag = "12")]
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_events_count: u32,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// An event record with the ids of a span: `Span.Event`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpanEvent {
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "decimal")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(transparent)]
pub(super) struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 3, 4, 5")]
    pub value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof, Serialize)]
pub(super) enum AnyValueKind {
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "signed_decimal")]
    Integer(i64),
    #[prost(double, tag = "4")]
    #[serde(rename = "doubleValue", serialize_with = "real")]
    Real(f64),
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    List(ArrayValue),
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// The answer to a request: `ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// A receiver's message about a refused request: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Refusal {
    #[prost(string, tag = "2")]
    pub message: String,
}

impl AnyValue {
    pub(super) fn text(text: impl Into<String>) -> AnyValue {
        AnyValue { value: Some(AnyValueKind::Text(text.into())) }
    }

    pub(super) fn integer(number: i64) -> AnyValue {
        AnyValue { value: Some(AnyValueKind::Integer(number)) }
    }

    /// Converts an unsigned number to a value: a text if it does not fit into 63 bits.
    pub(super) fn unsigned(number: u64) -> AnyValue {
        match i64::try_from(number) {
            Ok(number) => AnyValue::integer(number),
            Err(_) => AnyValue::text(number.to_string()),
        }
    }

    pub(super) fn real(number: f64) -> AnyValue {
        AnyValue { value: Some(AnyValueKind::Real(number)) }
    }

    pub(super) fn list(values: Vec<AnyValue>) -> AnyValue {
        AnyValue { value: Some(AnyValueKind::List(ArrayValue { values })) }
    }
}

fn hexadecimal<S: Serializer>(id: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&id.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn decimal<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&number.to_string())
}

fn signed_decimal<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&number.to_string())
}

/// Writes a real number. JSON has none that is infinite, and protobuf's JSON has words for them.
fn real<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    match *number {
        number if number.is_nan() => to.serialize_str("NaN"),
        f64::INFINITY => to.serialize_str("Infinity"),
        f64::NEG_INFINITY => to.serialize_str("-Infinity"),
        number => to.serialize_f64(number),
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_json_of_the_protocol() {
        let json = |value| strata_text::json::compact(&value);
        assert_eq!(json(AnyValue::integer(i64::MIN)), r#"{"intValue":"-9223372036854775808"}"#);
        assert_eq!(json(AnyValue::unsigned(u64::MAX)), r#"{"stringValue":"18446744073709551615"}"#);
        assert_eq!(json(AnyValue::unsigned(7)), r#"{"intValue":"7"}"#);
        assert_eq!(json(AnyValue::real(0.5)), r#"{"doubleValue":0.5}"#);
        assert_eq!(json(AnyValue::real(f64::NAN)), r#"{"doubleValue":"NaN"}"#);
        assert_eq!(json(AnyValue::real(f64::NEG_INFINITY)), r#"{"doubleValue":"-Infinity"}"#);
        let list = AnyValue::list(vec![AnyValue::text("a\"\u{1b}")]);
        let wanted = r#"{"arrayValue":{"values":[{"stringValue":"a\"\u001b"}]}}"#;
        assert_eq!(json(list), wanted);
        let span = Span { trace_id: vec![0xab; 16], span_id: vec![1; 8], ..Span::default() };
        assert_eq!(
            strata_text::json::compact(&span),
            r#"{"traceId":"abababababababababababababababab","spanId":"0101010101010101","name":"","kind":0,"startTimeUnixNano":"0","endTimeUnixNano":"0"}"#
        );
    }
}
