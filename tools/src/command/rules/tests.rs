use super::*;

fn found(line: &str) -> Vec<String> {
    simple_commands(line).unwrap().iter().map(Simple::to_string).collect()
}

#[test]
fn every_simple_command_of_a_line_is_found() {
    let cases: [(&str, &[&str]); 21] = [
        ("git status", &["git status"]),
        ("a; b && c || d | e & f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("(a; b) && { c; }", &["a", "b", "c"]),
        ("FOO=1 BAR=x cmd arg", &["cmd arg"]),
        ("echo 'a; rm -rf /' \"b && c\"", &["echo a; rm -rf / b && c"]),
        ("echo $(rm x) y", &["rm x", "echo $ y"]),
        ("echo \"hi $(rm \"x\") y\"; z", &["rm x", "echo hi $ y", "z"]),
        ("echo \"`rm x`\"; z", &["rm x", "echo $", "z"]),
        ("cmd > file 2>&1 < in", &["cmd"]),
        ("cmd &> file; b", &["cmd", "b"]),
        ("cat <(rm x) z", &["rm x", "cat $ z"]),
        ("if a; then b; fi", &["a", "b"]),
        ("! a", &["a"]),
        ("a # b; c\nd", &["a", "d"]),
        ("r\\m x", &["rm x"]),
        ("'r'm x", &["rm x"]),
        ("cat <<END; a\nit's\nEND\nb", &["cat", "a", "b"]),
        ("cat <<-'E N' <<F\n$(c)\n\tE N\n'\nF\nb", &["cat", "b"]),
        ("cat <<< \"x\"; b", &["cat", "b"]),
        ("echo ${x:-a; b} ; c", &["echo ${x:-a; b}", "c"]),
        ("case x in x) a;; esac", &["x in x", "a"]),
    ];
    for (line, expected) in cases {
        assert_eq!(found(line), expected, "{line}");
    }
}

#[test]
fn what_is_no_shell_is_read_without_harm() {
    for line in ["'", "\"", "$(", "`", "\\", "<", ">", "&&", "((((", "\"$(`'", "a\0b", "🦀 | 🦀"] {
        let _ = simple_commands(line);
    }
    let _ = simple_commands(&"$(\"`".repeat(20_000));
}

#[test]
fn what_only_a_shell_can_read_is_refused() {
    for line in [
        // The bracket of a pattern is none of the substitution.
        "echo $(case echo in echo) rm -f x;; esac)",
        "echo \"$(case a in a) :;; esac; rm x)\"",
        // Quotes in a here-document quote nothing.
        "cat <<END\n'\nEND2\nrm x\necho '",
        "cat <<END\n$(rm x)\nEND\n",
        "cat <<END\n`rm x`\nEND\n",
        "cat <<END\n\\\nEND\n'\nEND\nrm x",
        "cat <<$x\n'\n$x\nrm x",
        "cat <<END 'a\nEND\n' b",
        "cat <<END \"a\nEND\n\" b",
        "echo $(cat <<END\n)\nEND\n)",
        "echo `echo \\`rm x\\``",
        "echo $'\\''; rm x #'",
        "echo \"${x#'\"'}\"; rm x; echo \"",
        "echo \"$(: ${x%)}; rm x)\"",
    ] {
        let unclear = simple_commands(line);
        assert!(unclear.is_err(), "{line}: {unclear:?}");
        assert!(!check(&["*"], &[], line) && !check(&[], &["nothing"], line), "{line}");
        assert!(check(&[], &[], line), "{line}");
    }
    // What a shell takes for text is text, and what it runs is found.
    assert!(!check(&["cat"], &[], "cat <<END\ncat '\nEND\nrm x\n"));
    let error = CommandRules::new(["echo"], []).unwrap().check("echo $(case a in a) b;; esac)").unwrap_err();
    expect_test::expect![[r#"nothing was run: which commands it has cannot be told, because of `case` in brackets; say it in a simpler way"#]]
        .assert_eq(&error.message);
}

fn check(allow: &[&str], deny: &[&str], command: &str) -> bool {
    CommandRules::new(allow.iter(), deny.iter()).unwrap().check(command).is_ok()
}

#[test]
fn with_something_allowed_everything_else_is_refused() {
    let allow = ["git status", "git log*", "cargo *", "ls"];
    for command in ["git status", "git status --short", "/usr/bin/git log -3", "cargo", "cargo test && ls -l"] {
        assert!(check(&allow, &[], command), "{command}");
    }
    for command in [
        "git push",
        "git",
        "ls; rm -rf x",
        "ls | sh",
        "ls $(rm x)",
        "$CMD",
        "eval ls",
        "sh -c ls",
        "lsof",
        "X=1 rm x",
        "ls\nrm x",
        "ls & rm x",
        "FOO=$(rm x) ls",
    ] {
        assert!(!check(&allow, &[], command), "{command}");
    }
}

#[test]
fn what_is_denied_is_refused_wherever_it_stands() {
    let deny = ["rm", "git push*", "*sudo"];
    for command in [
        "rm x",
        "/bin/rm x",
        "ls && rm x",
        "echo \"$(rm x)\"",
        "echo \"$(ls)\"; rm x",
        "git push origin",
        "'r'm x",
        "gksudo x",
    ] {
        assert!(!check(&[], &deny, command), "{command}");
        assert!(!check(&["*"], &deny, command), "{command}");
    }
    for command in ["ls rm", "git status", "rmdir x", "echo 'rm x'"] {
        assert!(check(&[], &deny, command), "{command}");
    }
}

#[test]
fn the_error_says_what_and_what_instead() {
    let rules = CommandRules::new(["git *"], ["git push"]).unwrap();
    let error = rules.check("git push -f").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(error.message, "nothing was run: `git push -f` is denied here by the pattern `git push`");
    let error = rules.check("ls").unwrap_err();
    assert_eq!(error.message, "nothing was run: `ls` is not among the commands allowed here: `git *`");
    assert_eq!(CommandRules::new([" "], []), Err(PatternError::Empty));
}

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, word, expected) in [
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*c", "abcd", false),
        ("*", "", true),
        ("**a**b*", "xaxbx", true),
        ("a*a", "a", false),
        ("é*", "éa", true),
    ] {
        assert_eq!(fits(pattern, word), expected, "{pattern} {word}");
    }
}
