use super::*;
use crate::codec::{decode, encode};

/// Lists of lengths around those at which items become shared.
fn lists() -> impl Iterator<Item = (Vec<usize>, SharedList<usize>)> {
    [0, 1, OWN_MAX, OWN_MAX + 1, 3 * OWN_MAX, 3 * OWN_MAX + 7].into_iter().map(|n| {
        let mut list = SharedList::default();
        (0..n).for_each(|i| list.push(i));
        ((0..n).collect(), list)
    })
}

#[test]
fn shared_list_has_the_items_of_a_vec() {
    for (vec, list) in lists() {
        assert_eq!((list.len(), list.is_empty(), list.last()), (vec.len(), vec.is_empty(), vec.last()));
        assert!(list.iter().eq(&vec) && list.iter().rev().eq(vec.iter().rev()));
        assert_eq!(list, SharedList::from(vec.clone()), "however it came about");
        for at in 0..vec.len() + 2 {
            assert_eq!(list.get(at), vec.get(at));
            assert_eq!(*list.range(at..at + 9), vec[at.min(vec.len())..(at + 9).min(vec.len())]);
        }
        assert_eq!(*list.range(0..usize::MAX), vec[..]);
    }
}

#[test]
fn a_change_of_a_copy_is_not_seen_by_the_other() {
    for (vec, list) in lists() {
        for from in 0..vec.len() {
            let mut copy = list.clone();
            let (tail, at) = copy.tail_mut(from);
            tail.splice(at..at, [1_000, 1_001]);
            copy.push(1_002);
            let mut expected = vec.clone();
            expected.splice(from..from, [1_000, 1_001]);
            expected.push(1_002);
            assert!(copy.iter().eq(&expected), "from {from} of {}", vec.len());
            assert!(list.iter().eq(&vec));
        }
    }
}

#[test]
fn a_copy_shares_all_but_the_last_items() {
    let (_, list) = lists().last().unwrap();
    let mut copy = list.clone();
    assert!(Arc::ptr_eq(&copy.shared, &list.shared));
    assert!(copy.own.len() <= OWN_MAX);
    copy.push(0);
    assert!(Arc::ptr_eq(&copy.shared, &list.shared), "a change at the end leaves it shared");
}

#[test]
fn the_stored_form_is_that_of_a_vec() {
    for (vec, list) in lists() {
        let bytes = encode(&list).unwrap();
        assert_eq!(bytes, encode(&vec).unwrap());
        assert_eq!(decode::<SharedList<usize>>(&bytes).unwrap(), list);
    }
}
