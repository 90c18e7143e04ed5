//! The scripts that run the program: the action for GitHub, the hooks for pre-commit, and the completion of bash and kubectl.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use gotmpl::yaml::{self, Quota};
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
    let run = |program: &str, files: &str| {
        let variables = [
            ("PROGRAM", program),
            ("FILES", files),
            ("RECURSIVE", "true"),
            ("NAMESPACE", "team"),
            ("STRICT", "false"),
            ("SARIF", "log.sarif"),
        ];
        let variables = variables.map(|(name, value)| (name, OsStr::new(value)));
        let output = run_step(last, folder.path(), &variables);
        let log = fs::read_to_string(folder.path().join("log.sarif")).unwrap();
        (output, log)
    };
    for (files, code) in [("web.yaml", 1), ("web.yaml binary.yaml", 2), (".", 2)] {
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
