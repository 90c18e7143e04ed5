//! What to ask a registry for, given a reference and a version field.
//!
//! An exact version has one tag by Helm's rule, so that one look at its manifest answers; a list of all tags, which some
//! registries count as a download of each, is only asked for where it must be. A tag in the reference does the same for
//! any version field that allows it.
//!
//! What is refused here never works with Fleet either: an empty version is no constraint to it, and its agents hand the
//! reference and the version to Helm, which refuses a tag that is not the version.

use thiserror::Error;

use super::{
    reference::Reference,
    tag::{self, TaggedVersion},
};
use crate::chart::{request::VersionRequest, version::Version};

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryQuery {
    /// The manifest of this tag, which the reference names. Nothing else will do.
    Tag(TaggedVersion),
    /// The manifest of this tag; where the registry has none, all tags: `v1.2.3` or another build of `1.2.3` will do too.
    TagThenList(TaggedVersion),
    /// All tags, and then the manifest of the one that is chosen.
    List,
}

/// Why a reference and a version field cannot go together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QueryError {
    /// The tag stands for no version, such as `latest`.
    #[error(
        "tag {tag:?} in the reference is not a version; remove it, and name the version in spec.helm.version (empty means the latest release)"
    )]
    NotAVersion {
        /// The tag.
        tag: String,
    },
    /// The tag stands for a version that the version field does not allow.
    #[error(
        "chart reference and version mismatch: tag {tag:?} in the reference is not in version {asked:?}; remove the tag, and name the version in spec.helm.version alone"
    )]
    Mismatch {
        /// The tag.
        tag: String,
        /// The version field.
        asked: String,
    },
    /// A digest, and nothing that says which version it is.
    #[error(
        "a digest in the reference does not say which version it is; name the version in spec.helm.version too, or remove the digest"
    )]
    DigestAlone,
}

/// What to ask for.
///
/// # Errors
/// Where the reference and the version field contradict each other.
pub fn ask(reference: &Reference<'_>, request: &VersionRequest<'_>) -> Result<RegistryQuery, QueryError> {
    match reference.tag {
        Some(tag) => pinned(tag, request).map(RegistryQuery::Tag),
        None if reference.digest.is_some() && request.text().is_empty() => Err(QueryError::DigestAlone),
        None if request.is_exact() => Ok(exact(request.text())),
        None => Ok(RegistryQuery::List),
    }
}

fn pinned(tag: &str, request: &VersionRequest<'_>) -> Result<TaggedVersion, QueryError> {
    let tag = tag::of_version(tag);
    let Some(version) = tag::version_of(&tag) else {
        return Err(QueryError::NotAVersion { tag });
    };
    let is_allowed = request.text().is_empty()
        || request.text() == version
        || Version::parse(&version).is_ok_and(|version| request.constraint().matches(&version));
    if !is_allowed {
        let asked = request.text().to_owned();
        return Err(QueryError::Mismatch { tag, asked });
    }
    Ok(TaggedVersion { tag, version })
}

fn exact(version: &str) -> RegistryQuery {
    let tag = tag::of_version(version);
    if tag::is_tag(&tag) {
        let version = version.to_owned();
        RegistryQuery::TagThenList(TaggedVersion { tag, version })
    } else {
        // No tag is so long; the list shows what there is instead.
        RegistryQuery::List
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn asked(reference: &str, version: &str) -> Result<RegistryQuery, QueryError> {
        let request = VersionRequest::parse(version).unwrap();
        ask(&Reference::parse(reference).unwrap(), &request)
    }

    fn tagged(tag: &str, version: &str) -> TaggedVersion {
        TaggedVersion {
            tag: tag.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn one_look_where_one_will_do() {
        let long = format!("1.2.3+{}", "b".repeat(128));
        for (reference, version, expected) in [
            ("oci://h/c", "", RegistryQuery::List),
            ("oci://h/c", "1.x", RegistryQuery::List),
            // Not exact: `1.2.3` and `v1.2.3` both match, and the latter is preferred if it is there.
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
            // The tag names it outright, so that no constraint need let pre-releases in.
            (
                "oci://h/c:1.2.3-rc.1",
                "",
                RegistryQuery::Tag(tagged("1.2.3-rc.1", "1.2.3-rc.1")),
            ),
        ] {
            assert_eq!(asked(reference, version), Ok(expected), "{reference} {version}");
        }
    }

    #[test]
    fn contradictions_are_told() {
        let told = |reference: &str, version: &str| asked(reference, version).unwrap_err().to_string();
        assert!(told("oci://h/c:latest", "").contains("tag \"latest\" in the reference is not a version"));
        assert!(told("oci://h/c:1.2", "1.2.3").contains("\"1.2\""));
        for version in ["1.2.4", "2.x", ">=1.2.4"] {
            let message = told("oci://h/c:1.2.3", version);
            assert!(
                message.contains("mismatch: tag \"1.2.3\"") && message.contains(&format!("{version:?}")),
                "{message}"
            );
        }
        assert!(told("oci://h/c:1.2.3-rc.1", "1.x").contains("mismatch"));
    }

    #[test]
    fn a_digest_needs_a_version() {
        let reference = format!("oci://h/c@{DIGEST}");
        assert_eq!(asked(&reference, ""), Err(QueryError::DigestAlone));
        assert_eq!(asked(&reference, "1.x"), Ok(RegistryQuery::List));
        assert_eq!(
            asked(&reference, "1.2.3"),
            Ok(RegistryQuery::TagThenList(tagged("1.2.3", "1.2.3")))
        );
        let reference = format!("oci://h/c:1.2.3@{DIGEST}");
        assert_eq!(
            asked(&reference, ""),
            Ok(RegistryQuery::Tag(tagged("1.2.3", "1.2.3")))
        );
    }
}
