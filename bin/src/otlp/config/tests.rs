//! The table and the variables.

use std::time::Duration;

use rethread_events::traces::Profile;

use super::*;

fn config(text: &str) -> Config {
    Config::of(None, &Ok(text.to_owned()))
}

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Option<Telemetry>, String> {
    let var = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    read(&config(text), &var).map_err(|failure| failure.message)
}

fn target(text: &str, variables: &[(&str, &str)]) -> Target {
    read_with(text, variables).unwrap().unwrap().target
}

#[test]
fn nothing_is_sent_without_the_table() {
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")];
    assert!(read_with("", &variables).unwrap().is_none());
    assert!(read(&config(""), &|_| None).unwrap().is_none());
    assert!(read_with("[telemetry]\nenabled = false", &variables).unwrap().is_none());
    assert!(read_with("[telemetry]", &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
    assert!(read_with("[telemetry]\nenabled = true", &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_some());
}

#[test]
fn table_wins_over_variables() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "700"),
        ("OTEL_SERVICE_NAME", "shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=blue"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental"),
    ];
    let read = read_with("[telemetry]", &variables).unwrap().unwrap();
    assert_eq!(read.sampling.ratio, 0.25);
    let found = read.target;
    assert_eq!(found.url.as_str(), "http://collector:4318/base/v1/traces");
    assert_eq!(found.metrics_url.as_str(), "http://collector:4318/base/v1/metrics");
    assert_eq!(found.headers, [("authorization".to_owned(), "Bearer x".to_owned())]);
    assert_eq!(found.timeout, Duration::from_millis(700));
    assert_eq!(found.names, Profile::Latest);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(found.resource, [pair("service.name", "shop"), pair("team", "blue")]);
    let text = "[telemetry]\nendpoint = \"https://other/x\"\nservice_name = \"mine\"\nnames = \"v1_41\"\ntimeout_ms = 5\n\
                headers_env = \"KEY\"\nratio = 0.5\n";
    let variables = [&variables[..], &[("KEY", "k=v")]].concat();
    let read = read_with(text, &variables).unwrap().unwrap();
    assert_eq!(read.sampling.ratio, 0.5);
    let found = read.target;
    assert_eq!(found.url.as_str(), "https://other/x/v1/traces");
    assert_eq!(found.headers, [pair("k", "v")]);
    assert_eq!(found.resource[0], pair("service.name", "mine"));
    assert_eq!((found.names, found.timeout), (Profile::V1_41, Duration::from_millis(5)));
}

#[test]
fn sampler_is_that_of_the_table_or_the_variable() {
    let sampling = |text: &str, variables: &[(&str, &str)]| read_with(text, variables).unwrap().unwrap().sampling;
    let usual = sampling("[telemetry]", &[]);
    assert_eq!(usual, Sampling { sampler: Sampler::Ratio, ratio: 1.0, failed: true, slow: None });
    let table = "[telemetry]\nsampler = \"parent\"\nratio = 0.5\nfailed = false\nslow_ms = 7";
    let said = Sampling { sampler: Sampler::Parent, ratio: 0.5, failed: false, slow: Some(Duration::from_millis(7)) };
    assert_eq!(sampling(table, &[("OTEL_TRACES_SAMPLER", "always_off")]), said);
    for (name, sampler, ratio) in [
        ("always_on", Sampler::Ratio, 1.0),
        ("always_off", Sampler::Ratio, 0.0),
        ("traceidratio", Sampler::Ratio, 0.25),
        ("parentbased_always_on", Sampler::Parent, 1.0),
        ("parentbased_always_off", Sampler::Parent, 0.0),
        ("parentbased_traceidratio", Sampler::Parent, 0.25),
    ] {
        let variables = [("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
        assert_eq!(sampling("[telemetry]", &variables), Sampling { sampler, ratio, ..usual }, "{name}");
    }
}

#[test]
fn headers_of_the_table_are_for_its_collector() {
    let config = config("[telemetry]\nendpoint = \"http://collector:4318\"\nheaders_env = \"KEY\"");
    let var = |name: &str| (name == "KEY").then(|| "k=v".to_owned());
    let headers = |endpoint: &str| {
        let given = Given { endpoint: Some(endpoint.to_owned()), ..Given::default() };
        super::given(&config, &given, &var).unwrap().headers
    };
    assert_eq!(headers("http://collector:4318/base"), [("k".to_owned(), "v".to_owned())]);
    assert_eq!(headers("http://elsewhere:4318"), []);
}

#[test]
fn protocol_decides_the_address() {
    assert_eq!(target("[telemetry]", &[]).url.as_str(), "http://localhost:4318/v1/traces");
    assert_eq!(target("[telemetry]\nprotocol = \"grpc\"", &[]).url.as_str(), "http://localhost:4317/");
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(target("[telemetry]", &[grpc]).protocol, Protocol::Grpc);
    let whole = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/of/traces"), grpc];
    assert_eq!(target("[telemetry]\nprotocol = \"http/protobuf\"", &whole).url.as_str(), "http://collector/of/traces");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (text, why) in [
        ("[telemetry]\nendpont = 1", "unknown field"),
        ("[telemetry]\nratio = 2.0", "ratio: expected a number from 0 to 1"),
        ("[telemetry]\nsampler = \"always\"", "line 2"),
        ("[telemetry]\nratio = nan", "ratio: expected a number from 0 to 1"),
        ("[telemetry]\ntimeout_ms = 0", "timeout_ms: expected a number from 1 to 600000"),
        ("[telemetry]\nmetrics_interval_ms = 0", "metrics_interval_ms: expected a number from 100 to 3600000"),
        ("[telemetry]\nprotocol = \"http/json\"", "line 2"),
        ("[telemetry]\nnames = \"v2\"", "line 2"),
        ("[telemetry]\nendpoint = \"collector\"", "endpoint: expected an address"),
        ("[telemetry]\nendpoint = \"http://a:b@collector\"", "do not belong in the address"),
        ("[telemetry]\nheaders_env = \"KEY\"", "headers_env: the variable KEY is not set"),
    ] {
        let found = read_with(text, &[]).unwrap_err();
        assert!(found.contains(why), "{text}: {found}");
    }
    for (name, value) in [
        ("OTEL_TRACES_SAMPLER_ARG", "much"),
        ("OTEL_TRACES_SAMPLER", "parentbased_sometimes"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "nothing"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
    ] {
        assert!(read_with("[telemetry]", &[(name, value)]).is_err(), "{name}={value}");
    }
    // A check of the file alone does not need the variable.
    check(&config("[telemetry]\nheaders_env = \"KEY\"")).unwrap();
}

#[cfg(feature = "server")]
#[test]
fn servers_of_one_log_are_told_apart_unless_the_configuration_does() {
    let instance = |variables: &[(&str, &str)]| {
        let mut found = target("[telemetry]\nendpoint = \"http://collector:4318\"", variables);
        found.tell_apart("http://10.0.0.1:7117");
        found.resource.into_iter().filter(|(name, _)| name == INSTANCE).map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(instance(&[]), ["http://10.0.0.1:7117"]);
    assert_eq!(instance(&[("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=a")]), ["a"]);
}
