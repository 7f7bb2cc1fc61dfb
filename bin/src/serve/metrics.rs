//! `/metrics`: what the runtime and the server count, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::HttpResponse;
use rethread::operate::{CacheSeries, CallSeries, LabelSeries, Metrics};
use rethread::store::{DURATION_BOUNDS_US, StreamMetrics};
use rethread_events::traces::{Key, Profile};
use rethread_llm::Profiles;
use rethread_llm::profiles::Totals;
use rethread_llm::retry::RetryStats;

use super::problem::Problem;
use super::server::Shared;
use super::webhook::WebhookStats;

/// Returns the metrics of the runtime and the server, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", operation_id = "metrics",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain; version=0.0.4")))]
pub(crate) async fn metrics(server: Shared) -> Result<HttpResponse, Problem> {
    let mut text = String::new();
    runtime(&mut text, &server.runtime.metrics().await?);
    profiles(&mut text, server.runtime.profiles());
    requests(&mut text, &server);
    webhooks(&mut text, &server);
    #[cfg(feature = "jetstream")]
    published(&mut text, &server);
    #[cfg(feature = "otlp")]
    export(&mut text, &server);
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text))
}

fn runtime(text: &mut String, metrics: &Metrics) {
    head(text, "rethread_threads", "gauge", "Threads in the log, by status; up to 5 s old");
    for (status, n) in &metrics.threads {
        let _ = writeln!(text, "rethread_threads{{status=\"{status}\"}} {n}");
    }
    head(text, "rethread_events_appended_total", "counter", "Events that this process appended, durably, by name");
    for (name, n) in &metrics.events {
        let _ = writeln!(text, "rethread_events_appended_total{{type=\"{name}\"}} {n}");
    }
    head(text, "rethread_calls_open", "gauge", "Calls that run, or wait for a permit");
    let _ = writeln!(text, "rethread_calls_open{{kind=\"model\"}} {}", metrics.model_calls_open);
    let _ = writeln!(text, "rethread_calls_open{{kind=\"tool\"}} {}", metrics.tool_calls_open);
    head(text, "rethread_calls_waiting", "gauge", "Open calls that wait for a concurrency permit");
    let _ = writeln!(text, "rethread_calls_waiting{{kind=\"model\"}} {}", metrics.model_calls_waiting);
    let _ = writeln!(text, "rethread_calls_waiting{{kind=\"tool\"}} {}", metrics.tool_calls_waiting);
    head(text, "rethread_tokens_total", "counter", "Tokens of model calls");
    let tokens = [
        ("input", metrics.input_tokens),
        ("output", metrics.output_tokens),
        ("cached_input", metrics.cached_input_tokens),
    ];
    for (kind, n) in tokens {
        let _ = writeln!(text, "rethread_tokens_total{{kind=\"{kind}\"}} {n}");
    }
    head(text, "rethread_cost_usd_total", "counter", "What model calls cost in US dollars, where the price is known");
    let _ = writeln!(text, "rethread_cost_usd_total {}", metrics.cost_nanousd as f64 / 1e9);
    let unpriced = "Model calls whose cost is not known; they are not part of rethread_cost_usd_total";
    head(text, "rethread_model_calls_unpriced_total", "counter", unpriced);
    let _ = writeln!(text, "rethread_model_calls_unpriced_total {}", metrics.calls_unpriced);
    let counted = "Model calls whose tokens were counted, because the provider did not report them";
    head(text, "rethread_model_calls_counted_total", "counter", counted);
    let _ = writeln!(text, "rethread_model_calls_counted_total {}", metrics.calls_counted);
    head(text, "rethread_live_threads", "gauge", "Threads in memory");
    let _ = writeln!(text, "rethread_live_threads {}", metrics.live_threads);
    calls(text, &metrics.calls);
    caches(text, &metrics.caches);
    labels(text, &metrics.labels);
    head(text, "rethread_next_position", "gauge", "The position that the next event of the log will get");
    let _ = writeln!(text, "rethread_next_position {}", metrics.next_position);
    if let Some(metrics) = &metrics.stream {
        stream(text, metrics);
    }
}

/// Of a log in a stream of NATS JetStream.
fn stream(text: &mut String, metrics: &StreamMetrics) {
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        head(text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    let connected = "1 while this process is connected to a server of the stream";
    one("rethread_stream_connected", "gauge", connected, u64::from(metrics.is_connected));
    let slots = "Slots of threads, of 256, that this process has";
    one("rethread_stream_slots", "gauge", slots, metrics.slots as u64);
    one("rethread_stream_members", "gauge", "Processes that write the log", metrics.members as u64);
    let taken_out = "Processes that this one took out because they reported no more";
    one("rethread_stream_take_overs_total", "counter", taken_out, metrics.taken_out);
    let behind = "Messages of the stream that this process had not read when the last one came";
    one("rethread_stream_behind_messages", "gauge", behind, metrics.behind);
    let in_doubt = "Writes that were answered as in doubt";
    one("rethread_stream_writes_in_doubt_total", "counter", in_doubt, metrics.in_doubt);
    let unavailable = "Writes that were refused because no server could be reached";
    one("rethread_stream_writes_unavailable_total", "counter", unavailable, metrics.unavailable);
    let name = "rethread_stream_write_duration_seconds";
    head(text, name, "histogram", "Writes to the stream, from the call until they were applied here");
    let mut n = 0;
    for (i, in_bucket) in metrics.writes.buckets.iter().enumerate() {
        n += in_bucket;
        let bound = DURATION_BOUNDS_US.get(i).map_or("+Inf".to_owned(), |bound| (*bound as f64 / 1e6).to_string());
        let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {n}");
    }
    let _ = writeln!(text, "{name}_sum {}", metrics.writes.sum_us as f64 / 1e6);
    let _ = writeln!(text, "{name}_count {n}");
}

/// The name of a metric of calls, agent loops or runs, what it tells, and how many units of a value are one in it.
const CALLS: [(Key, &str, &str, f64); 5] = [
    (Key::OperationDuration, "gen_ai_client_operation_duration_seconds", "Model calls of this process", 1e6),
    (Key::TokenUsage, "gen_ai_client_token_usage", "Tokens of a model call of this process", 1.0),
    (Key::ToolDuration, "gen_ai_execute_tool_duration_seconds", "Tool calls of this process", 1e6),
    (Key::AgentDuration, "gen_ai_invoke_agent_duration_seconds", "Agent loops that ended in this process", 1e6),
    (Key::RunDuration, "gen_ai_workflow_duration_seconds", "Runs that ended in this process", 1e6),
];

/// Calls of models and tools, agent loops and runs, with the names of the GenAI conventions.
fn calls(text: &mut String, calls: &[CallSeries]) {
    for (metric, name, help, per) in CALLS {
        head(text, name, "histogram", help);
        for series in calls.iter().filter(|series| series.metric == metric) {
            let labels = labels_of(&series.attributes);
            let mut n = 0;
            for (i, in_bucket) in series.buckets.iter().enumerate() {
                n += in_bucket;
                let bound = series.bounds.get(i).map_or("+Inf".to_owned(), |bound| (*bound as f64 / per).to_string());
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {n}");
            }
            let _ = writeln!(text, "{name}_sum{{{labels}}} {}", series.sum as f64 / per);
            let _ = writeln!(text, "{name}_count{{{labels}}} {n}");
        }
    }
}

/// Attributes of calls as labels, with the names of the GenAI conventions.
fn labels_of(attributes: &[(Key, String)]) -> String {
    let pair =
        |(key, value): &(Key, String)| format!("{}=\"{}\"", key.name(Profile::V1_41).replace('.', "_"), escaped(value));
    attributes.iter().map(pair).collect::<Vec<_>>().join(",")
}

/// The provider's cache of prompts, by model.
fn caches(text: &mut String, caches: &[CacheSeries]) {
    let mut samples = |name: &str, help: &str, of: &dyn Fn(&CacheSeries) -> f64| {
        head(text, name, "counter", help);
        for series in caches {
            let _ = writeln!(text, "{name}{{{}}} {}", labels_of(&series.attributes), of(series));
        }
    };
    let tokens = "Tokens of prompts that were read from the provider's cache, by model";
    samples("rethread_llm_cached_input_tokens_total", tokens, &|series| series.cached_input_tokens as f64);
    let saved = "What the provider's cache saved in US dollars, where the price is known, by model";
    samples("rethread_llm_cache_saved_usd_total", saved, &|series| series.saved_nanousd as f64 / 1e9);
    let extra = "What calls cost more that wrote more to the provider's cache than they read, in US dollars, by model";
    samples("rethread_llm_cache_extra_usd_total", extra, &|series| series.extra_nanousd as f64 / 1e9);
}

/// Of each value of the labels that the configuration lists.
fn labels(text: &mut String, labels: &[LabelSeries]) {
    if labels.is_empty() {
        return;
    }
    let mut samples = |name: &str, kind: &str, help: &str, of: &dyn Fn(&LabelSeries) -> Vec<(&str, f64)>| {
        head(text, name, kind, help);
        for series in labels {
            let value = escaped(series.value.as_deref().unwrap_or("other"));
            for (more, sample) in of(series) {
                let _ = writeln!(text, "{name}{{key=\"{}\",value=\"{value}\"{more}}} {sample}", escaped(&series.key));
            }
        }
    };
    let one = |n: u64| vec![("", n as f64)];
    let live = "Threads that have not ended, without branches, by label";
    samples("rethread_label_live_threads", "gauge", live, &|series| one(series.live_threads));
    let starts = "Threads, forks and further runs that began, by label";
    samples("rethread_label_starts_total", "counter", starts, &|series| one(series.n_starts));
    let calls = "Model calls that ended, by label";
    samples("rethread_label_model_calls_total", "counter", calls, &|series| one(series.spent.n_calls));
    let tokens = "Tokens of model calls where they are known, by label";
    samples("rethread_label_tokens_total", "counter", tokens, &|series| {
        let usage = &series.spent.usage;
        let of = |n: Option<u64>| n.unwrap_or(0) as f64;
        vec![(",kind=\"input\"", of(usage.input_tokens)), (",kind=\"output\"", of(usage.output_tokens))]
    });
    let unknown = "Attempts of model calls without token figures; they are not part of rethread_label_tokens_total";
    samples("rethread_label_attempts_uncounted_total", "counter", unknown, &|series| one(series.spent.n_unknown));
    let cost = "What model calls cost in US dollars, where the price is known, by label";
    samples("rethread_label_cost_usd_total", "counter", cost, &|series| {
        vec![("", series.spent.cost_nanousd as f64 / 1e9)]
    });
    let unpriced = "Answers whose cost is not known; they are not part of rethread_label_cost_usd_total";
    samples("rethread_label_model_calls_unpriced_total", "counter", unpriced, &|series| one(series.spent.n_unpriced));
}

/// The value of a label that a caller chose: two values are never written in the same way.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Of each profile that was used: its attempts, retries and waits, and what its answers cost.
fn profiles(text: &mut String, profiles: &Profiles) {
    let mut samples = |name: &str, help: &str, of: &dyn Fn(&str) -> Vec<(String, f64)>| {
        head(text, name, "counter", help);
        for profile in profiles.names() {
            for (labels, value) in of(profile) {
                let _ = writeln!(text, "{name}{{profile=\"{}\"{labels}}} {value}", label(profile));
            }
        }
    };
    let stats = |of: fn(&RetryStats) -> f64| {
        move |profile: &str| profiles.retry_stats(profile).iter().map(|stats| (String::new(), of(stats))).collect()
    };
    let attempts = stats(|stats| stats.attempts as f64);
    samples("rethread_profile_attempts_total", "Attempts of model calls, first ones included, by profile", &attempts);
    let retries = stats(|stats| stats.retried as f64);
    samples("rethread_profile_retries_total", "Attempts that were followed by a retry, by profile", &retries);
    let waited = stats(|stats| stats.waited_ms as f64 / 1000.0);
    samples("rethread_profile_retry_wait_seconds_total", "Waits between attempts in seconds, by profile", &waited);
    let errors = |profile: &str| {
        let errors = profiles.retry_stats(profile).map(|stats| stats.errors).unwrap_or_default();
        errors.into_iter().map(|(kind, n)| (format!(",kind=\"{kind}\""), n as f64)).collect()
    };
    samples("rethread_profile_errors_total", "Attempts that failed, by profile and kind", &errors);
    let totals = |of: fn(&Totals) -> f64| {
        move |profile: &str| profiles.totals(profile).iter().map(|totals| (String::new(), of(totals))).collect()
    };
    let answers = totals(|totals| totals.answers as f64);
    samples(
        "rethread_profile_answers_total",
        "Answers of models, by profile; those of the cache are not counted",
        &answers,
    );
    let cost = totals(|totals| totals.nanousd as f64 / 1e9);
    samples("rethread_profile_cost_usd_total", "Cost of answers in US dollars where it is known, by profile", &cost);
    let unpriced = totals(|totals| totals.answers_without_cost as f64);
    samples("rethread_profile_answers_unpriced_total", "Answers whose cost is unknown, by profile", &unpriced);
}

/// A value of a label; these characters would need escapes.
fn label(text: &str) -> String {
    text.replace(['\\', '"', '\n'], "_")
}

fn requests(text: &mut String, server: &Shared) {
    let requests = server.counters.requests();
    head(text, "rethread_http_requests_total", "counter", "HTTP requests, by route, method and status");
    for (route, method, status, sum) in &requests {
        let _ = writeln!(
            text,
            "rethread_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {}",
            sum.n
        );
    }
    head(text, "rethread_http_request_seconds_total", "counter", "Time until the answers to them began, in seconds");
    for (route, method, status, sum) in &requests {
        let seconds = sum.took.as_secs_f64();
        let _ = writeln!(
            text,
            "rethread_http_request_seconds_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {seconds}"
        );
    }
    head(text, "rethread_subscribers", "gauge", "Subscribers that follow the log over HTTP now");
    let _ = writeln!(text, "rethread_subscribers {}", server.n_subscribers());
}

fn webhooks(text: &mut String, server: &Shared) {
    if server.webhooks.is_empty() {
        return;
    }
    let is_here = |stats: &WebhookStats| stats.here.load(Ordering::Relaxed) == 1;
    let here: Vec<_> = server.webhooks.iter().filter(|(_, stats)| is_here(stats)).collect();
    let mut all = |name: &str, kind: &str, help: &str, of: fn(&WebhookStats) -> &AtomicU64| {
        head(text, name, kind, help);
        for (webhook, stats) in &here {
            let value = of(stats).load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{webhook=\"{}\"}} {value}", label(webhook));
        }
    };
    all("rethread_webhook_delivered_total", "counter", "Events that were delivered", |stats| &stats.delivered);
    all("rethread_webhook_failed_total", "counter", "Attempts that failed", |stats| &stats.failed);
    all("rethread_webhook_next_position", "gauge", "The next position to deliver", |stats| &stats.next);
    all("rethread_webhook_dead", "gauge", "1 after it has given up", |stats| &stats.dead);
}

/// What was published for consumers of NATS.
#[cfg(feature = "jetstream")]
fn published(text: &mut String, server: &Shared) {
    let Some(stats) = &server.publisher else { return };
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        head(text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    one("rethread_events_published_total", "counter", "Events that were published to NATS", stats.published());
    one("rethread_events_publish_failed_total", "counter", "Attempts to publish events that failed", stats.failed());
    if stats.is_here() {
        one("rethread_events_publish_next_position", "gauge", "The next position to publish", stats.next().0);
    }
}

/// What was sent to a collector of OpenTelemetry.
#[cfg(feature = "otlp")]
fn export(text: &mut String, server: &Shared) {
    let Some(stats) = &server.export else { return };
    let mut one = |name: &str, kind: &str, help: &str, value: &AtomicU64| {
        head(text, name, kind, help);
        let _ = writeln!(text, "{name} {}", value.load(Ordering::Relaxed));
    };
    one("rethread_otlp_runs_total", "counter", "Runs whose spans a collector accepted", &stats.runs);
    let sampled_out = "Runs that were not sent because of the ratio";
    one("rethread_otlp_runs_sampled_out_total", "counter", sampled_out, &stats.sampled_out);
    one("rethread_otlp_spans_total", "counter", "Spans that a collector accepted", &stats.spans);
    one("rethread_otlp_spans_refused_total", "counter", "Spans that a collector refused", &stats.refused);
    one("rethread_otlp_failed_total", "counter", "Attempts to send spans that failed", &stats.failed);
    if stats.here.load(Ordering::Relaxed) == 1 {
        one("rethread_otlp_next_position", "gauge", "The next position of the log whose runs are sent", &stats.next);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
