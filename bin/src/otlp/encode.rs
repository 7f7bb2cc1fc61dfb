//! Spans as messages of OTLP.

#[cfg(feature = "server")]
use std::collections::BTreeMap;

#[cfg(feature = "server")]
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
#[cfg(feature = "server")]
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
#[cfg(feature = "server")]
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind as Kind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Message, Status};
use prost::Message as _;
use rethread::Time;
#[cfg(feature = "server")]
use rethread::operate::CallSeries;
#[cfg(feature = "server")]
use rethread_events::traces::Key;
use rethread_events::traces::{Attribute, Profile, Span, SpanKind, Value};

use super::config::Target;

/// The most spans of a request, and about how many bytes it has at most: servers of gRPC take 4 MiB.
const SPANS_MAX: usize = 1_000;
const BYTES_MAX: usize = 2 << 20;
/// The schema of the names of version 1.41.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Puts spans into requests of bounded size.
pub(super) fn requests(target: &Target, spans: &[Span]) -> Vec<ExportTraceServiceRequest> {
    let (mut requests, mut held, mut bytes) = (Vec::new(), Vec::new(), 0);
    for span in spans {
        let message = message(span, target.names);
        let n = message.encoded_len();
        if !held.is_empty() && (held.len() >= SPANS_MAX || bytes + n > BYTES_MAX) {
            requests.push(request(target, std::mem::take(&mut held)));
            bytes = 0;
        }
        bytes += n;
        held.push(message);
    }
    if !held.is_empty() {
        requests.push(request(target, held));
    }
    requests
}

/// The resource, and the schema of the names.
fn resource(target: &Target) -> (Resource, String) {
    let attributes = target.resource.iter().map(|(name, value)| pair(name, AnyKind::StringValue(value.clone())));
    let schema_url = match target.names {
        Profile::V1_41 => SCHEMA.to_owned(),
        // It was not published.
        Profile::Latest => String::new(),
    };
    (Resource { attributes: attributes.collect(), ..Resource::default() }, schema_url)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "rethread".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    }
}

fn request(target: &Target, spans: Vec<Message>) -> ExportTraceServiceRequest {
    let (resource, schema_url) = resource(target);
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans { scope: Some(scope()), spans, schema_url: schema_url.clone() }],
            schema_url,
        }],
    }
}

/// Puts histograms into a request: their values since the beginning, up to now.
#[cfg(feature = "server")]
pub(super) fn metrics(
    target: &Target,
    calls: &[CallSeries],
    (began, now): (Time, Time),
) -> ExportMetricsServiceRequest {
    let mut metrics = BTreeMap::<String, (&str, Vec<HistogramDataPoint>)>::new();
    for series in calls {
        // Durations are counted in microseconds and sent in seconds.
        let (unit, per) = if series.metric == Key::TokenUsage { ("{token}", 1.0) } else { ("s", 1e6) };
        let mut name = series.metric.name(target.names).to_owned();
        let mut attributes = Vec::new();
        for (key, value) in &series.attributes {
            match (target.names, key) {
                // There is a metric for each type.
                (Profile::Latest, Key::TokenType) => name = format!("{name}.{value}_tokens"),
                _ => attributes.push(pair(key.name(target.names), AnyKind::StringValue(value.clone()))),
            }
        }
        let point = HistogramDataPoint {
            attributes,
            start_time_unix_nano: nanos(began),
            time_unix_nano: nanos(now),
            count: series.count(),
            sum: Some(series.sum as f64 / per),
            bucket_counts: series.buckets.clone(),
            explicit_bounds: series.bounds.iter().map(|bound| *bound as f64 / per).collect(),
            ..HistogramDataPoint::default()
        };
        metrics.entry(name).or_insert((unit, Vec::new())).1.push(point);
    }
    let metric = |(name, (unit, data_points)): (String, (&str, Vec<HistogramDataPoint>))| Metric {
        name,
        unit: unit.to_owned(),
        data: Some(Data::Histogram(Histogram {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        })),
        ..Metric::default()
    };
    let (resource, schema_url) = resource(target);
    let metrics = metrics.into_iter().map(metric).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope()), metrics, schema_url: schema_url.clone() }],
            schema_url,
        }],
    }
}

fn message(span: &Span, names: Profile) -> Message {
    let kind = match span.kind {
        SpanKind::Internal => Kind::Internal,
        SpanKind::Client => Kind::Client,
    };
    let attributes = |all: &[Attribute]| -> Vec<_> {
        all.iter().map(|attribute| pair(attribute.key.name(names), any(&attribute.value))).collect()
    };
    let link = |link: &rethread_events::traces::Link| Link {
        trace_id: link.trace.as_bytes().to_vec(),
        span_id: link.span.as_bytes().to_vec(),
        ..Link::default()
    };
    Message {
        trace_id: span.trace.as_bytes().to_vec(),
        span_id: span.id.as_bytes().to_vec(),
        parent_span_id: span.parent.map(|parent| parent.as_bytes().to_vec()).unwrap_or_default(),
        flags: 1,
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: attributes(&span.attributes),
        links: span.links.iter().map(link).collect(),
        status: span
            .error
            .as_ref()
            .map(|error| Status { message: error.message.clone().unwrap_or_default(), code: StatusCode::Error.into() }),
        ..Message::default()
    }
}

fn pair(name: &str, value: AnyKind) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn any(value: &Value) -> AnyKind {
    match value {
        Value::Text(text) => AnyKind::StringValue(text.clone()),
        Value::Int(number) => AnyKind::IntValue(*number),
        Value::Double(number) => AnyKind::DoubleValue(*number),
        Value::Bool(is) => AnyKind::BoolValue(*is),
        Value::Texts(texts) => {
            let one = |text: &String| AnyValue { value: Some(AnyKind::StringValue(text.clone())) };
            AnyKind::ArrayValue(ArrayValue { values: texts.iter().map(one).collect() })
        }
    }
}

fn nanos(time: Time) -> u64 {
    time.unix_us().saturating_mul(1_000)
}
