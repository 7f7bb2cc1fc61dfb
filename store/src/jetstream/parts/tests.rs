use super::*;

fn request(n: usize) -> Bytes {
    (0..n).map(|byte| (byte % 251) as u8).collect::<Vec<_>>().into()
}

#[test]
fn a_request_that_fits_is_sent_as_it_is() {
    let (request, mut parts) = (request(1_000), Parts::default());
    let messages = cut(request.clone(), [1; 16], 1_000);
    assert_eq!(messages, std::slice::from_ref(&request));
    assert_eq!(parts.take(request.clone(), Instant::now()), Joined::Whole(request));
}

#[test]
fn parts_of_several_requests_are_joined() {
    let (a, b, mut parts, now) = (request(1_001), request(700), Parts::default(), Instant::now());
    let (of_a, of_b) = (cut(a.clone(), [1; 16], 400), cut(b.clone(), [2; 16], 400));
    assert_eq!((of_a.len(), of_b.len()), (3, 2));
    assert!(of_a.iter().chain(&of_b).all(|part| part.len() <= 400));
    for (part, joined) in [
        (&of_a[0], Joined::Part),
        (&of_b[0], Joined::Part),
        (&of_a[1], Joined::Part),
        (&of_b[1], Joined::Whole(b)),
        (&of_a[2], Joined::Whole(a)),
    ] {
        assert_eq!(parts.take(part.clone(), now), joined);
    }
    assert!(parts.requests.is_empty());
}

#[test]
fn a_request_with_a_missing_or_repeated_part_is_refused() {
    let (mut parts, now) = (Parts::default(), Instant::now());
    let messages = cut(request(1_001), [1; 16], 400);
    for order in [&[1][..], &[0, 2], &[0, 0], &[0, 1, 1]] {
        let joined: Vec<_> = order.iter().map(|n| parts.take(messages[*n].clone(), now)).collect();
        assert_eq!(joined.last(), Some(&Joined::Refused), "{order:?}");
        parts = Parts::default();
    }
}

#[test]
fn what_is_not_completed_is_forgotten() {
    let (mut parts, now) = (Parts::default(), Instant::now());
    let messages = cut(request(1_001), [1; 16], 400);
    assert_eq!(parts.take(messages[0].clone(), now), Joined::Part);
    assert_eq!(parts.take(messages[1].clone(), now + WAIT_MAX), Joined::Refused);
    assert!(parts.requests.is_empty());
}

#[test]
fn requests_without_room_and_malformed_parts_are_refused() {
    let (mut parts, now) = (Parts::default(), Instant::now());
    let first = |id: u8, total: u64| {
        let mut out = Vec::new();
        out.u64(MARK);
        out.bytes(&[id; 16]);
        out.u64(total);
        out.u64(0);
        out.bytes(b"x");
        Bytes::from(out)
    };
    assert_eq!(parts.take(first(9, REQUEST_BYTES_MAX as u64 + 1), now), Joined::Refused);
    assert_eq!(parts.take(first(9, 0), now), Joined::Refused);
    assert_eq!(parts.take(first(9, u64::MAX), now), Joined::Refused);
    for id in 0..4 {
        assert_eq!(parts.take(first(id, REQUEST_BYTES_MAX as u64), now), Joined::Part);
    }
    assert_eq!(parts.take(first(4, REQUEST_BYTES_MAX as u64), now), Joined::Refused);
    for n in 8..HEADER_BYTES {
        assert_eq!(parts.take(first(5, 2).slice(..n), now), Joined::Refused);
    }
}
