//! Around the runtime there may be any async runtime, or none.

use rethread::{Runtime, Status};

use crate::support::{World, block_on, scripted};

async fn use_it() {
    let world = World::new().await;
    let (_, outcome) =
        world.run(&scripted("look", "{tool_calls: [{name: look, arguments: {text: x}}]}, {text: hi}"), "go").await;
    assert_eq!((outcome.status, outcome.output.clone().unwrap()), (Status::Completed, "hi".into()));
    world.end().await;
}

#[test]
fn runs_inside_a_current_thread_tokio_runtime() {
    block_on(use_it());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_inside_a_multi_thread_tokio_runtime() {
    tokio::spawn(use_it()).await.unwrap();
}

#[test]
fn runs_inside_an_actix_system() {
    actix_rt::System::new().block_on(use_it());
}

#[test]
fn runs_without_an_async_runtime() {
    futures::executor::block_on(use_it());
}

#[test]
fn two_runtimes_work_in_one_process() {
    block_on(async {
        let (one, two) = futures::join!(World::new(), World::new());
        let workflow = scripted("", "{text: hi}");
        let (first, _) = one.run(&workflow, "go").await;
        let (second, _) = two.run(&workflow, "go").await;
        assert!(one.runtime.thread(second.id()).state().await.is_err(), "each has a log of its own");
        one.end().await;
        assert_eq!(two.run(&workflow, "go").await.1.status, Status::Completed, "the end of one is none of the other");
        assert!(two.runtime.thread(first.id()).state().await.is_err());
        two.end().await;
    });
}

#[test]
fn handles_are_send_and_sync() {
    fn is_send_and_sync<T: Clone + Send + Sync + 'static>(_: &T) {}
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&scripted("", "{text: hi}"), "go").await;
        is_send_and_sync(&world.runtime);
        is_send_and_sync(&thread);
        let elsewhere = std::thread::spawn(move || futures::executor::block_on(thread.outcome()));
        assert_eq!(elsewhere.join().unwrap().unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn a_folder_is_open_in_one_runtime_at_a_time() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let open = || Runtime::builder().data_dir(folder.path()).label("the first one").start();
        let first = open().await.unwrap();
        let error = open().await.expect_err("it is open");
        assert!(error.to_string().contains("the first one"), "{error}");
        first.shutdown().await.unwrap();
        open().await.unwrap().shutdown().await.unwrap();
    });
}
