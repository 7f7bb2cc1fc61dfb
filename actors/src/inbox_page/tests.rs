use super::*;

#[test]
fn place_is_written_and_read_as_the_id_of_a_thread_or_of_a_question() {
    let thread = ThreadId::new(1_790_000_000_000, [1; 10]);
    for call in [None, Some(CallId(rethread_events::ids::Seq(7)))] {
        let place = InboxPlace { thread, call };
        assert_eq!(place.to_string().parse(), Ok(place));
    }
    assert_eq!(InboxPlace { thread, call: None }.to_string(), thread.to_string(), "the cursor of a list of threads");
    for wrong in ["", "x", &format!("{thread}-"), &format!("{thread}-x")] {
        assert!(wrong.parse::<InboxPlace>().is_err(), "{wrong}");
    }
}
