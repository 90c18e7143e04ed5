//! The command of this program that changes the objects of a chart between rendering and applying: `helmops-helm` runs it, so that all
//! that reads YAML of charts does so in the same way.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use helmops_helm::protocol::ESCAPED;
use helmops_release::{
    manifest,
    post_render::{PostRender, PostRenderError, RenderedDocument},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Deserialize;
use thiserror::Error;

/// Bytes of the rest of the input.
const REST: usize = 16 << 20;

/// What it reads, as JSON. It writes a list with the text of each document.
#[derive(Debug, Deserialize)]
struct Input {
    step: PostRender,
    documents: Vec<RenderedDocument>,
}

#[derive(Debug, Error)]
enum CommandError {
    #[error("cannot read the objects of the chart: {0}")]
    Stdin(io::Error),
    #[error("the input is invalid: {0}")]
    Json(serde_json::Error),
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

/// Runs it. The error is on standard error.
pub fn run() -> ExitCode {
    limit_memory();
    match render(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without it, Helm says that this program failed.
            let _ = write!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn render(from: impl Read, mut to: impl Write) -> Result<(), CommandError> {
    let limit = manifest::MAX_BYTES * ESCAPED + REST;
    let mut text = String::new();
    from.take(u64::try_from(limit).unwrap_or(u64::MAX))
        .read_to_string(&mut text)
        .map_err(CommandError::Stdin)?;
    let Input { step, documents } = serde_json::from_str(&text).map_err(CommandError::Json)?;
    drop(text);
    let texts = step.render_documents(&documents)?;
    let json = serde_json::to_vec(&texts).map_err(CommandError::Json)?;
    to.write_all(&json).map_err(CommandError::Stdout)?;
    to.flush().map_err(CommandError::Stdout)
}

#[cfg(test)]
mod tests {
    use helmops_release::{post_render::CommonMetadata, scopes::Scopes};
    use serde_json::json;

    use super::*;

    fn rendered(text: &str) -> Result<Vec<String>, CommandError> {
        let step = PostRender {
            common: CommonMetadata::default(),
            set: "default-web".to_owned(),
            namespace: None,
            deletes_crds: false,
            scopes: Scopes::default(),
        };
        let input = json!({ "step": step, "documents": [{ "file": "web/templates/a.yaml", "text": text }] });
        let mut out = Vec::new();
        render(input.to_string().as_bytes(), &mut out)?;
        Ok(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn objects_are_read_and_written() {
        let texts = rendered("kind: A\nmetadata: {name: a}\n").unwrap();
        assert!(
            texts[0].contains("objectset.rio.cattle.io/id: default-web"),
            "{texts:?}"
        );
        let error = rendered("kind: [\n").unwrap_err();
        assert!(matches!(error, CommandError::Render(_)), "{error}");
        let error = render(&b"{}"[..], Vec::new()).unwrap_err().to_string();
        assert!(
            error.contains("the input is invalid: missing field `step`"),
            "{error}"
        );
    }
}
