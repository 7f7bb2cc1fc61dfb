//! The table `telemetry` of rethread.toml, and the variables of OpenTelemetry that complete it.

use std::time::Duration;

use rethread::operate::TraceContext;
use rethread_events::traces::Profile;
use serde::Deserialize;
use url::Url;

use super::sampling::{Sampler, Sampling};
use crate::config::Config;
use crate::exit::{Failure, INVALID};

/// Where a collector listens unless the configuration says otherwise.
const HTTP: &str = "http://localhost:4318";
const GRPC: &str = "http://localhost:4317";
/// What a trace is said to come from unless the configuration says otherwise.
const SERVICE: &str = "rethread";
/// How long an attempt may take unless the configuration says otherwise.
const TIMEOUT_MS: u64 = 10_000;
/// The attribute of the resource that tells processes of a service apart.
#[cfg(feature = "server")]
const INSTANCE: &str = "service.instance.id";
/// The most attributes of the resource.
const RESOURCE_MAX: usize = 64;

/// `[telemetry]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    enabled: Option<bool>,
    endpoint: Option<String>,
    protocol: Option<Protocol>,
    /// The variable with headers, in the form of OTEL_EXPORTER_OTLP_HEADERS.
    headers_env: Option<String>,
    timeout_ms: Option<u64>,
    service_name: Option<String>,
    sampler: Option<Sampler>,
    /// The share of runs that is sent, besides those that fail or are slow.
    ratio: Option<f64>,
    /// Whether runs that fail are always sent.
    failed: Option<bool>,
    /// Runs that take longer are always sent.
    slow_ms: Option<u64>,
    /// How often metrics are sent; they are not without it.
    metrics_interval_ms: Option<u64>,
    content: bool,
    names: Option<Names>,
    from_the_beginning: bool,
}

/// How spans are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// Protobuf in requests of HTTP/1.1
    #[serde(rename = "http/protobuf")]
    #[value(name = "http/protobuf")]
    Http,
    /// gRPC
    #[serde(rename = "grpc")]
    Grpc,
}

/// The names of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
pub(crate) enum Names {
    /// Those of version 1.41 of the conventions
    #[serde(rename = "v1_41")]
    #[value(name = "v1_41")]
    V1_41,
    /// Those of the conventions in development
    #[serde(rename = "latest")]
    Latest,
}

impl From<Names> for Profile {
    fn from(names: Names) -> Self {
        match names {
            Names::V1_41 => Self::V1_41,
            Names::Latest => Self::Latest,
        }
    }
}

/// Where spans are sent, and how.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// For HTTP, the whole address; for gRPC, that of the server.
    pub(crate) url: Url,
    /// The same for metrics.
    pub(crate) metrics_url: Url,
    pub(crate) protocol: Protocol,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    /// The attributes of what the spans come from.
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) names: Profile,
    pub(crate) content: bool,
}

impl Target {
    /// Tells what one of several servers sends from what the others send, unless the configuration does.
    #[cfg(feature = "server")]
    pub(crate) fn tell_apart(&mut self, instance: &str) {
        if self.resource.iter().all(|(name, _)| name != INSTANCE) {
            self.resource.push((INSTANCE.into(), instance.into()));
        }
    }
}

/// What a server sends.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "server"), allow(dead_code))]
pub(crate) struct Telemetry {
    pub(crate) target: Target,
    pub(super) sampling: Sampling,
    /// How often metrics are sent, if they are.
    pub(crate) metrics_every: Option<Duration>,
    pub(crate) from_the_beginning: bool,
}

/// What the command line says about the target.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) endpoint: Option<String>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) names: Option<Names>,
    pub(crate) content: bool,
}

/// Checks the table.
///
/// # Errors
/// For an unknown key and for a value that cannot be meant (exit code 3).
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    // The file alone: a variable that it names may be set elsewhere.
    read(config, &|name| (!name.starts_with("OTEL_")).then(String::new)).map(drop)
}

/// What calls pass on: if traces are wanted, the span that they are.
///
/// # Errors
/// For an unknown key and for a value of another type (exit code 3), and for a variable that cannot be meant.
pub(crate) fn trace_context(config: &Config) -> Result<TraceContext, Failure> {
    let Some(table) = config.telemetry.get()?.as_ref().filter(|table| is_on(table, &variable)) else {
        return Ok(TraceContext::Off);
    };
    Ok(match sampler(table, &variable)?.0 {
        Sampler::Ratio => TraceContext::Recorded,
        Sampler::Parent => TraceContext::AsCaller,
    })
}

/// How the decision about runs falls, and the ratio that goes with it. OTEL_TRACES_SAMPLER says it if the table does not.
fn sampler(table: &Table, var: Var<'_>) -> Result<(Sampler, Option<f64>), Failure> {
    let text = if table.sampler.is_none() { var("OTEL_TRACES_SAMPLER") } else { None };
    let Some(text) = text else { return Ok((table.sampler.unwrap_or_default(), None)) };
    let (sampler, name) = match text.strip_prefix("parentbased_") {
        Some(name) => (Sampler::Parent, name),
        None => (Sampler::Ratio, text.as_str()),
    };
    match name {
        "always_on" => Ok((sampler, Some(1.0))),
        "always_off" => Ok((sampler, Some(0.0))),
        "traceidratio" => Ok((sampler, None)),
        _ => {
            let what = "OTEL_TRACES_SAMPLER: expected `always_on`, `always_off` or `traceidratio`, or one of these after \
                        `parentbased_`";
            Err(Failure::new(INVALID, what))
        }
    }
}

fn is_on(table: &Table, var: Var<'_>) -> bool {
    table.enabled.unwrap_or_else(|| var("OTEL_SDK_DISABLED").is_none_or(|text| text != "true"))
}

/// Returns what a server sends; `None` without the table, and if it or OTEL_SDK_DISABLED turns it off.
///
/// # Errors
/// As [`check`], and for variables of OpenTelemetry that cannot be meant.
pub(crate) fn read(config: &Config, var: Var<'_>) -> Result<Option<Telemetry>, Failure> {
    let Some(table) = config.telemetry.get()?.clone() else { return Ok(None) };
    let invalid = |what: String| config.invalid(format!("telemetry.{what}"));
    let (sampler, fixed) = sampler(&table, var)?;
    let ratio = match (table.ratio.or(fixed), var("OTEL_TRACES_SAMPLER_ARG")) {
        (Some(ratio), _) => ratio,
        (None, Some(text)) => {
            let what = || Failure::new(INVALID, "OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1");
            text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or_else(what)?
        }
        (None, None) => 1.0,
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err(invalid("ratio: expected a number from 0 to 1".into()));
    }
    if table.timeout_ms.is_some_and(|ms| !(1..=600_000).contains(&ms)) {
        return Err(invalid("timeout_ms: expected a number from 1 to 600000".into()));
    }
    let is_on = is_on(&table, var);
    if table.metrics_interval_ms.is_some_and(|ms| !(100..=3_600_000).contains(&ms)) {
        return Err(invalid("metrics_interval_ms: expected a number from 100 to 3600000".into()));
    }
    let metrics_every = table.metrics_interval_ms.map(Duration::from_millis);
    let (slow, from_the_beginning) = (table.slow_ms.map(Duration::from_millis), table.from_the_beginning);
    let sampling = Sampling { sampler, ratio, failed: table.failed.unwrap_or(true), slow };
    let target = target(table, &Given::default(), var).map_err(invalid)?;
    Ok(is_on.then_some(Telemetry { target, sampling, metrics_every, from_the_beginning }))
}

/// Returns where the command line says that spans are sent. The table completes it.
///
/// # Errors
/// As [`read`].
pub(super) fn given(config: &Config, given: &Given, var: Var<'_>) -> Result<Target, Failure> {
    let table = config.telemetry.get()?.clone().unwrap_or_default();
    target(table, given, var).map_err(|what| Failure::new(INVALID, format!("--otlp: {what}")))
}

/// Reads a variable of the environment.
pub(crate) type Var<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn target(table: Table, given: &Given, var: Var<'_>) -> Result<Target, String> {
    let of_traces = |name: &str| {
        var(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| var(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    let protocol = match (given.protocol.or(table.protocol), of_traces("PROTOCOL").as_deref()) {
        (Some(protocol), _) => protocol,
        (None, None | Some("http/protobuf")) => Protocol::Http,
        (None, Some("grpc")) => Protocol::Grpc,
        (None, Some(_)) => return Err("OTEL_EXPORTER_OTLP_PROTOCOL: expected `http/protobuf` or `grpc`".into()),
    };
    let own = table.endpoint.as_deref().and_then(|own| Url::parse(own).ok());
    let base = given.endpoint.clone().or(table.endpoint).map(|base| (base, "endpoint"));
    let url_of = |signal: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.to_ascii_uppercase());
        // Only a variable of the signal has the whole address.
        if base.is_none()
            && let Some(whole) = var(&own)
        {
            return parse(&whole).map_err(|why| format!("{own}: {why}"));
        }
        let all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (base, name) = base.clone().or_else(|| Some((var(all)?, all))).unwrap_or_else(|| {
            let usual = if protocol == Protocol::Grpc { GRPC } else { HTTP };
            (usual.to_owned(), "endpoint")
        });
        address(&base, protocol, signal).map_err(|why| format!("{name}: {why}"))
    };
    let (url, metrics_url) = (url_of("traces")?, url_of("metrics")?);
    // What lets in to one collector is not shown to another.
    let is_elsewhere = own.is_some_and(|own| own.origin() != url.origin());
    let headers = match table.headers_env.as_ref().filter(|_| !is_elsewhere) {
        Some(name) => Some(var(name).ok_or_else(|| format!("headers_env: the variable {name} is not set"))?),
        None => of_traces("HEADERS"),
    };
    let headers = headers.map(|text| pairs(&text).ok_or("headers: expected `name=value` with commas between them"));
    let headers = headers.transpose()?.unwrap_or_default();
    let mut resource = var("OTEL_RESOURCE_ATTRIBUTES")
        .map(|text| pairs(&text).ok_or("OTEL_RESOURCE_ATTRIBUTES: expected `name=value` with commas between them"))
        .transpose()?
        .unwrap_or_default();
    let named = resource.iter().position(|(name, _)| name == "service.name").map(|place| resource.remove(place).1);
    let service = table.service_name.or_else(|| var("OTEL_SERVICE_NAME")).or(named).unwrap_or_else(|| SERVICE.into());
    resource.truncate(RESOURCE_MAX);
    resource.insert(0, ("service.name".into(), service));
    let wants_latest = var("OTEL_SEMCONV_STABILITY_OPT_IN")
        .is_some_and(|text| text.split(',').any(|word| word.trim() == "gen_ai_latest_experimental"));
    let names = given.names.or(table.names).map(Profile::from);
    let timeout = table.timeout_ms.or_else(|| of_traces("TIMEOUT")?.parse().ok()).unwrap_or(TIMEOUT_MS);
    Ok(Target {
        url,
        metrics_url,
        protocol,
        headers,
        timeout: Duration::from_millis(timeout.clamp(1, 600_000)),
        resource,
        names: names.unwrap_or(if wants_latest { Profile::Latest } else { Profile::V1_41 }),
        content: given.content || table.content,
    })
}

/// The address to which spans or metrics are posted.
fn address(base: &str, protocol: Protocol, signal: &str) -> Result<Url, String> {
    let mut url = parse(base)?;
    if protocol == Protocol::Http {
        let path = format!("{}/v1/{signal}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("expected an address such as {HTTP} ({error})"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(format!("expected an address that begins with http:// or https://, such as {HTTP}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "a name and a password do not belong in the address: put a header in the variable of `headers_env`".into(),
        );
    }
    Ok(url)
}

/// Reads `name=value` with commas between them; values have percent encoding.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let name = name.trim();
            let value = decoded(value.trim())?;
            (!name.is_empty()).then(|| (name.to_owned(), value))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(rest.next()?)? << 4 | digit(rest.next()?)?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
