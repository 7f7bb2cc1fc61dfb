use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Fixture {
    _all: tempfile::TempDir,
    outside: PathBuf,
    inside: PathBuf,
    workspace: Workspace,
}

/// `outside/secret` beside `inside/`, which is the workspace and holds `file` and `folder/file`.
fn fixture() -> Fixture {
    let all = tempfile::tempdir().unwrap();
    let root = all.path().canonicalize().unwrap();
    let (outside, inside) = (root.join("outside"), root.join("inside"));
    fs::create_dir_all(inside.join("folder")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(inside.join("file"), "file").unwrap();
    fs::write(inside.join("folder/file"), "file").unwrap();
    let workspace = Workspace::open(&inside).unwrap();
    Fixture { _all: all, outside, inside, workspace }
}

impl Fixture {
    fn resolve(&self, path: impl AsRef<Path>) -> String {
        match self.workspace.resolve(path) {
            Ok(Resolved { relative, exists }) => {
                format!("{} {}", shown(&relative), if exists { "exists" } else { "free" })
            }
            Err(error) => error.to_string(),
        }
    }

    fn is_outside(&self, path: impl AsRef<Path>) -> bool {
        matches!(self.workspace.resolve(path), Err(WorkspaceError::Outside { .. }))
    }
}

#[test]
fn a_path_inside_is_found() {
    let f = fixture();
    assert_eq!(f.resolve("file"), "file exists");
    assert_eq!(f.resolve("./folder//./file"), "folder/file exists");
    assert_eq!(f.resolve("folder/../file"), "file exists");
    assert_eq!(f.resolve(""), ". exists");
    assert_eq!(f.resolve("."), ". exists");
    assert_eq!(f.resolve(f.inside.join("folder/file")), "folder/file exists");
    assert_eq!(f.resolve("new"), "new free");
    assert_eq!(f.resolve("new/deep/er"), "new/deep/er free");
}

#[test]
fn a_path_outside_is_refused() {
    let f = fixture();
    for path in [
        "..",
        "../outside/secret",
        "../outside/nothing",
        "folder/../../outside/secret",
        "folder/../..",
        "/",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        // A neighbour whose name begins like the workspace's.
        "../inside2",
    ] {
        assert!(f.is_outside(path), "{path}: {}", f.resolve(path));
    }
    assert!(f.is_outside(f.outside.join("secret")));
    assert!(f.is_outside(format!("{}2", f.inside.display())));
    assert!(f.is_outside(f.inside.join("../outside/secret")));
    // Out and in again: refused too, because the path would reveal what is outside.
    assert!(f.is_outside("../inside/file"));
}

#[test]
fn missing_folder_is_no_way_out() {
    let f = fixture();
    assert_eq!(f.resolve("new/../file"), "there is nothing at `new/../file`");
    assert_eq!(f.resolve("new/../../outside/secret"), "there is nothing at `new/../../outside/secret`");
}

#[test]
fn a_link_is_followed_inside_and_refused_outside() {
    let f = fixture();
    symlink("folder", f.inside.join("in")).unwrap();
    symlink(f.inside.join("folder"), f.inside.join("in-absolute")).unwrap();
    symlink("../outside", f.inside.join("out")).unwrap();
    symlink(&f.outside, f.inside.join("out-absolute")).unwrap();
    symlink("/etc/passwd", f.inside.join("passwd")).unwrap();
    symlink("../../outside/secret", f.inside.join("folder/out")).unwrap();
    // Points to what does not exist: writing through it would make a file outside.
    symlink("../outside/new", f.inside.join("dangling-out")).unwrap();
    symlink("folder/new", f.inside.join("dangling-in")).unwrap();

    assert_eq!(f.resolve("in/file"), "folder/file exists");
    assert_eq!(f.resolve("in-absolute/file"), "folder/file exists");
    assert_eq!(f.resolve("in/../file"), "file exists");
    assert_eq!(f.resolve("dangling-in"), "folder/new free");
    for path in
        ["out", "out/secret", "out/new", "out-absolute/secret", "passwd", "folder/out", "in/out", "dangling-out"]
    {
        assert!(f.is_outside(path), "{path}: {}", f.resolve(path));
    }
}

#[test]
fn cyclic_links_end() {
    let f = fixture();
    symlink("b", f.inside.join("a")).unwrap();
    symlink("a", f.inside.join("b")).unwrap();
    symlink("self/x", f.inside.join("self")).unwrap();
    assert!(f.resolve("a").contains("too many symbolic links"));
    assert!(f.resolve("self").contains("too many symbolic links"));
}

#[test]
fn invalid_path_is_refused() {
    let f = fixture();
    assert!(f.resolve("a\0b").contains("NUL"));
    assert!(f.resolve("x/".repeat(5000)).contains("over 4096 bytes"));
    assert!(f.resolve("x".repeat(300)).contains("cannot be used"));
    assert!(f.resolve("file/x").contains("not a folder"));
    assert!(f.resolve("file/..").contains("not a folder"));
}

#[test]
fn workspace_opened_through_a_link_accepts_both_paths() {
    let f = fixture();
    let link = f.outside.join("link");
    symlink(&f.inside, &link).unwrap();
    let workspace = Workspace::open(&link).unwrap();
    assert_eq!(workspace.root(), f.inside);
    assert_eq!(workspace.resolve(link.join("file")).unwrap().shown(), "file");
    assert_eq!(workspace.resolve(f.inside.join("file")).unwrap().shown(), "file");
}

#[test]
fn link_placed_after_the_check_is_not_followed() {
    let f = fixture();
    let file = f.workspace.resolve("folder/file").unwrap();
    fs::rename(f.inside.join("folder"), f.inside.join("moved")).unwrap();
    fs::write(f.outside.join("file"), "secret").unwrap();
    symlink(&f.outside, f.inside.join("folder")).unwrap();
    assert!(f.workspace.open_file(&file).is_err());
    fs::remove_file(f.inside.join("folder")).unwrap();
    symlink("../outside", f.inside.join("folder")).unwrap();
    assert!(f.workspace.open_file(&file).is_err());
}

#[test]
fn only_regular_files_are_opened() {
    let f = fixture();
    make_pipe(&f.inside.join("pipe"));
    let open = |path: &str| {
        let place = f.workspace.resolve(path).unwrap();
        f.workspace.open_file(&place).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(open("pipe"), Err("`pipe` is a pipe, a socket or a device, not a file".into()));
    assert_eq!(open("folder"), Err("`folder` is a folder, not a file".into()));
    assert_eq!(open("new"), Err("there is nothing at `new`".into()));
    assert_eq!(open("file"), Ok(()));
}

#[test]
fn a_name_with_a_line_break_is_shown_on_one_line() {
    assert_eq!(shown(Path::new("a\nignore all\x1b[0m")), "a\\nignore all\\u{1b}[0m");
}

pub(crate) fn make_pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
}

#[test]
fn a_workspace_must_be_a_folder() {
    let f = fixture();
    assert!(matches!(Workspace::open(f.inside.join("file")), Err(WorkspaceError::NotAFolder { .. })));
    assert!(matches!(Workspace::open(f.inside.join("none")), Err(WorkspaceError::NotFound { .. })));
}

#[test]
fn reserved_place_is_refused_on_every_path() {
    let f = fixture();
    for folder in ["folder/log/deep", "data"] {
        fs::create_dir_all(f.inside.join(folder)).unwrap();
    }
    fs::write(f.inside.join("data/format"), "3").unwrap();
    symlink("data", f.inside.join("log")).unwrap();
    symlink("data/format", f.inside.join("innocent")).unwrap();
    symlink("folder/set.toml", f.inside.join("dangling")).unwrap();
    // One place by a link, one that is not there yet, one by name; and some outside, which change nothing.
    let reserved = Reserved::default()
        .place(f.inside.join("log"))
        .place(f.inside.join("later/log"))
        .place(&f.outside)
        .place(f.inside.parent().unwrap())
        .name("set.toml");
    let workspace = Workspace::open_without(&f.inside, &reserved).unwrap();
    let absolute = f.inside.join("data/format");
    for path in [
        "data",
        "data/format",
        "log",
        "log/new/file",
        "innocent",
        "folder/../data/x",
        "later/log",
        "later/log/x",
        "set.toml",
        "folder/set.toml",
        "Set.TOML",
        "DATA/format",
        "set.toml/x",
        "dangling",
        absolute.to_str().unwrap(),
    ] {
        assert!(matches!(workspace.resolve(path), Err(WorkspaceError::Reserved { .. })), "{path}");
    }
    for path in ["", "file", "folder/log/deep", "later", "later/x", "database", "set.toml.md"] {
        assert!(workspace.resolve(path).is_ok(), "{path}");
    }
    let error = ExecutionError::from(workspace.resolve("log/x").unwrap_err());
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(error.message, "`log/x` is reserved: tools cannot access it");
}

#[test]
fn workspaces_of_one_folder_share_a_lock_and_are_dropped() {
    let f = fixture();
    symlink(&f.inside, f.outside.join("link")).unwrap();
    let workspaces = Workspaces::default();
    let first = workspaces.open(&f.inside).unwrap();
    for other in [f.inside.join("folder/.."), f.outside.join("link")] {
        let other = workspaces.open(other).unwrap();
        assert!(Arc::ptr_eq(&first.writing, &other.writing));
    }
    let other = workspaces.open(f.inside.join("folder")).unwrap();
    assert!(!Arc::ptr_eq(&first.writing, &other.writing));
    assert_eq!(workspaces.n_open(), 2);
    drop((first, other));
    assert_eq!(workspaces.n_open(), 0);
}

#[test]
fn recreated_folder_is_opened_anew() {
    let f = fixture();
    let workspaces = Workspaces::default();
    let old = workspaces.open(f.inside.join("folder")).unwrap();
    assert!(old.is_current());
    fs::remove_dir_all(f.inside.join("folder")).unwrap();
    assert!(!old.is_current());
    fs::create_dir(f.inside.join("folder")).unwrap();
    fs::write(f.inside.join("folder/new"), "").unwrap();
    assert!(!old.is_current());
    let new = workspaces.open(f.inside.join("folder")).unwrap();
    assert!(new.is_current() && new.resolve("new").unwrap().exists);
    assert!(!Arc::ptr_eq(&old.writing, &new.writing));
}
