//! Indexes as Helm writes them, of any size.
//!
//! The text is exactly what `helm repo index` writes for such charts: keys in order, long texts folded, quotes only where they
//! are needed. Nothing is random.

use std::io::{self, Write};

/// The chart whose versions are read.
pub const CHART: &str = "queue-operator";

const KINDS: [&str; 8] = [
    "api", "cache", "mail", "metrics", "queue", "search", "store", "web",
];
const ROLES: [&str; 5] = ["exporter", "gateway", "operator", "server", "worker"];

/// Long enough that 3,600 entries are four megabytes, as in public repositories.
const CHANGES: [&str; 4] = [
    "Honour the timeout that is set for the whole of a request",
    "Mount the configuration as a projected volume",
    "A second port for probes, which never needs a password",
    "Drop an annotation that no release of the ingress reads any more",
];

/// Writes an index of `entries` versions of 40 charts. Some charts have many versions, some only a few.
///
/// Returns the number of versions of [`CHART`].
///
/// # Errors
/// The errors of `output`.
pub fn write(output: &mut impl Write, entries: usize) -> io::Result<usize> {
    output.write_all(b"apiVersion: v1\nentries:\n")?;
    let mut versions_of_chart = 0;
    for (chart, versions) in charts(entries).into_iter().enumerate() {
        let name = name(chart);
        writeln!(output, "  {name}:")?;
        for newer in 0..versions {
            entry(output, &name, chart, versions - newer)?;
        }
        if name == CHART {
            versions_of_chart = versions;
        }
    }
    output.write_all(b"generated: \"2026-11-01T08:00:00.123456789Z\"\n")?;
    Ok(versions_of_chart)
}

fn name(chart: usize) -> String {
    let [kind, role] = [(&KINDS[..], chart / ROLES.len()), (&ROLES[..], chart)]
        .map(|(words, at)| words.get(at % words.len()).copied().unwrap_or_default());
    format!("{kind}-{role}")
}

/// The number of versions of each chart: the sum is `entries`, each has at least one if there are enough.
fn charts(entries: usize) -> Vec<usize> {
    let weight = |chart: usize| 1 + chart * 5 % 17;
    let count = KINDS.len() * ROLES.len();
    let all: usize = (0..count).map(weight).sum();
    let mut start = 0;
    (1..=count)
        .map(|through| {
            let end = entries * (0..through).map(weight).sum::<usize>() / all;
            let versions = end - start;
            start = end;
            versions
        })
        .collect()
}

/// The `number`-th version of a chart, counted from the oldest.
fn entry(output: &mut impl Write, name: &str, chart: usize, number: usize) -> io::Result<()> {
    let version = version(number);
    let digest = digest(chart, number);
    annotations(output, number)?;
    writeln!(output, "    apiVersion: v2")?;
    writeln!(output, "    appVersion: {}.{}.1", number / 40, number % 40)?;
    let (month, day, second) = (1 + number / 28 % 12, 1 + number % 28, number % 60);
    writeln!(
        output,
        "    created: \"2025-{month:02}-{day:02}T21:16:{second:02}.141043059Z\""
    )?;
    if !chart.is_multiple_of(3) {
        dependencies(output, chart)?;
    }
    if number.is_multiple_of(50) {
        writeln!(output, "    deprecated: true")?;
    }
    writeln!(output, "    description: {}", description(chart))?;
    writeln!(output, "    digest: {digest}")?;
    writeln!(output, "    home: https://charts.example.com/{name}")?;
    writeln!(output, "    keywords:\n    - {name}\n    - example")?;
    writeln!(output, "    kubeVersion: '>=1.21.0-0'")?;
    maintainers(output, chart)?;
    writeln!(output, "    name: {name}")?;
    writeln!(
        output,
        "    sources:\n    - https://git.example.com/charts/{name}"
    )?;
    writeln!(output, "    type: application")?;
    writeln!(
        output,
        "    urls:\n    - https://git.example.com/charts/releases/download/{name}-{version}/{name}-{version}.tgz"
    )?;
    writeln!(output, "    version: {version}")
}

fn annotations(output: &mut impl Write, number: usize) -> io::Result<()> {
    writeln!(output, "  - annotations:\n      artifacthub.io/changes: |")?;
    for line in CHANGES
        .iter()
        .cycle()
        .skip(number % CHANGES.len())
        .take(1 + number % 2)
    {
        writeln!(output, "        - kind: changed\n          description: {line}")?;
    }
    let is_prerelease = version(number).contains('-');
    writeln!(output, "      artifacthub.io/prerelease: \"{is_prerelease}\"")
}

fn dependencies(output: &mut impl Write, chart: usize) -> io::Result<()> {
    writeln!(output, "    dependencies:")?;
    for other in 1..=chart % 3 {
        let name = name(chart + other);
        writeln!(output, "    - condition: {name}.enabled\n      name: {name}")?;
        writeln!(
            output,
            "      repository: https://charts.example.com/stable\n      version: {other}.x.x"
        )?;
    }
    Ok(())
}

fn maintainers(output: &mut impl Write, chart: usize) -> io::Result<()> {
    writeln!(output, "    maintainers:")?;
    for number in 0..=chart % 2 {
        writeln!(
            output,
            "    - email: maintainer-{number}@example.com\n      name: maintainer-{number}"
        )?;
    }
    Ok(())
}

/// Descriptions in all YAML forms.
fn description(chart: usize) -> &'static str {
    match chart % 5 {
        0 => "A chart that is described in one line",
        1 => {
            "A chart whose description is longer than a line of eighty characters,\n      so that it is folded"
        }
        2 => {
            "'A chart whose description is quoted: it has a colon, and it''s long\n      enough to be folded as well'"
        }
        3 => "Words with \"quotes\", [brackets] and a colon:here",
        _ => "\"\\U0001F680 A chart whose description starts with a rocket\"",
    }
}

/// Ten patches to a minor version, twenty minor versions to a major one, and a pre-release before every fifteenth.
fn version(number: usize) -> String {
    let (major, minor, patch) = (number / 200, number / 10 % 20, number % 10);
    let suffix = if number.is_multiple_of(15) { "-rc.1" } else { "" };
    format!("{major}.{minor}.{patch}{suffix}")
}

/// 64 hexadecimal digits that no other entry has (`SplitMix64` four times over).
fn digest(chart: usize, number: usize) -> String {
    let mut state = (chart as u64) << 32 | number as u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    };
    let (a, b, c, d) = (next(), next(), next(), next());
    format!("{a:016x}{b:016x}{c:016x}{d:016x}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use helm_index::{ChartFilter, Layout, read};

    use super::*;

    #[test]
    fn both_layouts_read_every_entry() {
        let mut text = Vec::new();
        let of_chart = write(&mut text, 1000).unwrap();
        let filter: ChartFilter = (0..40).map(name).collect();
        let fast = read(text.as_slice(), &filter, Layout::Any).unwrap();
        assert_eq!(fast.versions(CHART).unwrap().len(), of_chart);
        let all: Vec<_> = fast.charts.values().flatten().collect();
        assert_eq!((all.len(), fast.charts.len(), fast.skipped), (1000, 40, 0));
        let digests: BTreeSet<_> = all.iter().map(|entry| entry.digest.as_str()).collect();
        assert_eq!(digests.len(), 1000);
        let general = read(text.as_slice(), &filter, Layout::General).unwrap();
        assert_eq!(general.charts, fast.charts);
    }

    #[test]
    fn entries_have_the_size_of_those_in_public_repositories() {
        let mut text = Vec::new();
        write(&mut text, 3600).unwrap();
        assert!((3_800_000..4_200_000).contains(&text.len()), "{}", text.len());
    }
}
