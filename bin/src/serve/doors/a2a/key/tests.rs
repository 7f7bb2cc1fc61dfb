use super::*;

#[test]
fn id_of_a_task_names_thread_and_run() {
    let id = "01890000-0000-7000-8000-000000000001-17";
    let key = TaskKey::read(id).map(|key| (key.run, key.to_string()));
    assert_eq!(key.ok(), Some((RunId(Seq(17)), id.to_owned())));
}

#[test]
fn other_texts_name_no_task() {
    let thread = "01890000-0000-7000-8000-000000000001";
    let padded =
        ["-017", "-+17", "- 17", "-17 ", "-", "", "-x", "-99999999999999999999999"].map(|end| format!("{thread}{end}"));
    for id in padded.iter().map(String::as_str).chain(["", "-", "task", "\u{1f9f5}-1", &thread.to_uppercase()]) {
        let problem = TaskKey::read(id).map_err(|problem| problem.kind());
        assert_eq!(problem, Err(Kind::NoThread), "{id}");
    }
}
