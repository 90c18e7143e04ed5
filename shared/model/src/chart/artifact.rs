//! A chart, or manifests, in an artifact of a registry, such as `flux push artifact` writes it.

use std::fmt;

use bounded_text::cut;
use helm_index::{VersionRequest, tags};
use helmops_chart::{ChartPath, Strategy};
use thiserror::Error;

use super::{
    registry::{
        digest::Digest,
        reference::{Reference, ReferenceError},
    },
    url::redacted,
};

/// What the name of an artifact in records, Bundles and Policies starts with.
pub const ARTIFACT_PREFIX: &str = "artifact+";
/// The tag that counts if none is named, as in Flux.
const LATEST: &str = "latest";
/// The longest text in a message, in bytes.
const MAX_SHOWN: usize = 100;

/// The fields that name an artifact, each empty if it is not set. Of several references the first of this order counts, as in Flux: digest,
/// semver, tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArtifactFields<'a> {
    /// The repository in the registry.
    pub url: &'a str,
    /// The digest of a manifest.
    pub digest: &'a str,
    /// A range of versions.
    pub semver: &'a str,
    /// A tag.
    pub tag: &'a str,
    /// The folder in the artifact.
    pub path: &'a str,
}

/// Which artifact of a repository is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactReference {
    /// That of a tag.
    Tag(String),
    /// That of the tag with the highest version in this range.
    Range(String),
    /// The one whose manifest has this digest.
    Digest(String),
}

/// A chart, or manifests, in a folder of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactChart {
    /// The repository in the registry: `oci://`, its host and its name.
    pub repo: String,
    /// Which artifact of it is meant.
    pub reference: ArtifactReference,
    /// The folder in the artifact.
    pub path: ChartPath,
    /// What is packed, and which version it has.
    pub strategy: Strategy,
    /// Whether requests are sent without TLS.
    pub insecure: bool,
}

/// Why a field names no artifact.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field} {text:?}: {problem}")]
pub struct ArtifactFieldError {
    /// The field, below that of the artifact.
    pub field: &'static str,
    /// Its text, cut.
    pub text: String,
    /// What is wrong with it, and the fix.
    pub problem: String,
}

impl ArtifactChart {
    /// Reads the fields. References that do not count are not checked.
    ///
    /// # Errors
    /// All fields that are wrong.
    pub fn parse(
        fields: ArtifactFields<'_>,
        strategy: Strategy,
        insecure: bool,
    ) -> Result<Self, Vec<ArtifactFieldError>> {
        let mut errors = Vec::new();
        let repo = repository(fields.url).map_err(|error| errors.push(error));
        let reference = ArtifactReference::parse(fields).map_err(|error| errors.push(error));
        let path = ChartPath::parse(fields.path)
            .map_err(|error| errors.push(field_error("path", fields.path, error.to_string())));
        match (repo, reference, path) {
            (Ok(repo), Ok(reference), Ok(path)) => Ok(Self {
                repo,
                reference,
                path,
                strategy,
                insecure,
            }),
            _ => Err(errors),
        }
    }

    /// The repository, as records have it.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{ARTIFACT_PREFIX}{}", self.repo)
    }

    /// What is requested of the repository, besides the folder: the reference, and what is released unless that is each change of a chart.
    #[must_use]
    pub fn requested(&self) -> String {
        match self.strategy {
            Strategy::Revision => self.reference.to_string(),
            Strategy::ChartVersion | Strategy::Manifests => {
                format!("{}, {}", self.reference, self.strategy.as_str())
            }
        }
    }

    /// Whether another artifact can be meant later.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        !matches!(self.reference, ArtifactReference::Digest(_))
    }
}

impl ArtifactReference {
    fn parse(fields: ArtifactFields<'_>) -> Result<Self, ArtifactFieldError> {
        let ArtifactFields {
            digest, semver, tag, ..
        } = fields;
        if !digest.is_empty() {
            return match Digest::parse(digest) {
                Ok(_) => Ok(Self::Digest(digest.to_owned())),
                Err(error) => Err(field_error("ref.digest", digest, error.to_string())),
            };
        }
        if !semver.is_empty() {
            return match VersionRequest::parse(semver) {
                Ok(_) => Ok(Self::Range(semver.to_owned())),
                Err(error) => Err(field_error("ref.semver", semver, error.to_string())),
            };
        }
        if tag.is_empty() {
            return Ok(Self::Tag(LATEST.to_owned()));
        }
        if tags::is_tag(tag) {
            return Ok(Self::Tag(tag.to_owned()));
        }
        let problem =
            "is not a tag; a tag consists of at most 128 letters, digits, underscores, dots and hyphens";
        Err(field_error("ref.tag", tag, problem.to_owned()))
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Range(range) => write!(f, "semver {range}"),
            Self::Digest(digest) => write!(f, "digest {digest}"),
        }
    }
}

/// The repository in the registry, without a tag and a digest.
fn repository(url: &str) -> Result<String, ArtifactFieldError> {
    let invalid = |problem: String| field_error("url", url, problem);
    if url.is_empty() {
        return Err(invalid(
            "write the repository of the artifact in the registry, such as oci://registry.example.com/team/web".to_owned(),
        ));
    }
    let reference = Reference::parse(url).map_err(|error| match error {
        ReferenceError::Credentials => field_error(
            "url",
            &redacted(url),
            "a reference to a registry cannot contain credentials; put them into a Secret, and name it in secretRef".to_owned(),
        ),
        ReferenceError::Tag { .. } | ReferenceError::Digest(_) => invalid(IN_REF.to_owned()),
        other => invalid(other.to_string()),
    })?;
    if reference.tag.is_some() || reference.digest.is_some() {
        return Err(invalid(IN_REF.to_owned()));
    }
    Ok(reference.to_string())
}

const IN_REF: &str = "ends with a tag or a digest; write it in ref.tag, ref.semver or ref.digest";

fn field_error(field: &'static str, text: &str, problem: String) -> ArtifactFieldError {
    ArtifactFieldError {
        field,
        text: cut(text.to_owned(), MAX_SHOWN),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parse(fields: ArtifactFields<'_>) -> Result<ArtifactChart, Vec<ArtifactFieldError>> {
        ArtifactChart::parse(fields, Strategy::default(), false)
    }

    #[test]
    fn the_first_reference_counts() {
        let fields = ArtifactFields {
            url: "OCI://h:5000/team/web",
            ..ArtifactFields::default()
        };
        for (tag, semver, digest, requested, is_moving) in [
            ("", "", "", "tag latest", true),
            ("main", "", "", "tag main", true),
            ("a b", "1.x", "", "semver 1.x", true),
            ("a b", "x y", DIGEST, &*format!("digest {DIGEST}"), false),
        ] {
            let chart = parse(ArtifactFields {
                digest,
                semver,
                tag,
                ..fields
            });
            let chart = chart.unwrap();
            assert_eq!((&*chart.requested(), chart.is_moving()), (requested, is_moving));
            assert_eq!(chart.identity(), "artifact+oci://h:5000/team/web");
        }
        let manifests = ArtifactChart::parse(fields, Strategy::Manifests, false).unwrap();
        assert_eq!(manifests.requested(), "tag latest, manifests");
    }

    #[test]
    fn each_wrong_field_is_named() {
        let valid = ArtifactFields {
            url: "oci://h/web",
            ..ArtifactFields::default()
        };
        let with_digest = format!("oci://h/web@{DIGEST}");
        for (fields, expected) in [
            (
                ArtifactFields { url: "", ..valid },
                "url \"\": write the repository",
            ),
            (
                ArtifactFields {
                    url: "https://h/web",
                    ..valid
                },
                "write oci://",
            ),
            (
                ArtifactFields {
                    url: "oci://h",
                    ..valid
                },
                "names a registry but no chart",
            ),
            (
                ArtifactFields {
                    url: "oci://h/web:1.0.0",
                    ..valid
                },
                "ref.tag",
            ),
            (
                ArtifactFields {
                    url: "oci://h/web:a b",
                    ..valid
                },
                "ref.tag",
            ),
            (
                ArtifactFields {
                    url: &with_digest,
                    ..valid
                },
                "ref.digest",
            ),
            (
                ArtifactFields {
                    url: "oci://u:geheim@h/web",
                    ..valid
                },
                "name it in secretRef",
            ),
            (
                ArtifactFields { tag: "a b", ..valid },
                "ref.tag \"a b\": is not a tag",
            ),
            (
                ArtifactFields {
                    semver: "x y",
                    ..valid
                },
                "ref.semver \"x y\"",
            ),
            (
                ArtifactFields {
                    digest: "sha256:0",
                    ..valid
                },
                "ref.digest \"sha256:0\"",
            ),
            (
                ArtifactFields {
                    path: "../web",
                    ..valid
                },
                "path \"../web\"",
            ),
        ] {
            let errors = parse(fields).unwrap_err();
            let text = errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ");
            assert!(errors.len() == 1 && text.contains(expected), "{text}");
            assert!(!text.contains("geheim"), "{text}");
        }
        let all = ArtifactFields {
            url: "",
            digest: "x",
            path: "/",
            ..valid
        };
        assert_eq!(parse(all).unwrap_err().len(), 3);
    }
}
