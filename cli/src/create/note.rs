//! What the user has to know about a HelmOp that is to be created.

use std::{fmt, sync::Arc};

use clap::ValueEnum;
use helm_index::is_complete_version;
use helmops_api::HelmOptions;
use helmops_model::chart::request::{is_floating, is_polled};

use crate::terminal::table::one_line;

/// What to do about a HelmOp of an object that is suspended.
pub const SUSPENDED: &str =
    "the HelmOp is suspended too, and deploys nothing until it is resumed: kubectl helmop resume NAME";

/// Something that has no equivalent in a HelmOp, or another meaning there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object, such as `HelmRelease shop/web`.
    pub object: String,
    /// Its field, such as `spec.postRenderers`; empty for the whole object.
    pub path: String,
    /// Where it is.
    pub position: Option<Position>,
    /// What it means, and what to do.
    pub text: String,
    /// What is missing because of it.
    pub gap: Gap,
}

/// A position in a file. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The name of the file.
    pub file: Arc<str>,
    pub line: usize,
    pub column: usize,
}

/// What a HelmOp lacks, so that it would not do what the object does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Nothing.
    #[default]
    None,
    /// The repository of the chart, which a flag can name.
    Chart,
    /// The version of the chart, which a flag can name.
    Version,
    /// Both: the chart is none of a repository, or its source is not known.
    Unpublished,
    /// A text that the other tool replaces.
    Variable,
    /// Something that only another file has.
    Source,
    /// A name of its own.
    Name,
    /// A valid field.
    Valid,
    /// A field that changes what is deployed. The user can accept the loss.
    Field(Loss),
}

/// A field without an equivalent, whose loss the user can accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum Loss {
    /// The chart is rendered for the cluster
    ApiVersions,
    /// A chart that cluster or network need first is left to an agent that needs both
    Bootstrap,
    /// The cluster is that of the flags
    Destination,
    /// Values that are the content of a file are not set
    FileParameters,
    /// Fields of an expression or of a manager are corrected
    IgnoreDifferences,
    /// The clusters are those of the flags
    KubeConfig,
    /// The chart is rendered for the version of the cluster
    KubeVersion,
    /// The layer of the artifact is that which Helm pulls
    LayerSelector,
    /// Templates get the namespace of the objects
    Namespace,
    /// Values of the revision before are not kept
    PreserveValues,
    /// Other sources than the chart are not deployed
    Sources,
    /// Versions are selected although the source is suspended
    Suspend,
    /// Values that a Secret overrides, in place of the other way round
    ValuesSecrets,
    /// Values files outside of the chart are not used
    ValuesFiles,
    /// Signatures are not verified
    Verify,
}

impl Loss {
    /// Its name, as in the flag.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Gap {
    /// Whether the chart has what was missing: flags may have named it.
    pub fn is_filled(self, helm: &HelmOptions) -> bool {
        let has_chart = !helm.repo.is_empty() || helm.chart.contains("://");
        // A variable of Flux is none.
        let has_version = !helm.version.is_empty() && !helm.version.contains("${");
        let is_floating = || is_floating(&helm.repo, &helm.chart, &helm.version);
        match self {
            Self::Chart => has_chart,
            Self::Version => has_version,
            Self::Unpublished => has_chart && (has_version || !is_floating()),
            Self::Field(Loss::Suspend) => !is_followed(helm),
            _ => false,
        }
    }

    /// Why an object is refused, in a few words.
    pub fn cause(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Chart => "no repository of the chart".to_owned(),
            Self::Version => "no version of the chart".to_owned(),
            Self::Unpublished => "neither repository nor version of the chart".to_owned(),
            Self::Variable => "variables".to_owned(),
            Self::Source => "an object that is unusable".to_owned(),
            Self::Name => "several of one name".to_owned(),
            Self::Valid => "invalid fields".to_owned(),
            Self::Field(loss) => loss.name(),
        }
    }
}

/// Whether a later version or digest is deployed, as by the tools that HelmOps are converted from. Unlike [`is_polled`], `v1.2.3` is one
/// version: these tools take it by its text. So does a HelmOp, which would be polled for `1.2.3` and its builds only as long as there is no
/// `v1.2.3`.
pub fn is_followed(helm: &HelmOptions) -> bool {
    let version = match helm.version.strip_prefix('v') {
        Some(version) if is_complete_version(version) => version,
        _ => &helm.version,
    };
    is_polled((&helm.repo, &helm.chart, version), None)
}

impl Note {
    /// Whether a HelmOp with this note must not be created.
    pub fn is_refusal(&self, accepted: &[Loss]) -> bool {
        match self.gap {
            Gap::None => false,
            Gap::Field(loss) => !accepted.contains(&loss),
            _ => true,
        }
    }

    /// The note in a line, if it is the first of several with the same text. Nothing in it controls a terminal, or ends a comment.
    pub fn line(&self, others: usize) -> String {
        let mut parts = Vec::new();
        if let Some(position) = &self.position {
            parts.push(position.to_string());
        }
        if !self.object.is_empty() {
            parts.push(match others {
                0 => self.object.clone(),
                others => format!("{} and {others} more", self.object),
            });
        }
        if !self.path.is_empty() {
            parts.push(self.path.clone());
        }
        parts.push(self.text.clone());
        one_line(&parts.join(": "))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(0))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(gap: Gap) -> Note {
        Note {
            object: "HelmRelease shop/web".to_owned(),
            path: "spec.chart".to_owned(),
            position: None,
            text: "text".to_owned(),
            gap,
        }
    }

    #[test]
    fn a_gap_is_there_until_the_user_has_filled_it() {
        let helm = |repo: &str, version: &str| HelmOptions {
            repo: repo.to_owned(),
            version: version.to_owned(),
            ..HelmOptions::default()
        };
        for (gap, repo, version, expected) in [
            (Gap::None, "", "", false),
            (Gap::Chart, "", "1.2.3", false),
            (Gap::Chart, "https://h", "", true),
            (Gap::Version, "https://h", "", false),
            (Gap::Version, "https://h", "${VERSION}", false),
            (Gap::Version, "", "1.2.3", true),
            (Gap::Unpublished, "https://h", "", false),
            (Gap::Unpublished, "", "1.2.3", false),
            (Gap::Unpublished, "https://h", "*", true),
            (Gap::Unpublished, "oci://h/web:1.2.3", "", true),
            (Gap::Field(Loss::Suspend), "https://h", "1.x", false),
            (Gap::Field(Loss::Suspend), "https://h", "1.2.3", true),
            (Gap::Field(Loss::Suspend), "https://h", "v1.2.3", true),
            (Gap::Field(Loss::Suspend), "https://h", "v1.2", false),
            (Gap::Field(Loss::Suspend), "oci://h/web:latest", "", false),
            (Gap::Source, "https://h", "1.2.3", false),
            (Gap::Field(Loss::Verify), "https://h", "1.2.3", false),
        ] {
            let found = gap.is_filled(&helm(repo, version));
            assert_eq!(found, expected, "{gap:?} {repo} {version}");
        }
        let accepted = [Loss::Verify];
        for (gap, expected) in [
            (Gap::None, false),
            (Gap::Chart, true),
            (Gap::Field(Loss::Verify), false),
            (Gap::Field(Loss::KubeConfig), true),
        ] {
            assert_eq!(note(gap).is_refusal(&accepted), expected, "{gap:?}");
        }
    }

    #[test]
    fn losses_have_the_names_of_their_fields() {
        let names: Vec<_> = Loss::value_variants().iter().map(|loss| loss.name()).collect();
        assert!(names.contains(&"preserveValues".to_owned()), "{names:?}");
        assert!(names.contains(&"kubeConfig".to_owned()), "{names:?}");
    }

    #[test]
    fn a_note_starts_with_its_position() {
        let position = Some(Position {
            file: "a.yaml".into(),
            line: 3,
            column: 5,
        });
        let note = Note {
            position,
            ..note(Gap::None)
        };
        assert_eq!(
            note.to_string(),
            "a.yaml:3:5: HelmRelease shop/web: spec.chart: text"
        );
        assert_eq!(
            note.line(2),
            "a.yaml:3:5: HelmRelease shop/web and 2 more: spec.chart: text"
        );
        let note = Note {
            path: "a\u{1b}[31m\u{85}b\u{2028}c".to_owned(),
            ..note
        };
        assert_eq!(note.to_string(), "a.yaml:3:5: HelmRelease shop/web: abc: text");
    }
}
