//! One attempt to send spans.

use std::str::FromStr as _;
use std::time::Duration;

#[cfg(feature = "server")]
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
#[cfg(feature = "server")]
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message as _;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rethread_events::text::with_sources;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use url::Url;

use super::config::{Protocol, Target};
use crate::exit::{Failure, INVALID};

/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long it may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A collector.
pub(super) struct Sender {
    target: Target,
    way: Way,
}

enum Way {
    Http { client: reqwest::Client, headers: HeaderMap },
    Grpc { channel: Channel, metadata: MetadataMap },
}

/// Why spans were not accepted.
#[derive(Debug)]
pub(super) enum Unsent {
    /// The collector cannot be reached, has no room, or does not let this program in: they can be sent later.
    Later(String),
    /// The collector does not take them, and will not.
    Refused(String),
}

impl Sender {
    pub(super) fn new(target: &Target) -> Result<Self, Failure> {
        let unsuitable = |name: &str| {
            Failure::new(
                INVALID,
                format!("the header `{name}` of the collector cannot be sent: check OTEL_EXPORTER_OTLP_HEADERS"),
            )
        };
        let way = match target.protocol {
            Protocol::Http => {
                let mut headers = HeaderMap::new();
                for (name, value) in &target.headers {
                    let key = HeaderName::from_str(name).map_err(|_| unsuitable(name))?;
                    let mut value = HeaderValue::from_str(value).map_err(|_| unsuitable(name))?;
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                let client =
                    rethread_llm::http::shared_without_redirects(&target.url, CONNECT_MAX).map_err(Failure::other)?;
                Way::Http { client, headers }
            }
            Protocol::Grpc => {
                let mut metadata = MetadataMap::new();
                for (name, value) in &target.headers {
                    let name = name.to_ascii_lowercase();
                    let key = AsciiMetadataKey::from_str(&name).map_err(|_| unsuitable(&name))?;
                    metadata.insert(key, AsciiMetadataValue::try_from(value).map_err(|_| unsuitable(&name))?);
                }
                let invalid = |error: tonic::transport::Error| Failure::new(INVALID, format!("telemetry: {error}"));
                let mut endpoint = Endpoint::from_shared(target.url.to_string()).map_err(invalid)?;
                if target.url.scheme() == "https" {
                    endpoint = endpoint.tls_config(ClientTlsConfig::new().with_enabled_roots()).map_err(invalid)?;
                }
                let channel = endpoint.connect_timeout(CONNECT_MAX).timeout(target.timeout).connect_lazy();
                Way::Grpc { channel, metadata }
            }
        };
        Ok(Self { target: target.clone(), way })
    }

    /// Sends spans. Returns how many of them the collector refused.
    pub(super) async fn send(&mut self, request: &ExportTraceServiceRequest) -> Result<u64, Unsent> {
        let answer = match &self.way {
            Way::Http { client, headers } => {
                let answer = self.post(client, headers, &self.target.url, request.encode_to_vec()).await?;
                ExportTraceServiceResponse::decode(&answer[..]).unwrap_or_default()
            }
            Way::Grpc { channel, metadata } => {
                let mut client = TraceServiceClient::new(channel.clone());
                client.export(with(metadata, request.clone())).await.map_err(|status| unsent(&status))?.into_inner()
            }
        };
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }

    /// Sends metrics.
    #[cfg(feature = "server")]
    pub(super) async fn send_metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<(), Unsent> {
        match &self.way {
            Way::Http { client, headers } => {
                self.post(client, headers, &self.target.metrics_url, request.encode_to_vec()).await.map(drop)
            }
            Way::Grpc { channel, metadata } => {
                let mut client = MetricsServiceClient::new(channel.clone());
                client.export(with(metadata, request.clone())).await.map(drop).map_err(|status| unsent(&status))
            }
        }
    }

    async fn post(
        &self,
        client: &reqwest::Client,
        headers: &HeaderMap,
        url: &Url,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Unsent> {
        let sent = client
            .post(url.clone())
            .timeout(self.target.timeout)
            .headers(headers.clone())
            .header("Content-Type", "application/x-protobuf")
            .body(body)
            .send()
            .await;
        // The address may hold a secret of its own.
        let response = sent.map_err(|error| Unsent::Later(with_sources(&error.without_url())))?;
        let status = response.status();
        if status.is_success() { Ok(read(response).await) } else { Err(refused(status)) }
    }
}

fn with<T>(metadata: &MetadataMap, message: T) -> Request<T> {
    let mut request = Request::new(message);
    *request.metadata_mut() = metadata.clone();
    request
}

fn unsent(status: &Status) -> Unsent {
    let why = format!("the answer was {:?}", status.code());
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::Internal => Unsent::Refused(why),
        _ => Unsent::Later(why),
    }
}

fn refused(status: StatusCode) -> Unsent {
    let why = format!("the answer was {status}");
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => Unsent::Refused(why),
        _ => Unsent::Later(why),
    }
}

/// Reads the answer, which has nothing in it if all was accepted.
async fn read(mut response: reqwest::Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= ANSWER_BYTES_MAX => bytes.extend_from_slice(&chunk),
            Ok(None) => return bytes,
            // It has accepted what was sent, whatever else it says.
            Ok(Some(_)) | Err(_) => return Vec::new(),
        }
    }
}
