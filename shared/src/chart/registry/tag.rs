//! Tags and the versions that they stand for.
//!
//! A tag cannot hold the `+` of build metadata, so Helm writes `_` for it when a chart is pushed, and reads `_` as `+` when
//! tags are listed. Versions hold no `_`, so nothing is lost.
//!
//! Which tags are versions: those that, so read and without one leading `v`, are complete semantic versions (three
//! numbers, no leading zeros). Helm's own list leaves out those with a `v`; Fleet's takes them, and looser ones such as
//! `1.2` too, but its bundle controller deploys a version only where it is complete. So `latest`, `1`, `1.2`, `01.2.3` and
//! the tags of signatures (`sha256-….sig`) are nobody's versions here: chosen by Fleet, they end in an error.

use crate::chart::version::Version;

/// The longest tag, in bytes: the distribution specification's.
pub const MAX_TAG_LEN: usize = 128;

/// A version and the tag that it has in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaggedVersion {
    /// The tag, to ask the registry for.
    pub tag: String,
    /// The version, to choose by and to report: the tag with `+` for `_`. A leading `v` stays.
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

/// The tag that a version has: what to ask for `1.2.3+b` is `1.2.3_b`.
///
/// The answer is a tag only if [`is_tag`] says so; a version may be longer than a tag can be.
pub fn of_version(version: &str) -> String {
    version.replace('+', "_")
}

/// The version that a tag stands for; `None` where it stands for none.
pub fn version_of(tag: &str) -> Option<String> {
    if !is_tag(tag) {
        return None;
    }
    let version = tag.replace('_', "+");
    let bare = version.strip_prefix('v').unwrap_or(&version);
    Version::parse_strict(bare).is_ok().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_among_tags() {
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
    fn the_form_of_tags() {
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
