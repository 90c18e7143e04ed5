//! The scripts that run the program: the action for GitHub, the hooks for pre-commit, and the completion of bash and kubectl.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use go_formats::yaml::{self, Quota};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-helmop");
const VALID: &str = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: web}\nspec:\n  helm: {repo: 'https://h', \
                     chart: c, version: 1.2.3}\n  targets: [{clusterSelector: {}}]\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read_yaml(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap();
    yaml::read_exact(&text, &mut Quota::default()).unwrap()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The steps of the action.
fn steps() -> Vec<Value> {
    let action = read_yaml(".github/actions/validate/action.yml");
    action["runs"]["steps"].as_array().unwrap().clone()
}

/// Runs the script of a step, as the runner does.
fn run_step(step: &Value, folder: &Path, variables: &[(&str, &OsStr)]) -> Output {
    assert_eq!(step["shell"], "bash");
    Command::new("bash")
        .args([
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            "-c",
            text(step, "run"),
        ])
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn the_action_caches_the_program_by_the_files_that_it_is_built_from() {
    let steps = steps();
    let commit = steps.iter().find(|step| step["id"] == "commit").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    let write = |name: &str, text: &str| {
        let path = source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let key = || {
        let output = folder.path().join("output");
        fs::write(&output, "").unwrap();
        let variables = [
            ("SOURCE", source.as_os_str()),
            ("GITHUB_OUTPUT", output.as_os_str()),
            ("RUNNER_TEMP", folder.path().as_os_str()),
        ];
        let ran = run_step(commit, folder.path(), &variables);
        assert!(ran.status.success(), "{ran:?}");
        let output = fs::read_to_string(&output).unwrap();
        let key = output.lines().find_map(|line| line.strip_prefix("key=")).unwrap();
        assert_eq!(key.len(), 64, "{output}");
        key.to_owned()
    };
    write("Cargo.lock", "one");
    write("cli/src/a file.rs", "one");
    let first = key();
    assert_eq!(key(), first);
    write(".git/HEAD", "other");
    write("target/debug/program", "other");
    assert_eq!(key(), first, "what is not built from counts");
    write("cli/src/a file.rs", "two");
    let second = key();
    assert_ne!(second, first);
    write("cli/src/other.rs", "");
    assert_ne!(key(), second);
    // The context of a nested action is its own, so nothing of `github` is a key.
    let cache = steps.iter().find(|step| step["id"] == "cache").unwrap();
    let key = text(&cache["with"], "key");
    assert!(
        key.contains("steps.commit.outputs.key") && !key.contains("github."),
        "{key}"
    );
}

#[test]
fn the_action_annotates_what_can_be_read_beside_a_file_that_cannot() {
    let steps = steps();
    let last = steps.last().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web.yaml"), VALID.replace("1.2.3", "foo")).unwrap();
    fs::write(folder.path().join("binary.yaml"), b"a: \xff").unwrap();
    for name in ["excluded", "other", "chart/templates"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("binary.yaml"), b"a: \xff").unwrap();
    }
    fs::write(folder.path().join("chart/Chart.yaml"), "").unwrap();
    let run = |program: &str, files: &str| {
        let variables = [
            ("PROGRAM", program),
            ("FILES", files),
            ("RECURSIVE", "true"),
            ("EXCLUDE", "excluded other"),
            ("NAMESPACE", "team"),
            ("STRICT", "false"),
            ("SARIF", "log.sarif"),
        ];
        let variables = variables.map(|(name, value)| (name, OsStr::new(value)));
        let output = run_step(last, folder.path(), &variables);
        let log = fs::read_to_string(folder.path().join("log.sarif")).unwrap();
        (output, log)
    };
    for (files, code) in [
        ("web.yaml excluded chart", 1),
        ("web.yaml binary.yaml", 2),
        (".", 2),
    ] {
        let (output, log) = run(PROGRAM, files);
        assert_eq!(output.status.code(), Some(code), "{files}: {output:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("::error file=web.yaml"), "{files}: {shown}");
        let log: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(log["version"], "2.1.0");
    }
    let (output, _) = run("false-program-that-is-not-there", "web.yaml");
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}

/// Runs a hook on files, with the arguments of its entry, then those of the user, then the files, as pre-commit does.
fn run_hook(id: &str, args: Option<&[&str]>, files: &[&str], folder: &Path) -> (i32, String) {
    let hooks = read_yaml(".pre-commit-hooks.yaml");
    let hook = hooks
        .as_array()
        .unwrap()
        .iter()
        .find(|hook| hook["id"] == id)
        .unwrap();
    let mut entry = text(hook, "entry").split_whitespace();
    assert_eq!(entry.next(), Some("kubectl-helmop"));
    let own: Vec<_> = hook["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut command = Command::new(PROGRAM);
    command.args(entry).args(args.unwrap_or(&own)).current_dir(folder);
    if hook["pass_filenames"] != Value::Bool(false) {
        command.args(files);
    }
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), shown)
}

#[test]
fn the_hooks_take_arguments_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deploy")).unwrap();
    fs::write(folder.path().join("a.yaml"), VALID).unwrap();
    fs::write(
        folder.path().join("deploy/b.yaml"),
        VALID.replace("{name: web}", "{name: b, namespace: team}"),
    )
    .unwrap();
    let both = &["a.yaml", "deploy/b.yaml"][..];
    for (id, args, code) in [
        ("helmop-validate", None, 0),
        ("helmop-validate", Some(&["-n", "team"][..]), 0),
        ("helmop-validate", Some(&["--namespace=other"]), 1),
        ("helmop-validate", Some(&["--warnings-as-errors"]), 0),
        ("helmop-validate-all", None, 0),
        ("helmop-validate-all", Some(&["deploy/"]), 0),
        ("helmop-validate-all", Some(&["-n", "other", "deploy/"]), 1),
    ] {
        let (found, shown) = run_hook(id, args, both, folder.path());
        assert_eq!(found, code, "{id} {args:?}: {shown}");
        let count = if matches!(args, Some(args) if args.contains(&"deploy/")) {
            1
        } else {
            2
        };
        assert!(shown.contains(&format!("{count} file")), "{id} {args:?}: {shown}");
    }
}

/// What a shell runs to complete the last of some words.
fn candidates_of(words: &[&str], in_bash: impl Fn(&mut Command)) -> Vec<String> {
    let mut command = Command::new("bash");
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = Path::new(PROGRAM).parent().unwrap().display().to_string();
    command
        .args(["--noprofile", "--norc"])
        .env("PATH", format!("{folder}:{path}"));
    in_bash(&mut command);
    let output = command.args(words).output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{words:?}: {output:?}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

const COMPLETIONS: [(&[&str], &[&str], &[&str]); 7] = [
    (&[""], &["validate", "cluster", "create"], &["join"]),
    (&["val"], &["validate"], &["create"]),
    (
        &["validate", "--"],
        &["--recursive", "--filename", "--namespace"],
        &["--repo"],
    ),
    (&["validate", "-o", ""], &["sarif", "github"], &["name"]),
    (&["cluster", ""], &["join", "leave", "list"], &["validate"]),
    (
        &["-n", "team", "cluster", "join", "--to"],
        &["--to-context"],
        &["--recursive"],
    ),
    (&["completion", ""], &["bash", "kubectl"], &["join"]),
];

/// Asserts that some words are among the candidates, and none of others.
fn assert_completed(words: &[&str], found: &[String], some: &[&str], none: &[&str]) {
    assert!(
        some.iter().all(|word| found.iter().any(|found| found == word)),
        "{words:?}: {found:?}"
    );
    assert!(
        none.iter().all(|word| found.iter().all(|found| found != word)),
        "{words:?}: {found:?}"
    );
}

#[test]
fn bash_completes_the_words_of_every_command() {
    let script = "source <(kubectl-helmop completion bash)\n\
                  complete -p kubectl-helmop >/dev/null || exit 3\n\
                  function=$(complete -p kubectl-helmop | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\n\
                  COMP_WORDS=(kubectl-helmop \"$@\") COMP_CWORD=$#\n\
                  $function kubectl-helmop \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    for (words, some, none) in COMPLETIONS {
        let found = candidates_of(words, |command| {
            command.args(["-c", script, "bash"]);
        });
        assert_completed(words, &found, some, none);
    }
}

#[test]
fn kubectl_completes_the_words_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("kubectl_complete-helmop");
    let output = Command::new(PROGRAM)
        .args(["completion", "kubectl"])
        .output()
        .unwrap();
    fs::write(&script, output.stdout).unwrap();
    for (words, some, none) in COMPLETIONS {
        let mut found = candidates_of(words, |command| {
            command.arg(&script);
        });
        assert_eq!(found.pop().as_deref(), Some(":0"));
        assert_completed(words, &found, some, none);
    }
}

#[test]
fn the_scripts_of_all_shells_name_the_program() {
    for (shell, expected) in [
        ("zsh", "#compdef kubectl-helmop"),
        ("fish", "complete -c kubectl-helmop "),
        (
            "powershell",
            "Register-ArgumentCompleter -Native -CommandName 'kubectl-helmop'",
        ),
        ("elvish", "edit:completion:arg-completer[kubectl-helmop]"),
    ] {
        let output = Command::new(PROGRAM)
            .args(["completion", shell])
            .output()
            .unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains(expected), "{shell}");
        assert!(script.contains("validate"), "{shell}");
    }
}

/// Runs a program that must succeed, and returns what it prints.
fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_archive_has_the_program_its_man_pages_and_its_completion() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    // That of a test is larger than an archive may have.
    let program = folder.path().join("program");
    fs::write(&program, format!("#!/bin/sh\nexec '{PROGRAM}' \"$@\"\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut archive = Command::new(root().join("cli/release/archive"));
    let printed = ok(archive.arg(&program).env("CARGO_TARGET_DIR", folder.path()));
    let archive = printed.lines().next().unwrap();
    let listed = ok(Command::new("tar").args(["--list", "--verbose", "--file", archive]));
    for (mode, name) in [
        ("-rwxr-xr-x", "kubectl-helmop"),
        ("-rwxr-xr-x", "kubectl_complete-helmop"),
        ("-rw-r--r--", "LICENSE"),
        ("-rw-r--r--", "completions/kubectl-helmop.bash"),
        ("-rw-r--r--", "completions/_kubectl-helmop"),
        ("-rw-r--r--", "man/kubectl-helmop-validate.1"),
        ("-rw-r--r--", "man/kubectl-helmop-cluster-join.1"),
    ] {
        let is_this = |line: &&str| line.starts_with(mode) && line.ends_with(&format!(" {name}"));
        assert_eq!(listed.lines().filter(is_this).count(), 1, "{name}: {listed}");
    }
    let out = folder.path().join("krew");
    let mut manifest = Command::new(root().join("cli/release/manifest"));
    ok(manifest.args(["owner/repo", "1.2.3"]).arg(&out).arg(archive));
    let manifest = fs::read_to_string(out.join("helmop.yaml")).unwrap();
    assert!(manifest.contains("bin: kubectl-helmop\n"), "{manifest}");
}
