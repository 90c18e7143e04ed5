//! The quickstart of README.md: its commands, and what they print.

use std::time::Duration;

use helmops_bed::command::{self, Output};
use helmops_bed::permit::acquire_permit;
use helmops_bed::test_bed::binary;
use tempfile::TempDir;
use tokio::process::Command;

use super::readme::section;

/// A control plane starts within seconds; a busy machine takes longer.
const DEADLINE: Duration = Duration::from_mins(3);

/// A control plane in the background, as `make up` starts it; it is stopped even after a failure.
struct Background {
    state: TempDir,
    /// Where the commands run.
    folder: TempDir,
    /// What `make up` prints.
    exports: String,
}

impl Background {
    async fn up() -> Self {
        let mut this = Self {
            state: TempDir::new().unwrap(),
            folder: TempDir::new().unwrap(),
            exports: String::new(),
        };
        let mut up = this.testbed("up");
        up.args(["--helmops", "--nodes"]);
        let up = command::run(up, "", DEADLINE).await;
        this.exports = up.unwrap().ok().unwrap();
        this
    }

    fn testbed(&self, command: &str) -> Command {
        let mut testbed = Command::new(binary("testbed").unwrap());
        testbed.arg(command).arg("--state").arg(self.state.path());
        testbed
    }

    /// Runs commands in a shell with the exports.
    async fn shell(&self, commands: &str) -> Output {
        let mut shell = Command::new("sh");
        shell
            .args(["-eu", "-c", &format!("{}\n{commands}", self.exports)])
            .current_dir(self.folder.path())
            .env("LC_ALL", "C.UTF-8");
        command::run(shell, "", DEADLINE).await.unwrap()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut down = std::process::Command::new(binary("testbed").unwrap());
        let _ = down.arg("down").arg("--state").arg(self.state.path()).output();
    }
}

/// A block of the quickstart.
struct Block<'t> {
    language: &'t str,
    text: &'t str,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let parts: Vec<_> = text.split("\n```").collect();
    let blocks = parts.iter().skip(1).step_by(2);
    blocks
        .map(|block| {
            let (language, text) = block.split_once('\n').unwrap_or((block, ""));
            Block { language, text }
        })
        .collect()
}

/// The commands of a transcript, each with what it prints.
fn transcript(text: &str) -> Vec<(&str, &str)> {
    let commands = text.strip_prefix("$ ").unwrap().split("\n$ ");
    commands
        .map(|part| part.split_once('\n').unwrap_or((part, "")))
        .collect()
}

/// A text without what differs from run to run: ages, times, ports, widths of columns, and what is printed while a command waits.
fn stable(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.contains(": waiting: "));
    let words = lines.map(|line| {
        let words: Vec<_> = line.split_whitespace().map(stable_word).collect();
        words.join(" ")
    });
    words.filter(|line| !line.is_empty()).collect()
}

fn stable_word(word: &str) -> String {
    if let Some((before, after)) = word.split_once("127.0.0.1:") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        return format!("{before}127.0.0.1:PORT{rest}");
    }
    let bare = word.trim_matches(['(', ')', ',', ';', '.']);
    let is_age = bare.starts_with(|c: char| c.is_ascii_digit())
        && bare.ends_with(['s', 'm', 'h'])
        && bare.chars().all(|c| c.is_ascii_digit() || "smh".contains(c));
    let is_digest = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_age || is_digest {
        return word.replace(bare, "VARIES");
    }
    word.to_owned()
}

#[test]
fn what_varies_is_not_compared() {
    assert_eq!(
        stable("A   http://127.0.0.1:4711/x (6m9s)\nhelmop web: waiting: b\n\n1.0.0 shop 12s,"),
        ["A http://127.0.0.1:PORT/x (VARIES)", "1.0.0 shop VARIES,"]
    );
}

#[tokio::test]
async fn the_quickstart_prints_what_the_readme_shows() {
    let text = section("README.md", "## Quickstart");
    let blocks = blocks(&text);
    assert!(blocks.len() > 4);
    let _permit = acquire_permit().await.unwrap();
    let background = Background::up().await;
    for Block { language, text } in blocks {
        match language {
            // The control plane runs already, with what `make up` has printed.
            "sh" if text.starts_with("make ") => {}
            "sh" => {
                background.shell(text).await.ok().unwrap();
            }
            "console" => {
                for (command, expected) in transcript(text) {
                    let output = background.shell(&format!("{command} 2>&1")).await;
                    let printed = output.stdout;
                    assert_eq!(stable(&printed), stable(expected), "$ {command}\n{printed}");
                }
            }
            other => unreachable!("a block of README.md is in {other:?}"),
        }
    }
}
