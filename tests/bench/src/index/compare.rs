//! The whole comparison: two sizes, two readers, repeated several times.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::helm::Loader;
use super::layout;
use super::reading::Reading;
use crate::figures::median;

/// Entries of a large public repository, and more than ten times as many.
pub const SIZES: [usize; 2] = [3_600, 45_000];

/// Medians of some readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// CPU time of all threads, in seconds.
    pub cpu: f64,
    /// Time, in seconds.
    pub wall: f64,
    /// Peak resident memory, in bytes.
    pub peak: f64,
}

impl Cost {
    fn of(readings: &[Reading]) -> Self {
        let median = |figure: &dyn Fn(&Reading) -> f64| median(readings.iter().map(figure));
        Self {
            cpu: median(&|reading| reading.cpu),
            wall: median(&|reading| reading.wall),
            #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes of memory")]
            peak: median(&|reading| reading.peak as f64),
        }
    }
}

/// The cost of an index of some size for both readers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Versions of all charts.
    pub entries: usize,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Our reader.
    pub ours: Cost,
    /// Helm's loader.
    pub helm: Cost,
}

/// Compares at all [`SIZES`]. `ours` returns the command that reads an index as [`super::ours::read`] does.
///
/// # Errors
/// If a reader fails or returns a wrong result.
pub fn compare(repeat: usize, ours: impl Fn(&Path, &str) -> Command) -> Result<Vec<Comparison>> {
    let folder = TempDir::with_prefix("helmops-bench-")?;
    let loader = Loader::build(folder.path())?;
    let size = |entries| {
        let file = folder.path().join(format!("index-{entries}.yaml"));
        let versions = write_index(&file, entries)?;
        let (mut our_readings, mut helm_readings) = (Vec::new(), Vec::new());
        for repetition in 1..=repeat {
            eprintln!("reading {entries} entries, {repetition} of {repeat}");
            our_readings.push(Reading::of(ours(&file, layout::CHART))?);
            helm_readings.push(Reading::of(loader.command(&file, layout::CHART))?);
        }
        check_readings(&our_readings, &helm_readings, versions)?;
        Ok(Comparison {
            entries,
            bytes: file.metadata()?.len(),
            ours: Cost::of(&our_readings),
            helm: Cost::of(&helm_readings),
        })
    };
    SIZES.into_iter().map(size).collect()
}

/// Writes an index, and returns how many versions of the chart it lists.
fn write_index(file: &Path, entries: usize) -> Result<usize> {
    let output = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let mut output = BufWriter::new(output);
    let versions = layout::write(&mut output, entries)?;
    output.flush()?;
    Ok(versions)
}

/// Checks that all readings found the written versions.
fn check_readings(ours: &[Reading], helm: &[Reading], versions: usize) -> Result<()> {
    let latest = helm.first().map(|reading| reading.latest.as_str());
    for reading in ours.iter().chain(helm) {
        ensure!(
            reading.versions == versions && Some(reading.latest.as_str()) == latest,
            "{reading:?} is wrong: there are {versions} versions, and the latest according to Helm is {latest:?}"
        );
    }
    Ok(())
}
