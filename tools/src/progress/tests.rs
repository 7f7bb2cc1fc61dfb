use super::*;

fn progress() -> (Progress, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    (Progress::new(move |message| hears.lock().push(message)), heard)
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_of_progress_two_messages_a_second_are_heard_and_the_last_one() {
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
async fn a_message_that_came_too_soon_is_heard_when_its_time_has_come() {
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
fn outside_of_a_runtime_the_last_message_is_heard_at_the_end() {
    let (progress, heard) = progress();
    progress.say("one");
    progress.say("é".repeat(MESSAGE_BYTES_MAX));
    progress.end();
    assert_eq!(heard.lock()[1].len(), MESSAGE_BYTES_MAX);
}
