//! The path of the URL of a Receiver.

use bounded_text::hex;
use ring::digest::{self, SHA256};

/// What the path of each Receiver begins with.
pub const PATH_PREFIX: &str = "/hook/";

/// Hexadecimal digits of the rest.
const DIGITS: usize = 64;

/// The last part of the path of a Receiver: a digest, so it cannot be guessed without the token, and shows nothing of it. Each part has
/// its length in front, so two Receivers never have the same text to digest.
pub fn path_digest(token: &[u8], namespace: &str, name: &str) -> String {
    let mut context = digest::Context::new(&SHA256);
    for part in [token, namespace.as_bytes(), name.as_bytes()] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}

/// The path with this digest, as in `status.webhookPath`.
pub fn webhook_path(digest: &str) -> String {
    format!("{PATH_PREFIX}{digest}")
}

/// The digest in a path, if it has the form of one.
pub fn digest_in(path: &str) -> Option<&str> {
    let digest = path.strip_prefix(PATH_PREFIX)?;
    let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    (digest.len() == DIGITS && digest.bytes().all(is_digit)).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_path_do_not_run_into_each_other() {
        let texts = [
            path_digest(b"token", "a", "bc"),
            path_digest(b"token", "ab", "c"),
            path_digest(b"tokena", "", "bc"),
            path_digest(b"token", "", "abc"),
            path_digest(b"token", "abc", ""),
        ];
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[index + 1..].contains(text), "{index}");
        }
    }

    #[test]
    fn a_path_has_64_lower_case_digits() {
        let digest = path_digest(b"token", "default", "harbor");
        let path = webhook_path(&digest);
        assert_eq!(digest_in(&path), Some(&*digest));
        for other in [
            "",
            "/hook/",
            "/hook",
            "/",
            &path.to_uppercase(),
            &format!("{path}/"),
            &format!("{path}0"),
            &format!("/{path}"),
            &path[..path.len() - 1],
        ] {
            assert_eq!(digest_in(other), None, "{other}");
        }
    }
}
