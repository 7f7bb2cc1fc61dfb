use super::*;
use crate::{Runtime, parse_workflow};

const SETS: &str = "
version: '1'
name: sets
nodes:
  - {id: set, context_processor: {processor_name: extract, processor_config: {variable: done, expression: 'true'}}}
";

#[tokio::test]
async fn search_ends_when_nobody_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().data_dir(folder.path()).workspace(std::env::temp_dir()).start().await.unwrap();
    let thread = runtime.start_thread(parse_workflow(SETS.as_bytes()).unwrap(), "input").await.unwrap();
    thread.outcome().await.unwrap();
    let whole = thread.bisect("done is defined and done").await.unwrap();
    assert!(whole.first.is_some() && whole.n_events > 1, "{whole:?}");
    let (stopped, seqs) = (CancellationToken::new(), Seq(0)..Seq(100));
    stopped.cancel();
    let none = bisect(&**runtime.store(), thread.id(), seqs, "false", &stopped).unwrap();
    assert_eq!((none.first.is_none(), none.n_events), (true, 0));
    runtime.shutdown().await.unwrap();
}
