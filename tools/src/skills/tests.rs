use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;

fn skill(folder: &Path, at: &str, text: &str) -> PathBuf {
    let path = folder.join(at);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("SKILL.md"), text).unwrap();
    path
}

const PDF: &str = "---\nname: pdf\ndescription: >\n  Works with\n  PDF files.\nlicense: MIT\nmetadata:\n  a: [1]\n---\n\n# PDF\nDo it.\n";

#[tokio::test]
async fn a_skill_is_shown_in_three_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = skill(folder.path(), "documents/pdf", PDF);
    fs::create_dir(path.join("scripts")).unwrap();
    fs::write(path.join("scripts/fill.py"), "print(1)\nprint(2)\n").unwrap();
    let (skills, faults) = Skills::load([folder.path()]);
    assert_eq!(faults, []);
    expect_test::expect![[r#"
        ## Skills
        When one of these fits the task, call load_skill with its name first:
        - pdf: Works with PDF files.
    "#]]
    .assert_eq(&skills.prompt());
    let f = Fixture::new([skills.tool()]);
    expect_test::expect![[r#"
        # PDF
        Do it.

        [files of this skill, to be read with load_skill and `file`:
        scripts/fill.py
        ]
    "#]]
    .assert_eq(&f.call("load_skill", json!({ "name": "pdf" })).await);
    let arguments = json!({ "name": "pdf", "file": "scripts/fill.py", "offset": 2 });
    assert_eq!(f.call("load_skill", arguments).await, "2\tprint(2)\n");
    assert_eq!(
        f.call("load_skill", json!({ "name": "none" })).await,
        "not_found: there is no skill `none`; the skills are: pdf"
    );
}

#[tokio::test]
async fn nothing_that_is_reserved_is_read_of_a_skill() {
    let folder = tempfile::tempdir().unwrap();
    let path = skill(folder.path(), "pdf", PDF);
    let key = path.join("key.txt");
    fs::write(&key, "the key").unwrap();
    fs::write(path.join("rethread.toml"), "the configuration").unwrap();
    symlink("key.txt", path.join("link")).unwrap();
    let reserved = Reserved::default().name("rethread.toml").place(&key);
    let f = Fixture::new([Skills::load_without([folder.path()], &reserved).0.tool()]);
    for file in ["key.txt", "./key.txt", "link", "rethread.toml"] {
        let text = f.call("load_skill", json!({ "name": "pdf", "file": file })).await;
        assert!(text.starts_with("denied: "), "{file}: {text}");
    }
    let (none, faults) = Skills::load_without([folder.path()], &Reserved::default().place(path.join("SKILL.md")));
    assert!(none.is_empty() && faults.len() == 1, "{faults:?}");
}

#[tokio::test]
async fn nothing_outside_the_folder_of_a_skill_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    let path = skill(folder.path(), "skills/pdf", PDF);
    symlink("../../secret", path.join("link")).unwrap();
    let f = Fixture::new([Skills::load([folder.path().join("skills")]).0.tool()]);
    for file in ["../../secret", "link", "/etc/passwd", "scripts/../../../secret"] {
        let text = f.call("load_skill", json!({ "name": "pdf", "file": file })).await;
        assert!(text.starts_with("denied: ") || text.starts_with("not_found: "), "{file}: {text}");
    }
    let stolen = folder.path().join("skills/stolen");
    fs::create_dir(&stolen).unwrap();
    symlink("../../secret", stolen.join("SKILL.md")).unwrap();
    let (skills, faults) = Skills::load([folder.path().join("skills")]);
    assert_eq!((skills.len(), faults.len()), (1, 1));
    assert!(faults[0].reason.contains("outside"), "{}", faults[0]);
}

#[test]
fn invalid_skill_is_reported_and_others_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("a-good", "---\nname: good\ndescription: fine\n---", None),
        ("b-no-head", "# Title\n", Some("it must begin with a line `---`")),
        ("c-open", "---\nname: x\n", Some("it must begin with a line `---`")),
        ("d-no-description", "---\nname: x\n---\n", Some("its head cannot be read: ")),
        ("e-bad-name", "---\nname: 'a b'\ndescription: x\n---\n", Some("its name must be")),
        ("f-empty", "---\nname: x\ndescription: ' '\n---\n", Some("its description must have")),
        ("g-taken", "---\r\nname: good\r\ndescription: again\r\n---\r\n", Some("the name `good` is taken")),
        ("h-bomb", "---\nname: &a [x,x]\ndescription: *a\n---\n", Some("its head cannot be read: ")),
    ];
    for (at, text, _) in cases {
        skill(folder.path(), at, text);
    }
    let large = format!("{PDF}{}", "x".repeat(300 * 1024));
    skill(folder.path(), "i-large", &large);
    let none = folder.path().join("none");
    let (skills, faults) = Skills::load([folder.path(), &none]);
    assert_eq!(skills.0.keys().collect::<Vec<_>>(), ["good"]);
    let expected = cases.iter().filter_map(|case| case.2).chain(["over 262144 bytes", "cannot be read"]);
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.reason.contains(expected), "{fault} / {expected}");
    }
    assert_eq!(faults.len(), 9);
}

#[test]
fn cyclic_links_end() {
    let folder = tempfile::tempdir().unwrap();
    skill(folder.path(), "one", "---\nname: one\ndescription: d\n---\n");
    fs::create_dir(folder.path().join("sub")).unwrap();
    symlink("..", folder.path().join("sub/up")).unwrap();
    let (skills, _) = Skills::load([folder.path()]);
    assert_eq!(skills.len(), 1);
    assert!(Skills::default().prompt().is_empty());
}
