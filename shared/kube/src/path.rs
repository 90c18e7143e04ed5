//! Names in the paths of requests.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All bytes that a path cannot contain, or that a server could take for a part of its syntax. Names of RBAC often have a colon.
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A name as a segment of a path. The client puts names into paths as they are, and some kinds, such as those of RBAC, accept nearly every
/// text as a name. Others come from users, who expect "not found" and no error about a URL.
pub fn path_segment(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, &ENCODED).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_segment() {
        for (name, expected) in [
            ("web-1.example.com", "web-1.example.com"),
            ("system:team_a~b", "system:team_a~b"),
            ("team one", "team%20one"),
            ("a/../b?c#d%20", "a%2F..%2Fb%3Fc%23d%2520"),
            ("ü\n", "%C3%BC%0A"),
            ("", ""),
        ] {
            assert_eq!(path_segment(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_name_that_needs_no_encoding_is_not_copied() {
        assert!(matches!(path_segment("web"), Cow::Borrowed("web")));
    }
}
