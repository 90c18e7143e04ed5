//! What to request from a registry for a reference and a version field.
//!
//! By Helm's rule an exact version has one tag, so a request for its manifest is enough. Some registries count a list of all
//! tags as a download of each, so tags are listed only if necessary. A tag in the reference avoids the list for any version
//! field that allows it.
//!
//! What is rejected here does not work with Fleet either: its agents pass the reference and the version to Helm, which rejects a tag that
//! is another version.

use helm_index::{
    VersionRequest,
    tags::{self, TaggedVersion},
};
use masterminds_semver::Version;
use thiserror::Error;

use super::reference::Reference;

/// What to request from the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryQuery {
    /// The manifest of this tag, which the reference names. No other tag is accepted.
    Tag(TaggedVersion),
    /// The manifest of this tag; if the registry has none, all tags: `v1.2.3` or another build of `1.2.3` matches too.
    TagThenList(TaggedVersion),
    /// All tags, and then the manifest of the chosen one.
    List,
    /// The manifest of this tag, which the reference names and which is no version, such as `latest`. The version is that of the chart, and
    /// the version field must allow it.
    OtherTag(String),
    /// The manifest with the digest of the reference. The version is that of the chart.
    Digest,
}

/// Why a reference and a version field cannot be combined.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QueryError {
    /// The tag is a version that the version field does not allow.
    #[error(
        "chart reference and version mismatch: tag {tag:?} in the reference is not in version {version:?}; remove the tag, and name the version in spec.helm.version alone"
    )]
    Mismatch {
        /// The tag.
        tag: String,
        /// The version field.
        version: String,
    },
}

/// What to request for a reference and a version field.
///
/// # Errors
/// When the reference and the version field contradict each other.
pub fn query(reference: &Reference<'_>, request: &VersionRequest<'_>) -> Result<RegistryQuery, QueryError> {
    match reference.tag {
        Some(tag) => of_tag(tag, request),
        None if reference.digest.is_some() && request.text().is_empty() => Ok(RegistryQuery::Digest),
        None if request.is_exact() => Ok(exact(request.text())),
        None => Ok(RegistryQuery::List),
    }
}

fn of_tag(tag: &str, request: &VersionRequest<'_>) -> Result<RegistryQuery, QueryError> {
    let tag = tags::of_version(tag);
    match tags::version_of(&tag) {
        None => Ok(RegistryQuery::OtherTag(tag)),
        Some(version) if allows(request, &version) => Ok(RegistryQuery::Tag(TaggedVersion { tag, version })),
        Some(_) => Err(QueryError::Mismatch {
            tag,
            version: request.text().to_owned(),
        }),
    }
}

/// Whether a version field allows the version that a reference names.
pub fn allows(request: &VersionRequest<'_>, version: &str) -> bool {
    request.text().is_empty()
        || request.text() == version
        || Version::parse(version).is_ok_and(|version| request.constraint().matches(&version))
}

fn exact(version: &str) -> RegistryQuery {
    let tag = tags::of_version(version);
    if tags::is_tag(&tag) {
        let version = version.to_owned();
        RegistryQuery::TagThenList(TaggedVersion { tag, version })
    } else {
        // The version is longer than a tag can be; the list is needed to report the existing versions.
        RegistryQuery::List
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn query_for(reference: &str, version: &str) -> Result<RegistryQuery, QueryError> {
        let request = VersionRequest::parse(version).unwrap();
        query(&Reference::parse(reference).unwrap(), &request)
    }

    fn tagged(tag: &str, version: &str) -> TaggedVersion {
        TaggedVersion {
            tag: tag.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn tags_are_listed_only_if_one_manifest_is_not_enough() {
        let long = format!("1.2.3+{}", "b".repeat(128));
        for (reference, version, expected) in [
            ("oci://h/c", "", RegistryQuery::List),
            ("oci://h/c", "1.x", RegistryQuery::List),
            // Not exact: `1.2.3` and `v1.2.3` both match, and the latter is preferred if it exists.
            ("oci://h/c", "v1.2.3", RegistryQuery::List),
            (
                "oci://h/c",
                "1.2.3",
                RegistryQuery::TagThenList(tagged("1.2.3", "1.2.3")),
            ),
            (
                "oci://h/c",
                "1.2.3-rc.1+b",
                RegistryQuery::TagThenList(tagged("1.2.3-rc.1_b", "1.2.3-rc.1+b")),
            ),
            ("oci://h/c", &long, RegistryQuery::List),
            (
                "oci://h/c:1.2.3",
                "",
                RegistryQuery::Tag(tagged("1.2.3", "1.2.3")),
            ),
            (
                "oci://h/c:1.2.3",
                "1.2.3",
                RegistryQuery::Tag(tagged("1.2.3", "1.2.3")),
            ),
            (
                "oci://h/c:1.2.3",
                "1.x",
                RegistryQuery::Tag(tagged("1.2.3", "1.2.3")),
            ),
            (
                "oci://h/c:v1.2.3",
                "1.2.3",
                RegistryQuery::Tag(tagged("v1.2.3", "v1.2.3")),
            ),
            (
                "oci://h/c:1.2.3+b",
                "1.2.3+b",
                RegistryQuery::Tag(tagged("1.2.3_b", "1.2.3+b")),
            ),
            (
                "oci://h/c:1.2.3_b",
                "",
                RegistryQuery::Tag(tagged("1.2.3_b", "1.2.3+b")),
            ),
            // The tag names the pre-release, so no constraint has to allow it.
            (
                "oci://h/c:1.2.3-rc.1",
                "",
                RegistryQuery::Tag(tagged("1.2.3-rc.1", "1.2.3-rc.1")),
            ),
        ] {
            assert_eq!(
                query_for(reference, version),
                Ok(expected),
                "{reference} {version}"
            );
        }
    }

    #[test]
    fn contradictions_are_reported() {
        let message = |reference: &str, version: &str| query_for(reference, version).unwrap_err().to_string();
        for version in ["1.2.4", "2.x", ">=1.2.4"] {
            let message = message("oci://h/c:1.2.3", version);
            assert!(
                message.contains("mismatch: tag \"1.2.3\"") && message.contains(&format!("{version:?}")),
                "{message}"
            );
        }
        assert!(message("oci://h/c:1.2.3-rc.1", "1.x").contains("mismatch"));
    }

    #[test]
    fn a_tag_that_is_no_version_names_a_manifest() {
        for (tag, version) in [("latest", ""), ("latest", "1.x"), ("1.2", "1.2.3"), ("v1", "")] {
            let found = query_for(&format!("oci://h/c:{tag}"), version);
            assert_eq!(
                found,
                Ok(RegistryQuery::OtherTag(tag.to_owned())),
                "{tag} {version}"
            );
        }
        let reference = format!("oci://h/c:latest@{DIGEST}");
        assert_eq!(
            query_for(&reference, ""),
            Ok(RegistryQuery::OtherTag("latest".to_owned()))
        );
    }

    #[test]
    fn a_digest_is_enough() {
        let reference = format!("oci://h/c@{DIGEST}");
        assert_eq!(query_for(&reference, ""), Ok(RegistryQuery::Digest));
        assert_eq!(query_for(&reference, "1.x"), Ok(RegistryQuery::List));
        assert_eq!(
            query_for(&reference, "1.2.3"),
            Ok(RegistryQuery::TagThenList(tagged("1.2.3", "1.2.3")))
        );
        let reference = format!("oci://h/c:1.2.3@{DIGEST}");
        assert_eq!(
            query_for(&reference, ""),
            Ok(RegistryQuery::Tag(tagged("1.2.3", "1.2.3")))
        );
    }
}
