//! Reading `traceparent`, and ids.

use super::*;

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn traceparent_is_read_and_written() {
    let read: TraceParent = GIVEN.parse().unwrap();
    assert_eq!(read.to_string(), GIVEN);
    assert!(read.is_sampled());
    let later: TraceParent = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more".parse().unwrap();
    assert!(!later.is_sampled());
    assert_eq!(later.span, read.span);
}

#[test]
fn malformed_traceparent_is_refused() {
    for text in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0é",
    ] {
        assert!(text.parse::<TraceParent>().is_err(), "{text}");
    }
}

#[test]
fn ids_follow_from_thread_and_run() {
    let thread = ThreadId::from_bytes([7; 16]);
    let run = RunId(Seq(4));
    assert_eq!(SpanId::of_run(thread, run), SpanId::of_run(thread, run));
    assert_ne!(SpanId::of_run(thread, run), SpanId::of_call(thread, CallId(Seq(4))));
    assert_eq!(trace_of_run(thread.into(), RunId(Seq(0))), TraceId::from(thread));
    assert_ne!(trace_of_run(thread.into(), run), TraceId::from(thread));
    assert_ne!(trace_of_run(thread.into(), run), trace_of_run(thread.into(), RunId(Seq(5))));
}
