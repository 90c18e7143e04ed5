//! The post-renderer: the command of this program that Helm runs as a plugin between rendering a chart and applying its objects.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use helmops_release::{
    manifest,
    post_render::{PostRender, PostRenderError},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

/// The name of the file with the input.
pub const INPUT: &str = "input.json";
/// The name of the file with the error, beside the input: Helm drops what a plugin writes to standard error.
pub const ERROR: &str = "error";

/// Arguments of the post-renderer.
#[derive(Clone, Debug, clap::Args)]
pub struct PostRenderArgs {
    /// JSON file with what to change
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
}

#[derive(Debug, Error)]
enum CommandError {
    #[error("cannot read {}: {error}", path.display())]
    Input { path: PathBuf, error: io::Error },
    #[error("{} is invalid: {error}", path.display())]
    Json { path: PathBuf, error: serde_json::Error },
    #[error("cannot read the objects of the chart: {0}")]
    Stdin(io::Error),
    #[error(transparent)]
    Render(#[from] PostRenderError),
    #[error("cannot write the objects of the chart: {0}")]
    Stdout(io::Error),
}

/// The part of Helm's memory that it may use (1/`MEMORY_PART`): both run at the same time. The largest charts need less.
const MEMORY_PART: u64 = 4;
/// What it may use in any case.
const MIN_MEMORY: u64 = 64 << 20;

/// Limits its memory, if that of Helm is.
fn limit_memory() {
    let limit = getrlimit(Resource::Data);
    if let Some(of_helm) = limit.current {
        let current = Some((of_helm / MEMORY_PART).max(MIN_MEMORY).min(of_helm));
        // A lower limit is always allowed.
        let _ = setrlimit(Resource::Data, Rlimit { current, ..limit });
    }
}

/// Runs it. The error is in the file [`ERROR`] and on standard error.
pub fn run(args: &PostRenderArgs) -> ExitCode {
    limit_memory();
    match render(&args.input, io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            // Without the file the agent reports what Helm says: that the plugin failed.
            let _ = fs::write(args.input.with_file_name(ERROR), &text);
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::FAILURE
        }
    }
}

fn render(input: &Path, from: impl Read, mut to: impl Write) -> Result<(), CommandError> {
    let json = fs::read(input).map_err(|error| CommandError::Input {
        path: input.to_owned(),
        error,
    })?;
    let step: PostRender = serde_json::from_slice(&json).map_err(|error| CommandError::Json {
        path: input.to_owned(),
        error,
    })?;
    // One byte more than the maximum, which is refused then.
    let limit = u64::try_from(manifest::MAX_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut text = String::new();
    from.take(limit)
        .read_to_string(&mut text)
        .map_err(CommandError::Stdin)?;
    let rendered = step.render(&text)?;
    to.write_all(rendered.as_bytes()).map_err(CommandError::Stdout)?;
    to.flush().map_err(CommandError::Stdout)
}

#[cfg(test)]
mod tests {
    use helmops_release::scopes::Scopes;

    use super::*;

    #[test]
    fn objects_are_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join(INPUT);
        let step = PostRender {
            set: "default-web".to_owned(),
            namespace: None,
            deletes_crds: false,
            scopes: Scopes::default(),
        };
        fs::write(&input, serde_json::to_vec(&step).unwrap()).unwrap();
        let mut out = Vec::new();
        render(&input, "kind: A\nmetadata: {name: a}\n".as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("objectset.rio.cattle.io/id: default-web"), "{text}");
        let error = render(&input, &b"kind: [\n"[..], Vec::new()).unwrap_err();
        assert!(matches!(error, CommandError::Render(_)), "{error}");
        fs::write(&input, "{}").unwrap();
        let error = render(&input, &b""[..], Vec::new()).unwrap_err().to_string();
        assert!(
            error.contains("input.json is invalid: missing field `set`"),
            "{error}"
        );
    }
}
