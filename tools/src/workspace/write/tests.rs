use super::*;

#[test]
fn private_file_is_created_with_private_mode() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
    let (file, _new) = New::create(&dir, true).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
