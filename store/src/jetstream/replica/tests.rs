use super::*;
use rethread_events::ids::Position;

fn note() -> Note {
    let state = State { sequence: 9, position: Position(4), ..State::default() };
    Note { identity: Identity { log: [1; 16], replica: [2; 16] }, boot: "a start".into(), state }
}

#[test]
fn note_is_read_as_written() {
    assert_eq!(Note::decode(&note().encode()), Ok(note()));
}

#[test]
fn damaged_note_is_refused() {
    let bytes = note().encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(Note::decode(&damaged), Err(Malformed), "{at}");
        assert_eq!(Note::decode(&bytes[..at]), Err(Malformed), "{at}");
    }
}

fn open(dir: &Path) -> Result<(Folder, Arc<SledStore>, State), StoreError> {
    Folder::open(dir, &Options::default(), [1; 16])
}

fn remade(dir: &Path, change: impl FnOnce(&mut Note)) -> State {
    let path = dir.join(NAME);
    let mut note = Note::decode(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut note);
    std::fs::write(&path, note.encode()).unwrap();
    let (_, log, state) = open(dir).unwrap();
    log.close().unwrap();
    state
}

#[test]
fn replica_goes_on_where_it_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, log, state) = open(dir.path()).unwrap();
    assert_eq!(state, State::default());
    assert!(matches!(open(dir.path()), Err(StoreError::Locked { .. })));
    log.close().unwrap();
    let closed = State { sequence: 5, ..State::default() };
    folder.close(&closed).unwrap();
    drop(folder);
    assert_eq!(remade(dir.path(), |_| {}), closed);
}

#[test]
fn replica_that_may_be_wrong_is_filled_again() {
    type Change = fn(&mut Note);
    // The system has stopped since; its end is missing.
    let changes: [Change; 3] = [
        |note| note.boot = "an earlier start".into(),
        |note| note.boot = UNKNOWN.into(),
        |note| note.state.position = Position(1),
    ];
    for change in changes {
        let dir = tempfile::tempdir().unwrap();
        let (folder, log, _) = open(dir.path()).unwrap();
        log.close().unwrap();
        folder.checkpoint(&State { sequence: 5, ..State::default() }).unwrap();
        drop(folder);
        assert_eq!(remade(dir.path(), change), State::default());
    }
}

#[test]
fn folder_that_is_no_replica_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    SledStore::open(dir.path(), Options::default()).unwrap().close().unwrap();
    assert!(matches!(open(dir.path()), Err(StoreError::Unsuitable { .. })));
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().1.close().unwrap();
    assert!(matches!(Folder::open(dir.path(), &Options::default(), [3; 16]), Err(StoreError::Unsuitable { .. })));
    std::fs::write(dir.path().join(NAME), "rubbish").unwrap();
    assert!(matches!(open(dir.path()), Err(StoreError::Unsuitable { .. })));
}
