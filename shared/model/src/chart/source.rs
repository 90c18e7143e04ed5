//! Where a chart comes from: the forms of `repo` and `chart`.

use helmops_bucket::BUCKET_PREFIX;
use helmops_git::GIT_PREFIX;

use super::{artifact::ARTIFACT_PREFIX, config_maps::CONFIG_MAPS_PREFIX};

/// The source of a chart, by form alone: its URL is not validated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChartSource<'a> {
    /// A chart archive at a URL. It has no versions to choose from.
    Archive {
        /// URL of the archive.
        url: &'a str,
    },
    /// A chart in an OCI registry.
    Oci {
        /// Its reference, with `oci://`.
        repo: &'a str,
    },
    /// A chart in a Helm repository.
    Repository {
        /// URL of the repository.
        repo: &'a str,
        /// Name of the chart.
        chart: &'a str,
    },
    /// A chart that the controller packs from files. A HelmOp names it in `spec.chartSource`; its records and its Bundle have it in `repo` and
    /// `chart`.
    Packed {
        /// Where the files are: a URL after a prefix that names the kind, such as
        /// [`Location::identity`](helmops_git::Location::identity) of a Git repository.
        repo: &'a str,
        /// Where the chart is in it; empty for the top.
        path: &'a str,
    },
}

/// An error in the combination of `repo`, `chart` and `version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// An archive and a repository.
    ArchiveWithRepo,
    /// An archive and a version.
    ArchiveWithVersion,
    /// An OCI reference and a chart.
    OciWithChart,
    /// No chart.
    NoChart,
    /// No repository.
    NoRepo,
}

impl<'a> ChartSource<'a> {
    /// The form that `repo` and `chart` have, complete or not.
    pub fn of(repo: &'a str, chart: &'a str) -> Self {
        if packed_prefix(repo).is_some() {
            // The chart of a bucket may be an archive.
            Self::Packed { repo, path: chart }
        } else if is_archive(chart) {
            Self::Archive { url: chart }
        } else if is_oci(repo) {
            Self::Oci { repo }
        } else {
            Self::Repository { repo, chart }
        }
    }

    /// All errors in the combination of `repo`, `chart` and `version`.
    pub fn errors(repo: &'a str, chart: &'a str, version: &str) -> Vec<SourceError> {
        let candidates = match Self::of(repo, chart) {
            Self::Archive { .. } => [
                (!repo.is_empty(), SourceError::ArchiveWithRepo),
                (!version.is_empty(), SourceError::ArchiveWithVersion),
            ],
            Self::Oci { .. } => [
                (!chart.is_empty(), SourceError::OciWithChart),
                (false, SourceError::NoChart),
            ],
            Self::Repository { .. } => [
                (chart.is_empty(), SourceError::NoChart),
                (repo.is_empty(), SourceError::NoRepo),
            ],
            Self::Packed { .. } => return Vec::new(),
        };
        candidates
            .into_iter()
            .filter_map(|(is_invalid, error)| is_invalid.then_some(error))
            .collect()
    }
}

/// What names the kind of source at the start of the `repo` of a packed chart, as records and Bundles have it.
/// `None` for another one.
pub fn packed_prefix(repo: &str) -> Option<&'static str> {
    let mut prefixes = [GIT_PREFIX, BUCKET_PREFIX, ARTIFACT_PREFIX, CONFIG_MAPS_PREFIX].into_iter();
    prefixes.find(|prefix| repo.starts_with(prefix))
}

/// Whether `chart` is the URL of an archive rather than a name.
pub fn is_archive(chart: &str) -> bool {
    has_suffix(chart, ".tgz")
}

/// Whether `chart` has the form `grafana/loki`: the local name of a repository, set by `helm repo add`, and a chart.
pub fn is_alias(chart: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
    };
    chart
        .split_once('/')
        .is_some_and(|(repo, chart)| is_name(repo) && is_name(chart))
}

/// Whether a field names a chart in an OCI registry.
pub fn is_oci(text: &str) -> bool {
    text.get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"))
}

fn has_suffix(text: &str, suffix: &str) -> bool {
    text.len()
        .checked_sub(suffix.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_depend_on_the_form_of_the_source() {
        use SourceError::{ArchiveWithRepo, ArchiveWithVersion, NoChart, NoRepo, OciWithChart};
        for (repo, chart, version, errors) in [
            ("https://h", "c", "1.x", vec![]),
            ("oci://h/c", "", "", vec![]),
            ("OCI://h/c", "", "1.2.3", vec![]),
            ("", "https://h/c-1.2.3.tgz", "", vec![]),
            ("", "https://h/C.TGZ", "", vec![]),
            (
                "https://h",
                "https://h/c.tgz",
                "1",
                vec![ArchiveWithRepo, ArchiveWithVersion],
            ),
            ("", "https://h/c.tgz", "*", vec![ArchiveWithVersion]),
            ("Oci://h/c", "c", "", vec![OciWithChart]),
            ("https://h", "", "", vec![NoChart]),
            ("", "c", "", vec![NoRepo]),
            ("", "", "", vec![NoChart, NoRepo]),
        ] {
            assert_eq!(
                ChartSource::errors(repo, chart, version),
                errors,
                "{repo} {chart} {version}"
            );
        }
    }
}
