use std::fs;

use super::*;

#[test]
fn folders_differ_and_are_removed_when_dropped() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) =
        (Scratch::in_place(place.path(), "copy-").unwrap(), Scratch::in_place(place.path(), "copy-").unwrap());
    assert_ne!(one.path(), other.path());
    fs::write(one.path().join("file"), b"x").unwrap();
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(one.path()).unwrap().permissions()) & 0o777,
        0o700
    );
    let path = one.path().to_owned();
    drop(one);
    assert!(!path.exists() && other.path().exists());
}

#[test]
fn missing_parent_folder_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let error = Scratch::in_place(&place.path().join("missing"), "copy-").err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
