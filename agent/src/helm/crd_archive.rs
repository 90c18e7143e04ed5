//! The archive of a chart with nothing but what decides on its CRDs: the metadata and values of the chart and of its subcharts, and
//! their folders `crds`.
//!
//! Helm decides which subcharts are enabled. Without templates it renders nothing, so nothing of them can fail.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use flate2::{
    Compression,
    read::{GzDecoder, MultiGzDecoder},
    write::GzEncoder,
};
use helm_archive::{Limits, check};
use tar::{Archive, Builder, EntryType, Header};

use super::chart_archive::ArchiveError;

/// The folder of the chart in the archive that is written.
const ROOT: &str = "chart/";
/// The folder of subcharts.
const CHARTS: &str = "charts/";
/// The folder of CRDs.
const CRDS: &str = "crds/";
/// The files that decide which subcharts are enabled.
const METADATA: [&str; 3] = ["Chart.yaml", "requirements.yaml", "values.yaml"];
/// Files of these extensions in the folder of CRDs are read.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

/// Copies what decides on the CRDs of a chart, and whether it has any.
///
/// # Errors
/// If it is not the archive of a chart.
pub fn reduce(from: &Path, to: &Path) -> Result<bool, ArchiveError> {
    let open = || File::open(from).map(BufReader::new);
    check(open()?, Limits::default())?;
    let (has_crds, mut output) = copy(open()?, BufWriter::new(File::create(to)?))?;
    output.flush()?;
    Ok(has_crds)
}

/// As [`reduce`], for an archive that was checked: its size and the depth of its subcharts are bounded.
fn copy<W: Write>(from: impl Read, to: W) -> Result<(bool, W), ArchiveError> {
    let mut reduced = Reduced {
        // It is read once, on the same machine.
        output: Builder::new(GzEncoder::new(to, Compression::fast())),
        has_crds: false,
    };
    reduced.add(Box::new(MultiGzDecoder::new(from)), ROOT)?;
    let output = reduced.output.into_inner()?.finish()?;
    Ok((reduced.has_crds, output))
}

struct Reduced<W: Write> {
    output: Builder<GzEncoder<W>>,
    has_crds: bool,
}

impl<W: Write> Reduced<W> {
    /// Adds the files of a chart below a folder.
    fn add(&mut self, chart: Box<dyn Read + '_>, folder: &str) -> Result<(), ArchiveError> {
        let mut archive = Archive::new(chart);
        for file in archive.entries()? {
            let mut file = file?;
            let path = String::from_utf8_lossy(&file.path_bytes()).into_owned();
            let Some((_, path)) = path
                .split_once('/')
                .filter(|_| file.header().entry_type() == EntryType::Regular)
            else {
                continue;
            };
            match part(path) {
                Part::Other => {}
                // It is unpacked into a folder, whose name Helm does not mind.
                Part::Subchart => {
                    let folder = format!("{folder}{path}.d/");
                    self.add(Box::new(GzDecoder::new(&mut file)), &folder)?;
                }
                found @ (Part::Metadata | Part::Crds) => {
                    self.has_crds |= found == Part::Crds;
                    let mut header = Header::new_gnu();
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(0o644);
                    header.set_size(file.size());
                    self.output
                        .append_data(&mut header, format!("{folder}{path}"), file)?;
                }
            }
        }
        Ok(())
    }
}

/// What a file of a chart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It decides which subcharts are enabled.
    Metadata,
    /// It is in a folder of CRDs.
    Crds,
    /// The archive of a subchart.
    Subchart,
    /// It does not matter.
    Other,
}

fn part(path: &str) -> Part {
    let mut path = path;
    // Subcharts in folders.
    while let Some(below) = path.strip_prefix(CHARTS) {
        let Some((_, in_subchart)) = below.split_once('/') else {
            return match extension(below) {
                Some("tgz") if !below.starts_with(['_', '.']) => Part::Subchart,
                _ => Part::Other,
            };
        };
        path = in_subchart;
    }
    if METADATA.contains(&path) {
        return Part::Metadata;
    }
    let is_manifest = extension(path).is_some_and(|extension| {
        MANIFESTS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    });
    if path.starts_with(CRDS) && is_manifest {
        Part::Crds
    } else {
        Part::Other
    }
}

fn extension(path: &str) -> Option<&str> {
    Some(path.rsplit_once('.')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = Header::new_gnu();
            header.set_size(content.len().try_into().unwrap());
            out.append_data(&mut header, path, *content).unwrap();
        }
        out.into_inner().unwrap().finish().unwrap()
    }

    fn reduced(archive: &[u8]) -> (bool, Vec<(String, String)>) {
        let (has_crds, output) = copy(archive, Vec::new()).unwrap();
        let mut archive = Archive::new(GzDecoder::new(&*output));
        let files = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (path, text)
        });
        (has_crds, files.collect())
    }

    #[test]
    fn only_what_decides_on_crds_is_kept() {
        let inner = packed(&[
            ("deep/Chart.yaml", b"name: deep"),
            ("deep/crds/d.json", b"{}"),
            ("deep/templates/x.yaml", b""),
        ]);
        let packed_subchart = packed(&[
            ("cache/Chart.yaml", b"name: cache"),
            ("cache/values.schema.json", b"{}"),
            ("cache/charts/deep-0.1.0.tgz", &inner),
        ]);
        let archive = packed(&[
            ("web/Chart.yaml", b"name: web"),
            ("web/values.yaml", b"a: 1"),
            ("web/values.schema.json", b"{}"),
            ("web/templates/a.yaml", b"{{ fail }}"),
            ("web/templates/crds/a.yaml", b""),
            ("web/crds/a.yaml", b"kind: A"),
            ("web/crds/more/B.YML", b"kind: B"),
            ("web/crds/README.md", b""),
            ("web/charts/db/Chart.yaml", b"name: db"),
            ("web/charts/db/requirements.yaml", b""),
            ("web/charts/db/crds/c.yaml", b"kind: C"),
            ("web/charts/db/templates/c.yaml", b""),
            ("web/charts/cache-1.0.0.tgz", &packed_subchart),
            ("web/charts/_old.tgz", b"broken"),
            ("web/charts/README.md", b""),
        ]);
        let (has_crds, files) = reduced(&archive);
        let expected = [
            ("chart/Chart.yaml", "name: web"),
            ("chart/values.yaml", "a: 1"),
            ("chart/crds/a.yaml", "kind: A"),
            ("chart/crds/more/B.YML", "kind: B"),
            ("chart/charts/db/Chart.yaml", "name: db"),
            ("chart/charts/db/requirements.yaml", ""),
            ("chart/charts/db/crds/c.yaml", "kind: C"),
            ("chart/charts/cache-1.0.0.tgz.d/Chart.yaml", "name: cache"),
            (
                "chart/charts/cache-1.0.0.tgz.d/charts/deep-0.1.0.tgz.d/Chart.yaml",
                "name: deep",
            ),
            (
                "chart/charts/cache-1.0.0.tgz.d/charts/deep-0.1.0.tgz.d/crds/d.json",
                "{}",
            ),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        assert_eq!((has_crds, &*files), (true, &expected[..]));
    }

    #[test]
    fn a_chart_without_crds_is_recognized() {
        let archive = packed(&[
            ("web/Chart.yaml", b"name: web"),
            ("web/templates/crds/a.yaml", b"a: 1"),
        ]);
        assert!(!reduced(&archive).0);
    }

    #[test]
    fn what_is_no_chart_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("text.tgz");
        std::fs::write(&from, "text").unwrap();
        assert!(reduce(&from, &folder.path().join("out.tgz")).is_err());
    }
}
