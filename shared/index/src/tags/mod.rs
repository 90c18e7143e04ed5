//! Tags and the versions that they represent.
//!
//! A tag cannot contain the `+` of build metadata, so Helm replaces it with `_` when it pushes a chart, and `_` with `+` when
//! it lists tags. Versions contain no `_`, so the mapping is unambiguous.
//!
//! A tag is a version if, with that replacement and without one leading `v`, it is a complete semantic version (three
//! numbers, no leading zeros). Helm's list excludes those with a `v`. Fleet's list includes them, and looser ones such as
//! `1.2` too, but its bundle controller deploys only complete versions. So `latest`, `1`, `1.2`, `01.2.3` and the tags of
//! signatures (`sha256-….sig`) are not versions here: chosen by Fleet, they lead to an error.

mod list;

pub use self::list::{MAX_LEN, MAX_VERSIONS, TagList, TagListError, Tagged};
use crate::is_complete_version;

/// The longest tag, in bytes, by the distribution specification.
pub const MAX_TAG_LEN: usize = 128;

/// A version and its tag in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaggedVersion {
    /// The tag, for requests to the registry.
    pub tag: String,
    /// The version, for selection and reports: the tag with `+` for `_`. A leading `v` is kept.
    pub version: String,
}

/// Whether a text has the form of a tag: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
pub fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MAX_TAG_LEN
        && text.bytes().next().is_some_and(is_word)
        && text
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// The tag of a version: `1.2.3_b` for `1.2.3+b`.
///
/// The result is a valid tag only if [`is_tag`] returns true; a version may be longer than a tag can be.
pub fn of_version(version: &str) -> String {
    version.replace('+', "_")
}

/// The version that a tag represents; `None` if it is not a version.
pub fn version_of(tag: &str) -> Option<String> {
    if !is_tag(tag) {
        return None;
    }
    let version = tag.replace('_', "+");
    is_complete_version(&version).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_semantic_versions_are_recognised_among_tags() {
        let tags = [
            "1.2.3",
            "v1.2.3",
            "1.2.3_b.1",
            "1.2.3-rc.1_b-2",
            "latest",
            "1",
            "1.2",
            "01.2.3",
            "vv1.2.3",
            "V1.2.3",
            "1.2.3_a_b",
            "1.2.3_",
            "_1.2.3",
            "1.2.3+b",
            "sha256-0123.sig",
            "",
        ];
        let found: Vec<_> = tags
            .into_iter()
            .filter_map(|tag| Some((tag, version_of(tag)?)))
            .collect();
        let expected = [
            ("1.2.3", "1.2.3"),
            ("v1.2.3", "v1.2.3"),
            ("1.2.3_b.1", "1.2.3+b.1"),
            ("1.2.3-rc.1_b-2", "1.2.3-rc.1+b-2"),
        ];
        assert_eq!(found, expected.map(|(tag, version)| (tag, version.to_owned())));
        for (tag, version) in found {
            assert_eq!(of_version(&version), tag);
        }
    }

    #[test]
    fn tags_have_the_form_of_the_specification() {
        let longest = "a".repeat(MAX_TAG_LEN);
        for tag in ["a", "_", "0", "a.-_Z", &longest] {
            assert!(is_tag(tag), "{tag}");
        }
        let too_long = "a".repeat(MAX_TAG_LEN + 1);
        for text in ["", ".a", "-a", "a+b", "a/b", "a b", "a\n", "ä", &too_long] {
            assert!(!is_tag(text), "{text}");
        }
    }
}
