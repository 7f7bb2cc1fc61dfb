use super::*;

fn progress() -> (Progress, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let receiver = Arc::clone(&messages);
    (Progress::new(move |message| receiver.lock().push(message)), messages)
}

#[tokio::test(start_paused = true)]
async fn flood_of_progress_is_limited_to_two_a_second_and_the_last() {
    let (progress, messages) = progress();
    for n in 0..5_000 {
        progress.say(n.to_string());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let n_messages = messages.lock().len();
    assert!((10..=11).contains(&n_messages), "{n_messages}");
    progress.end();
    let messages = messages.lock().clone();
    assert_eq!((messages[0].as_str(), messages.last().map(String::as_str)), ("0", Some("4999")));
}

#[tokio::test(start_paused = true)]
async fn delayed_progress_is_reported_at_its_time() {
    let (progress, messages) = progress();
    for text in ["one", "two", "three"] {
        progress.say(text);
    }
    assert_eq!(*messages.lock(), ["one"]);
    tokio::time::sleep(INTERVAL_MIN + Duration::from_millis(1)).await;
    assert_eq!(*messages.lock(), ["one", "three"]);
    progress.end();
    assert_eq!(messages.lock().len(), 2);
}

#[test]
fn progress_without_a_runtime_is_reported_at_the_end() {
    let (progress, messages) = progress();
    progress.say("one");
    progress.say("é".repeat(MESSAGE_BYTES_MAX));
    progress.end();
    assert_eq!(messages.lock()[1].len(), MESSAGE_BYTES_MAX);
}
