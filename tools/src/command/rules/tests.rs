use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

fn shell(line: &str) -> CommandLine {
    CommandLine::Shell(line.to_owned())
}

fn words(line: &str) -> CommandLine {
    CommandLine::Words(line.split(' ').map(str::to_owned).collect())
}

fn check(allow: &[&str], deny: &[&str], command: &CommandLine) -> bool {
    CommandRules::new(allow.iter(), deny.iter()).unwrap().check(command).is_ok()
}

/// Lines that got past an earlier parser, or are made to, and lines that are beyond the grammar.
const ATTACKS: &[&str] = &[
    // The background, also after a redirection.
    "a & b",
    "a&b",
    "a 2>&1&b",
    "a 2>&1& b",
    "a >&2&b",
    "a >f&b",
    "&>f b",
    "a &>f b",
    "a &>>f b",
    "a &",
    "a &&& b",
    "a |& b",
    "a >& f",
    "a >&f",
    "a >&f b",
    "a <&-",
    "a >&1f",
    "a >&1>f b",
    "a 12>f b",
    "a 1>2>f b",
    "a >| f",
    "a <> f",
    // Blanks that are none.
    "a\u{a0}b",
    "a\u{2003}b",
    "a\u{b}b",
    "a\u{c}b",
    "a\rb",
    "a\u{85}b",
    "a\u{feff}",
    "a\0b",
    "a '\0'",
    // What a shell expands.
    "$CMD",
    "a $(b)",
    "a `b`",
    "a \"$(b)\"",
    "a \"`b`\"",
    "a \"\\\"; b; \"",
    "a $((#))\nb",
    "a $((1#))\nb\n#))",
    "a ${x-b}",
    "a $'\\''; b; '",
    "a \\\nb",
    "r\\m",
    "a {b,c}",
    "~/a",
    "*",
    "a *",
    "a ?",
    "a [b]",
    // Here-documents with any end.
    "a <<E\nb\nE\u{a0}\nE",
    "a <<E\nb\nE",
    "a <<'E'\nE\nb",
    "a <<-E\n\tE\nb",
    "a <<E\u{a0}\nb\nE",
    "a <<<b",
    "a <(b)",
    "a >(b)",
    // Words that are no program's name.
    "(b)",
    "{ b; }",
    "! b",
    "x=1 b",
    "x+=1 b",
    "PATH=. a",
    "'x=1' b",
    "if a; then b; fi",
    "while a; do b; done",
    "case a in a) b;; esac",
    "for x in a; do b; done",
    "f() { b; }",
    "function f { b; }",
    "coproc b",
    "[[ a ]]",
    "eval b",
    ". b",
    "source b",
    "exec b",
    "command b",
    "builtin b",
    "alias a=b\na",
    "hash -p b a",
    "enable -f b a",
    "trap b EXIT",
    "export PATH=.",
    "read PATH <f\na",
    "%1",
    "''",
    "a #'\nb\n#'",
    // What does not end.
    "a '",
    "a \"",
    "a &&",
    "a |",
    "a ||\n",
    "a >",
    "a >&",
    ">f",
    "2>f",
    ">f\n",
    ";",
    "a ;; b",
    "a && ; b",
    "| a",
];

#[test]
fn shell_line_that_does_not_parse_completely_is_refused() {
    for line in ATTACKS {
        let command = shell(line);
        assert!(!check(&["*"], &[], &command) && !check(&[], &["nothing"], &command), "{line:?}");
        assert!(check(&[], &[], &command), "without patterns everything may run: {line:?}");
    }
}

#[test]
fn every_command_of_a_shell_line_is_found() {
    let cases: [(&str, &[&str]); 10] = [
        ("git status", &["git status"]),
        ("a; b && c || d | e\nf\n\n", &["a", "b", "c", "d", "e", "f"]),
        ("a;", &["a"]),
        ("a &&\n\nb", &["a", "b"]),
        ("a 'x; b' \"y && $c\"", &[]),
        ("a 'x; b' \"y && c\"", &["a x; b y && c"]),
        ("a >f 2>&1 <g -x 2>>h; 2>f b", &["a -x", "b"]),
        ("'r'm x'y'z", &["rm xyz"]),
        ("a 1 23 '2'>f", &["a 1 23 2"]),
        (">f a", &["a"]),
    ];
    for (line, expected) in cases {
        let found = simple_commands(line).unwrap_or_default();
        assert_eq!(found.iter().map(|words| words.join(" ")).collect::<Vec<_>>(), expected, "{line}");
    }
}

/// Programs that write their name and their arguments into a file, each in a line, and do nothing else.
fn recorders(folder: &Path) {
    std::fs::create_dir(folder.join("bin")).unwrap();
    for name in ["a", "b", "c", "12"] {
        let file = folder.join("bin").join(name);
        let record = folder.join("ran").display().to_string();
        let line = "IFS=\" \"; printf \"%s\\n\" \"${0##*/} $*\"";
        std::fs::write(&file, format!("#!/bin/sh\n{line} >> {record}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Lines of random parts. What the rules accept runs in real shells that find the recorders and no other program; each
/// program that runs there must be among the commands that the rules saw, with its arguments.
#[test]
fn accepted_shell_line_runs_only_commands_that_were_checked() {
    const PARTS: [&str; 46] = [
        "a", "b", "c", "12", " ", " ", " ", "\t", "\n", ";", "&&", "||", "|", "&", ">f", ">>f", "<f", "2>f", "2>&1",
        ">&2", "<&0", ">", "<", "'", "\"", "'x y'", "\"x y\"", "x=1", "-x", "%", "@", "1", "#", "$", "`", "\\", "(",
        ")", "{", "}", "<<", "*", "!", "~", "\u{a0}", "é",
    ];
    let folder = tempfile::tempdir().unwrap();
    recorders(folder.path());
    let (bin, ran) = (folder.path().join("bin"), folder.path().join("ran"));
    let shells = ["/bin/sh", "/bin/bash", "/bin/dash"].into_iter().filter(|shell| Path::new(shell).exists());
    let shells: Vec<_> = shells.collect();
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    // Most lines begin with a program, and most parts are harmless, so that some are accepted.
    let mut line = || -> String {
        let parts = (0..1 + random(9)).map(|_| PARTS[if random(8) == 0 { random(46) } else { random(32) }]);
        let parts: String = parts.collect();
        format!("{}{parts}", ["a", "b ", "a b", ""][random(4)])
    };
    let (mut n_accepted, mut n_ran) = (0, 0);
    for _ in 0..20_000 {
        if n_accepted == 120 {
            break;
        }
        let line = line();
        let Ok(commands) = simple_commands(&line) else { continue };
        if commands.len() + line.len() < 6 {
            continue;
        }
        n_accepted += 1;
        let seen: BTreeSet<_> = commands.iter().map(|words| words.join(" ").trim_end().to_owned()).collect();
        for shell in &shells {
            let _ = std::fs::remove_file(&ran);
            std::fs::write(folder.path().join("f"), "").unwrap();
            let mut command = Command::new(shell);
            command.arg("-c").arg(&line).current_dir(folder.path()).env_clear().env("PATH", &bin);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().unwrap();
            let recorded = std::fs::read_to_string(&ran).unwrap_or_default();
            n_ran += recorded.lines().count();
            for program in recorded.split_terminator('\n') {
                assert!(seen.contains(program.trim_end()), "{shell} ran `{program}` for {line:?}, seen: {seen:?}");
            }
        }
    }
    assert!(n_accepted == 120 && n_ran > 100, "{n_accepted} lines, {n_ran} programs");
}

#[test]
fn commands_outside_the_allow_list_are_refused() {
    let allow = ["git status", "git log*", "cargo *", "ls", "/usr/bin/make"];
    for line in ["git status", "git status --short", "git log -3", "cargo", "cargo test", "ls -l", "/usr/bin/make x"] {
        assert!(check(&allow, &[], &shell(line)) && check(&allow, &[], &words(line)), "{line}");
    }
    assert!(check(&allow, &[], &shell("cargo test && ls -l | ls")));
    for line in ["git push", "git", "sh -c ls", "lsof", "./git status", "/usr/bin/git status", "make", "eval ls"] {
        assert!(!check(&allow, &[], &shell(line)) && !check(&allow, &[], &words(line)), "{line}");
    }
    for line in ["ls; rm -rf x", "ls | sh", "ls\nrm x", "ls && rm x", "rm x || ls"] {
        assert!(!check(&allow, &[], &shell(line)), "{line}");
    }
    // Without a shell these are words like any other.
    assert!(check(&allow, &[], &words("ls ; rm $(x) & é")));
}

#[test]
fn denied_program_is_refused_everywhere() {
    let deny = ["rm", "git push*", "*sudo"];
    for line in ["rm x", "/bin/rm x", "git push origin", "gksudo x"] {
        for command in [shell(line), words(line), shell(&format!("ls && {line}"))] {
            assert!(!check(&[], &deny, &command) && !check(&["*"], &deny, &command), "{command}");
        }
    }
    assert!(!check(&[], &deny, &shell("'r'm x")));
    for line in ["ls rm", "git status", "rmdir x", "echo 'rm x'"] {
        assert!(check(&[], &deny, &shell(line)) && check(&[], &deny, &words(line)), "{line}");
    }
}

#[test]
fn error_names_the_command_and_the_allowed_ones() {
    let rules = CommandRules::new(["git *"], ["git push"]).unwrap();
    let refused = |line: &str| {
        let error = rules.check(&shell(line)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        error.message
    };
    assert_eq!(refused("git push -f"), "nothing was run: `git push -f` is denied here by the pattern `git push`");
    assert_eq!(refused("ls"), "nothing was run: `ls` is not among the commands allowed here: `git *`");
    expect_test::expect![[r#"nothing was run: `&` at character 16 is not allowed there; with command patterns, a shell line may have plain words, quotes, `;`, `&&`, `||`, `|` and redirections to files only. Give the program and its arguments as a list"#]]
        .assert_eq(&refused("git status 2>&1&rm x"));
    assert!(refused("git é").starts_with("nothing was run: `é` at character 5 "));
    assert!(refused("git \u{a0}x").starts_with("nothing was run: `\\u{a0}` at character 5 "));
    assert!(refused("eval x").starts_with("nothing was run: `eval` cannot be the name of a program"));
    assert!(refused("git 'x").starts_with("nothing was run: the line ends, but the end of a quote must follow"));
    assert_eq!(CommandRules::new([" "], []), Err(PatternError::Empty));
}

#[test]
fn star_matches_any_characters() {
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
