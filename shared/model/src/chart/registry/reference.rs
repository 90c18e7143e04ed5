//! References to charts in OCI registries, such as `oci://registry.example.com/charts/web`.
//!
//! The syntax is that of Helm, with two improvements: the scheme may be written in any case, and errors name the wrong part.
//!
//! A tag or a digest in the reference is **respected**, never ignored. Fleet ignores both when it resolves a version, but its
//! agents pass the reference to Helm, which refuses to install if the tag is not the version or the digest is not that of
//! the version's manifest. So a HelmOp with such a reference works with Fleet only if all of them agree, and this module
//! requires the same:
//!
//! - A tag pins the version. `spec.helm.version` may be empty, or must allow that version; see [`super::query`].
//! - A digest pins the manifest that the version's tag must have; see [`super::digest::Digest::check`].
//!
//! A tag that is no version and a digest without a version work with helmops only: the version is that of the chart.

use std::fmt;

use helm_index::tags;
use thiserror::Error;

use super::digest::{Digest, DigestError};
use crate::chart::url::{Url, UrlError};

/// The longest name of a repository, in bytes: registries built on `distribution` reject longer ones.
pub const MAX_REPOSITORY_LEN: usize = 255;

/// A chart in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference<'a> {
    /// Host name or address of the registry, and the port if one is given.
    pub registry: &'a str,
    /// Name of the repository in the registry, such as `charts/web`.
    pub repository: &'a str,
    /// The tag, as written. It may contain a `+`, which Helm replaces with `_`.
    pub tag: Option<&'a str>,
    /// The digest.
    pub digest: Option<Digest<'a>>,
}

/// Why a text is not a reference to a chart in a registry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReferenceError {
    /// Not a URL.
    #[error("{0}")]
    Url(UrlError),
    /// Another scheme.
    #[error("scheme {scheme:?} is not that of a registry; write oci://")]
    Scheme {
        /// The text before `://`.
        scheme: String,
    },
    /// User name or password before the host.
    #[error(
        "a reference to a registry cannot contain credentials; put them into a Secret and name it in spec.helmSecretName"
    )]
    Credentials,
    /// `?` or `#`.
    #[error("a reference to a registry ends before {mark:?}; remove it and what follows")]
    Extra {
        /// The first of them.
        mark: char,
    },
    /// A registry without a repository.
    #[error("names a registry but no chart; append it, as in oci://registry.example.com/charts/web")]
    NoRepository,
    /// The name of the repository is too long.
    #[error("the name of the repository is {len} bytes long; registries allow at most {MAX_REPOSITORY_LEN}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A part of the name is empty.
    #[error("the name of the repository {repository:?} has an empty part; remove the extra /")]
    EmptyPart {
        /// The whole name.
        repository: String,
    },
    /// A part of the name has capital letters.
    #[error(
        "{part:?} in the name of the repository has capital letters, which registries reject; write {:?}",
        part.to_ascii_lowercase()
    )]
    Capitals {
        /// The part.
        part: String,
    },
    /// A part of the name is not allowed by registries.
    #[error(
        "{part:?} is not allowed in the name of a repository; each part between slashes consists of the letters a-z and digits, separated by one dot, one or two underscores, or hyphens"
    )]
    Part {
        /// The part.
        part: String,
    },
    /// The text after the colon is not a tag.
    #[error(
        "{tag:?} is not a tag; a tag consists of at most 128 letters, digits, underscores, dots and hyphens; remove it, and name the version in spec.helm.version"
    )]
    Tag {
        /// The text after the colon.
        tag: String,
    },
    /// The text after the `@` is not a digest.
    #[error("{0}; or remove it, and name the version in spec.helm.version")]
    Digest(DigestError),
}

impl<'a> Reference<'a> {
    /// Parses a reference with its scheme. A colon or an `@` at the end is ignored.
    ///
    /// Nothing that it rejects can work with Fleet: it is also rejected by the library with which Fleet and Helm parse
    /// references, by Helm, by the HTTP client (a port beyond 65535) or by the registry (a name that is too long).
    ///
    /// # Errors
    /// Which part of the text is wrong.
    pub fn parse(text: &'a str) -> Result<Self, ReferenceError> {
        let url = Url::parse(text).map_err(ReferenceError::Url)?;
        if !url.has_scheme("oci") {
            return Err(ReferenceError::Scheme {
                scheme: url.scheme.to_owned(),
            });
        }
        if let Some(mark) = text.chars().find(|c| matches!(c, '?' | '#')) {
            return Err(ReferenceError::Extra { mark });
        }
        if url.userinfo.is_some() {
            return Err(ReferenceError::Credentials);
        }
        let path = url.path.strip_prefix('/').unwrap_or_default();
        let (path, digest) = split_off(path, '@');
        let (repository, tag) = split_off(path, ':');
        check_repository(repository)?;
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        Ok(Self {
            registry: url.host,
            repository,
            tag,
            digest: digest
                .map(Digest::parse)
                .transpose()
                .map_err(ReferenceError::Digest)?,
        })
    }
}

/// With its scheme in lower case, as Fleet's agents require it.
impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.registry, self.repository)?;
        if let Some(tag) = self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after).filter(|after| !after.is_empty())),
        None => (text, None),
    }
}

fn check_tag(tag: &str) -> Result<(), ReferenceError> {
    if tags::is_tag(&tags::of_version(tag)) {
        Ok(())
    } else {
        Err(ReferenceError::Tag { tag: tag.to_owned() })
    }
}

fn check_repository(name: &str) -> Result<(), ReferenceError> {
    if name.trim_matches('/').is_empty() {
        return Err(ReferenceError::NoRepository);
    }
    if name.len() > MAX_REPOSITORY_LEN {
        return Err(ReferenceError::TooLong { len: name.len() });
    }
    for part in name.split('/') {
        if part.is_empty() {
            return Err(ReferenceError::EmptyPart {
                repository: name.to_owned(),
            });
        }
        if !is_part(part) {
            let part = part.to_owned();
            return Err(if is_part(&part.to_ascii_lowercase()) {
                ReferenceError::Capitals { part }
            } else {
                ReferenceError::Part { part }
            });
        }
    }
    Ok(())
}

/// Whether this is a part of a repository's name, by the distribution specification:
/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_part(part: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut rest = part;
    loop {
        let after = rest.trim_start_matches(is_alphanumeric);
        if after.len() == rest.len() {
            return false;
        }
        if after.is_empty() {
            return true;
        }
        let next = after.find(is_alphanumeric).unwrap_or(after.len());
        let (separator, following) = after.split_at(next);
        if !matches!(separator, "." | "_" | "__") && separator.contains(|c| c != '-') {
            return false;
        }
        rest = following;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_reference_is_split_into_its_parts() {
        let with_digest = format!("oci://h/c@{DIGEST}");
        let with_both = format!("oci://[::1]:5000/a/b:1.2.3_b@{DIGEST}");
        let digest = Some(DIGEST);
        for (text, registry, repository, tag, digest) in [
            ("oci://h.example/c", "h.example", "c", None, None),
            (
                "OCI://H:5000/a/b.c/d__e/f--g",
                "H:5000",
                "a/b.c/d__e/f--g",
                None,
                None,
            ),
            ("Oci://h:5000/c:1.2.3", "h:5000", "c", Some("1.2.3"), None),
            ("oci://h/c:v1.2.3-rc.1+b", "h", "c", Some("v1.2.3-rc.1+b"), None),
            (&with_digest, "h", "c", None, digest),
            (&with_both, "[::1]:5000", "a/b", Some("1.2.3_b"), digest),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(
                (reference.registry, reference.repository, reference.tag),
                (registry, repository, tag),
                "{text}"
            );
            assert_eq!(reference.digest.map(Digest::as_str), digest, "{text}");
            let (_, rest) = text.split_once("://").unwrap();
            assert_eq!(reference.to_string(), format!("oci://{rest}"));
        }
        let bare = Reference::parse("oci://h/c").unwrap();
        for text in ["oci://h/c:", "oci://h/c@", "oci://h/c:@"] {
            assert_eq!(Reference::parse(text).unwrap(), bare, "{text}");
        }
    }

    #[test]
    fn errors_name_the_invalid_part() {
        let long = format!("oci://h/{}", "a".repeat(MAX_REPOSITORY_LEN + 1));
        let long_tag = format!("oci://h/c:{}", "1".repeat(129));
        for (text, expected) in [
            ("h/c", "not an absolute URL"),
            ("oci:///c", "names no host"),
            ("oci://h:port/c", "port"),
            ("https://h/c", "scheme \"https\""),
            ("oci://u:secret@h/c", "spec.helmSecretName"),
            ("oci://h/c?tag=1", "ends before '?'"),
            ("oci://h/c#f", "ends before '#'"),
            ("oci://h", "names a registry but no chart"),
            ("oci://h/", "names a registry but no chart"),
            ("oci://h//", "names a registry but no chart"),
            ("oci://h/:1.2.3", "names a registry but no chart"),
            ("oci://h/a/", "\"a/\" has an empty part"),
            ("oci://h//a", "\"/a\" has an empty part"),
            ("oci://h/a//b", "\"a//b\" has an empty part"),
            (
                "oci://h/a/Web",
                "\"Web\" in the name of the repository has capital letters, which registries reject; write \"web\"",
            ),
            ("oci://h/a/we b", "\"we b\" is not allowed"),
            ("oci://h/a_", "\"a_\" is not allowed"),
            ("oci://h/.a", "\".a\" is not allowed"),
            ("oci://h/a..b", "\"a..b\" is not allowed"),
            ("oci://h/a___b", "\"a___b\" is not allowed"),
            ("oci://h/a-_b", "\"a-_b\" is not allowed"),
            ("oci://h/a%2fb", "\"a%2fb\" is not allowed"),
            ("oci://h/ä", "\"ä\" is not allowed"),
            (&long, "256 bytes long"),
            ("oci://h/c:-1", "\"-1\" is not a tag"),
            ("oci://h/c:1/d", "\"1/d\" is not a tag"),
            ("oci://h/c:1:2", "\"1:2\" is not a tag"),
            (&long_tag, "is not a tag"),
            ("oci://h/c:1.2.3@sha256:12", "needs 64 hexadecimal digits"),
        ] {
            let message = Reference::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn a_name_of_maximum_length_is_accepted() {
        let text = format!("oci://h/{}", "a".repeat(MAX_REPOSITORY_LEN));
        assert!(Reference::parse(&text).is_ok());
    }
}
