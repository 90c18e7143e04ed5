//! Does `kubectl helmop create --from-helmrelease` keep the meaning of HelmReleases?
//!
//! Each folder is converted as a whole. Every HelmOp must be valid, and must have the values of its HelmRelease, which are read here once
//! more; those of a HelmRelease with `valuesFrom` are not compared. What Flux would deploy is a question for the tests of the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use helmops_bed::test_bed::binary;
use serde_json::Value;
use tokio::process::Command;

use crate::object::{documents, text};

/// Files that are larger have no HelmReleases.
const MAX_BYTES: u64 = 4 << 20;

/// What became of the HelmReleases of a folder.
#[derive(Debug, Default)]
pub struct Conversion {
    pub folder: PathBuf,
    pub converted: usize,
    /// Those whose values were compared.
    pub compared: usize,
    /// The HelmReleases that are refused, by cause: one may have several.
    pub refused: BTreeMap<String, usize>,
    /// The lines of the summary.
    pub summary: String,
    /// What is wrong.
    pub faults: Vec<String>,
}

/// The folders that are converted: those in a folder, or the folder itself if there are YAML files in it.
///
/// # Errors
/// If it cannot be read.
pub fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = entries(folder)?;
    if entries.iter().any(|entry| is_yaml(entry)) {
        return Ok(vec![folder.to_owned()]);
    }
    entries.retain(|entry| entry.is_dir());
    Ok(entries)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut entries: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort();
    Ok(entries)
}

fn is_yaml(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    path.is_file() && (extension == "yaml" || extension == "yml")
}

/// Converts the HelmReleases of a folder, and compares the HelmOps with them.
///
/// # Errors
/// If the program cannot be run.
pub async fn convert(folder: &Path) -> Result<Conversion> {
    let program = binary("kubectl-helmop")?;
    let mut create = Command::new(&program);
    create.args([
        "create",
        "--local",
        "--namespace=fleet-local",
        "--dry-run=client",
        "-o",
        "yaml",
        "--from-helmrelease",
    ]);
    let output = create.arg(folder).env("NO_COLOR", "1").output().await?;
    let (yaml, messages) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    let mut conversion = Conversion {
        folder: folder.to_owned(),
        refused: causes(&messages),
        summary: messages
            .lines()
            .filter(|line| is_summary(line))
            .collect::<Vec<_>>()
            .join("\n"),
        ..Conversion::default()
    };
    // 1: some are refused.
    if !matches!(output.status.code(), Some(0 | 1)) {
        conversion
            .faults
            .push(format!("the program ended with {}: {messages}", output.status));
        return Ok(conversion);
    }
    let helmops: Vec<_> = documents(&yaml)
        .into_iter()
        .filter(|object| text(object, "/kind") == "HelmOp")
        .collect();
    let releases = releases(folder)?;
    for helmop in &helmops {
        let Some(values) = values_of(helmop, &releases) else {
            continue;
        };
        conversion.compared += 1;
        let own = helmop.pointer("/spec/helm/values").cloned().unwrap_or_default();
        if !values.iter().any(|values| is_equal(values, &own)) {
            let name = text(helmop, "/metadata/name");
            conversion
                .faults
                .push(format!("{name}: its values are not those of the HelmRelease"));
        }
    }
    conversion.converted = helmops.len();
    conversion.faults.extend(invalid(&program, &yaml).await?);
    Ok(conversion)
}

/// What `kubectl helmop validate` finds.
async fn invalid(program: &Path, yaml: &str) -> Result<Option<String>> {
    if yaml.is_empty() {
        return Ok(None);
    }
    let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), yaml)?;
    let validate = Command::new(program)
        .arg("validate")
        .arg(file.path())
        .env("NO_COLOR", "1")
        .output()
        .await?;
    let text = String::from_utf8_lossy(&validate.stdout);
    Ok((!validate.status.success()).then(|| format!("a HelmOp is invalid: {text}")))
}

fn is_summary(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" HelmRelease")
}

/// `refused because of: 3 verify, 1 valuesFrom`
fn causes(messages: &str) -> BTreeMap<String, usize> {
    let line = messages
        .lines()
        .find_map(|line| line.strip_prefix("refused because of: "));
    let causes = line.into_iter().flat_map(|line| line.split(", "));
    causes
        .filter_map(|cause| {
            let (number, cause) = cause.split_once(' ')?;
            Some((cause.to_owned(), number.parse().ok()?))
        })
        .collect()
}

/// The HelmReleases of all files, by name.
fn releases(folder: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let (mut releases, mut folders): (BTreeMap<String, Vec<Value>>, _) =
        (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder)? {
            if entry.is_dir() && !entry.is_symlink() {
                folders.push(entry);
            } else if is_yaml(&entry) && entry.metadata().is_ok_and(|metadata| metadata.len() <= MAX_BYTES) {
                let content = std::fs::read(&entry)?;
                for object in documents(&String::from_utf8_lossy(&content))
                    .into_iter()
                    .filter(|object| text(object, "/kind") == "HelmRelease")
                {
                    let name = text(&object, "/metadata/name").to_owned();
                    releases.entry(name).or_default().push(object);
                }
            }
        }
    }
    Ok(releases)
}

/// The values that a HelmOp must have: those of a HelmRelease of its name; `None` if one has others too.
fn values_of(helmop: &Value, releases: &BTreeMap<String, Vec<Value>>) -> Option<Vec<Value>> {
    let releases = releases.get(helmop.pointer("/metadata/name")?.as_str()?)?;
    let is_alone = |release: &Value| release.pointer("/spec/valuesFrom").is_none_or(Value::is_null);
    let values = |release: &Value| release.pointer("/spec/values").cloned().unwrap_or_default();
    releases
        .iter()
        .all(is_alone)
        .then(|| releases.iter().map(values).collect())
}

/// Whether two values are the same for Helm: an empty mapping is nothing at the top.
fn is_equal(one: &Value, other: &Value) -> bool {
    let is_empty =
        |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    one == other || is_empty(one) && is_empty(other)
}

/// The table of all folders, and how many faults there are.
///
/// # Errors
/// If a folder has none of the two: nothing was converted.
pub fn report(conversions: &[Conversion]) -> Result<(String, usize)> {
    let mut text = String::new();
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for conversion in conversions {
        writeln!(text, "{}: {}", conversion.folder.display(), conversion.summary)?;
        for fault in &conversion.faults {
            writeln!(text, "  {fault}")?;
        }
        for (cause, number) in &conversion.refused {
            *causes.entry(cause).or_default() += number;
        }
    }
    let sum = |number: fn(&Conversion) -> usize| conversions.iter().map(number).sum::<usize>();
    let (converted, faults) = (sum(|one| one.converted), sum(|one| one.faults.len()));
    writeln!(
        text,
        "\nconverted {converted}, with the values compared {}, faults {faults}",
        sum(|one| one.compared)
    )?;
    for (cause, number) in causes {
        writeln!(text, "refused because of {cause}: {number}")?;
    }
    if conversions.is_empty() {
        return Err(anyhow!("there is no folder with HelmReleases"));
    }
    Ok((text, faults))
}
