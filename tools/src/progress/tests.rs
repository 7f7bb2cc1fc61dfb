use super::*;

fn progress() -> (Progress, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    (Progress::new(move |message| hears.lock().push(message)), heard)
}

#[tokio::test(start_paused = true)]
async fn flood_of_progress_is_limited_to_two_a_second_and_the_last() {
    let (progress, heard) = progress();
    for n in 0..5_000 {
        progress.say(n.to_string());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let n_heard = heard.lock().len();
    assert!((10..=11).contains(&n_heard), "{n_heard}");
    progress.end();
    let heard = heard.lock().clone();
    assert_eq!((heard[0].as_str(), heard.last().map(String::as_str)), ("0", Some("4999")));
}

#[tokio::test(start_paused = true)]
async fn delayed_progress_is_reported_at_its_time() {
    let (progress, heard) = progress();
    for text in ["one", "two", "three"] {
        progress.say(text);
    }
    assert_eq!(*heard.lock(), ["one"]);
    tokio::time::sleep(PACE + Duration::from_millis(1)).await;
    assert_eq!(*heard.lock(), ["one", "three"]);
    progress.end();
    assert_eq!(heard.lock().len(), 2);
}

#[test]
fn progress_without_a_runtime_is_reported_at_the_end() {
    let (progress, heard) = progress();
    progress.say("one");
    progress.say("é".repeat(MESSAGE_BYTES_MAX));
    progress.end();
    assert_eq!(heard.lock()[1].len(), MESSAGE_BYTES_MAX);
}
