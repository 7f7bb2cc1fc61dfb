use super::*;

const ROOT: ThreadId = ThreadId::from_bytes([1; 16]);
const MIDDLE: ThreadId = ThreadId::from_bytes([2; 16]);
const LEAF: ThreadId = ThreadId::from_bytes([3; 16]);

/// A thread with a branch that has a branch.
fn nested() -> (Arc<BranchStates>, Watch, Watch) {
    let states = Arc::new(BranchStates::default());
    let (root, middle) = (states.watch(ROOT, None), states.watch(MIDDLE, Some(ROOT)));
    assert!(root.add(MIDDLE) && middle.add(LEAF));
    (states, root, middle)
}

#[test]
fn branch_that_runs_again_takes_all_above_it_out_of_rest() {
    let (states, root, middle) = nested();
    assert!(states.set(MIDDLE, LEAF, BranchState::Rests) && states.set(ROOT, MIDDLE, BranchState::Rests));
    assert!(root.rest([MIDDLE].into_iter()).is_some() && middle.rest([LEAF].into_iter()).is_some());
    assert!(states.set(MIDDLE, LEAF, BranchState::Runs));
    assert!(root.rest([MIDDLE].into_iter()).is_none() && middle.rest([LEAF].into_iter()).is_none());
    assert!(!states.set(MIDDLE, LEAF, BranchState::Runs), "the parent knows");
}

#[test]
fn resumed_thread_is_not_at_rest_before_its_branches_are_resumed() {
    let (states, root, _middle) = nested();
    states.set(ROOT, MIDDLE, BranchState::Rests);
    root.set_paused(true);
    assert_eq!(states.is_parent_paused(ROOT, MIDDLE), Some(true));
    states.set(ROOT, MIDDLE, BranchState::PausedWithParent);
    root.set_paused(false);
    assert!(root.rest([MIDDLE].into_iter()).is_none(), "it has not recorded that it is resumed");
    // The thread was dropped from memory before its branch was resumed, and is loaded again.
    drop(root);
    let root = states.watch(ROOT, None);
    assert!(root.add(MIDDLE));
    states.set(ROOT, MIDDLE, BranchState::PausedWithParent);
    assert!(root.rest([MIDDLE].into_iter()).is_none(), "its pause is about to end");
    states.set(ROOT, MIDDLE, BranchState::Rests);
    assert!(root.rest([MIDDLE].into_iter()).is_some());
}

#[test]
fn what_the_log_has_does_not_replace_what_a_branch_says() {
    let (states, root, _middle) = nested();
    states.set(ROOT, MIDDLE, BranchState::Runs);
    assert!(!states.set_if_unknown(ROOT, MIDDLE, BranchState::Rests));
    assert!(root.rest([MIDDLE].into_iter()).is_none());
    root.set_paused(false);
    assert!(states.set_if_unknown(ROOT, MIDDLE, BranchState::Rests));
    assert!(root.rest([MIDDLE].into_iter()).is_some());
}

#[test]
fn branch_that_was_put_back_is_found_again() {
    let (states, root, _middle) = nested();
    assert!(!root.add(MIDDLE));
    states.set(ROOT, MIDDLE, BranchState::PutBack);
    root.set_paused(true);
    assert!(root.add(MIDDLE) && !root.add(MIDDLE));
}

#[test]
fn only_branches_that_run_are_watched() {
    let (states, root, middle) = nested();
    let later = states.watch(ROOT, None);
    drop(root);
    assert!(later.add(MIDDLE) && later.add(LEAF), "the older watch ends without the newer one");
    later.keep(|| [LEAF].into_iter());
    assert_eq!(states.is_parent_paused(ROOT, MIDDLE), None);
    assert_eq!(states.is_parent_paused(ROOT, LEAF), Some(false));
    drop(later);
    assert!(!states.set(ROOT, LEAF, BranchState::Rests), "nobody watches");
    assert!(middle.rest(std::iter::empty()).is_none(), "no branch, no rest");
}

#[test]
fn branches_wait_for_a_person_if_one_of_them_does() {
    let states = Arc::new(BranchStates::default());
    let root = states.watch(ROOT, None);
    let rest = || root.rest([MIDDLE, LEAF].into_iter());
    root.add(MIDDLE);
    root.add(LEAF);
    states.set(ROOT, MIDDLE, BranchState::Suspended);
    assert_eq!(rest(), None);
    states.set(ROOT, LEAF, BranchState::Suspended);
    assert_eq!(rest(), Some(BranchState::Suspended));
    states.set(ROOT, LEAF, BranchState::Rests);
    assert_eq!(rest(), Some(BranchState::Rests));
    states.set(ROOT, MIDDLE, BranchState::Runs);
    assert_eq!(rest(), None);
    assert_eq!(root.rest([].into_iter()), None);
}
