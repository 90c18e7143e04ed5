//! The charts of a folder, and repositories with one chart each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use go_formats::yaml::{Quota, read_exact};
use helmops_bed::command;
use helmops_bed::tools::Tools;
use serde_json::{Map, Value, json};
use tokio::process::Command;

/// Helm reads the largest archives in a second.
const DEADLINE: Duration = Duration::from_mins(1);
/// Fields whose value changes with the upgrade; the last one is of charts that are made for this.
const NUMBERS: [&str; 3] = ["replicaCount", "replicas", "step"];

/// An archive of a chart.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its file.
    pub path: PathBuf,
    /// The name of the file, which names it in the report.
    pub file: String,
    /// Its size in bytes; with the name it identifies what has a result already.
    pub bytes: u64,
    /// The name of the chart.
    pub chart: String,
    /// Its version, as in `Chart.yaml`.
    pub version: String,
    /// The values of the upgrade.
    pub changed: Value,
}

/// The files of a folder that are archives, by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "tgz"));
    files.sort();
    Ok(files)
}

/// The name and the size of a file: an archive with both has been compared already.
///
/// # Errors
/// If it cannot be read.
pub fn identity(path: &Path) -> Result<(String, u64)> {
    let name = path.file_name().unwrap_or_default();
    Ok((name.to_string_lossy().into_owned(), path.metadata()?.len()))
}

impl Archive {
    /// Reads an archive with Helm.
    ///
    /// # Errors
    /// If Helm cannot read it.
    pub async fn read(tools: &Tools, path: &Path) -> Result<Self> {
        let metadata = yaml(&show(tools, "chart", path).await?)?;
        let values = yaml(&show(tools, "values", path).await?)?;
        let text = |name: &str| match metadata.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
            None => Err(anyhow::anyhow!("{}: Chart.yaml has no {name}", path.display())),
        };
        let (file, bytes) = identity(path)?;
        Ok(Self {
            file,
            bytes,
            chart: text("name")?,
            version: text("version")?,
            changed: changed(&values),
            path: path.to_owned(),
        })
    }

    /// Writes a repository with this chart alone into a folder.
    ///
    /// # Errors
    /// If it cannot be written, or Helm fails.
    pub async fn publish(&self, tools: &Tools, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::copy(&self.path, folder.join(&self.file))?;
        let mut command = Command::new(tools.helm());
        command.args(["repo", "index"]).arg(folder);
        command::run(command, "", DEADLINE).await?.ok().map(drop)
    }
}

async fn show(tools: &Tools, what: &str, path: &Path) -> Result<String> {
    let mut command = Command::new(tools.helm());
    command.args(["show", what]).arg(path);
    command::run(command, "", DEADLINE).await?.ok()
}

fn yaml(text: &str) -> Result<Value> {
    Ok(read_exact(text, &mut Quota::new(usize::MAX, usize::MAX))?)
}

/// Values that differ from the defaults in one value: one more replica where the chart has a number of them, or else one that no template uses.
fn changed(values: &Value) -> Value {
    let fields = values.as_object();
    let number = |fields: &Map<String, Value>| {
        NUMBERS
            .iter()
            .find_map(|name| Some(json!({ (*name): fields.get(*name)?.as_u64()? + 1 })))
    };
    let top = fields.and_then(number);
    let inner = || {
        let mut all = fields?.iter();
        all.find_map(|(name, value)| Some(json!({ name: number(value.as_object()?)? })))
    };
    top.or_else(inner)
        .unwrap_or_else(|| json!({ "global": { "parity": "changed" } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_changes_the_number_of_replicas() {
        assert_eq!(
            changed(&json!({ "replicaCount": 1 })),
            json!({ "replicaCount": 2 })
        );
        let inner = json!({ "a": 1, "server": { "replicas": 3 } });
        assert_eq!(changed(&inner), json!({ "server": { "replicas": 4 } }));
        assert_eq!(
            changed(&Value::Null),
            json!({ "global": { "parity": "changed" } })
        );
    }
}
