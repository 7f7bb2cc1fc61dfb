use super::*;

fn full_of(owner: u8, n_open: usize) -> Known<u8> {
    let entry = |_| Entry { owner, used: Instant::now(), n_open };
    let entries = (0..SESSIONS_MAX).map(|n| (n.to_string(), entry(n))).collect();
    Known { entries, n_reserved: 0 }
}

#[test]
fn one_owner_cannot_hold_all_sessions() {
    let mut known = full_of(1, 1);
    assert!(known.make_room(1).is_err());
    assert!(known.make_room(2).unwrap().is_some());
    assert_eq!(known.entries.len(), SESSIONS_MAX - 1);
    known.n_reserved = 1;
    known.entries.insert("idle".into(), Entry { owner: 2, used: Instant::now(), n_open: 0 });
    // One without a request ends first.
    assert_eq!(known.make_room(3).unwrap().as_deref(), Some("idle"));
}

#[test]
fn sessions_that_are_about_to_begin_count() {
    let mut known = Known { entries: HashMap::new(), n_reserved: SESSIONS_MAX };
    assert!(known.make_room(1).is_err());
    known.n_reserved -= 1;
    assert_eq!(known.make_room(1).unwrap(), None);
}

#[tokio::test]
async fn tools_that_read_wait_for_each_other_beyond_the_limit() {
    use futures::FutureExt as _;
    let sessions = Sessions::default();
    let mut reading = Vec::new();
    let of = |token: &str| Some(By::of(token));
    for _ in 0..READING_MAX {
        reading.push(sessions.read(of("one")).await.unwrap());
    }
    assert!(sessions.read(of("one")).now_or_never().is_none());
    let of_others = [of("two"), None].map(|owner| sessions.read(owner).now_or_never().unwrap().unwrap());
    reading.pop();
    assert!(sessions.read(of("one")).await.is_ok());
    drop((reading, of_others));
    let last = sessions.read(None).await.unwrap();
    assert_eq!(sessions.reading.lock().len(), 1, "tokens that read nothing are forgotten");
    drop(last);
}
