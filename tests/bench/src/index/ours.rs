//! Our reader, measured in this process.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use helm_index::{self as index, ChartFilter, Layout};
use helm_index::{VersionRequest, select};
use rustix::time::{ClockId, clock_gettime};

use super::reading::Reading;
use helmops_bed::usage;

/// Buffer size of the controller: at most this much of a document is in memory besides the parsed entries.
const BUFFER: usize = 64 << 10;

/// Reads an index once, and chooses the latest version of a chart.
///
/// Memory is the peak of the whole process: call it in a process that does nothing else.
///
/// # Errors
/// If the file is not an index in Helm's layout, which the fast path reads, or has no such chart.
pub fn read(file: &Path, chart: &str) -> Result<Reading> {
    let (started, cpu) = (Instant::now(), cpu_time());
    let input = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let input = BufReader::with_capacity(BUFFER, input);
    let found = index::read(input, &ChartFilter::from([chart.to_owned()]), Layout::Any)?;
    let entries = found.versions(chart)?;
    let latest = select(chart, entries, &VersionRequest::parse("")?)?;
    let (wall, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
    let peak = usage::memory(std::process::id())?.peak;
    Ok(Reading {
        cpu: cpu.as_secs_f64(),
        wall: wall.as_secs_f64(),
        peak: u64::from(peak) << 10,
        versions: entries.len(),
        latest: latest.version.clone(),
    })
}

/// CPU time of all threads.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    // The clock of a process starts at zero.
    now.try_into().unwrap_or_default()
}
