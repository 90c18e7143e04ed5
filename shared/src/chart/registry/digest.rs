//! Digests of manifests, such as `sha256:6c3c…`.

use std::fmt;

use thiserror::Error;

/// The algorithms that the OCI image specification registers, and the length of what they give, in hexadecimal digits.
///
/// Go's `digest` package, which Helm and Fleet read digests with, knows these three and refuses all others.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A digest that is complete and well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest<'a>(&'a str);

/// Why a text is not a digest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DigestError {
    /// No algorithm in front, or one that nobody knows.
    #[error("digest {text:?} names no known algorithm; write sha256: and 64 hexadecimal digits behind it")]
    Algorithm {
        /// The whole text.
        text: String,
    },
    /// Not the digits that the algorithm gives.
    #[error("digest {text:?} needs {digits} hexadecimal digits in lower case behind {algorithm}:")]
    Digits {
        /// The whole text.
        text: String,
        /// What stands before the colon.
        algorithm: &'static str,
        /// How many digits there must be.
        digits: usize,
    },
}

/// The registry has something else under the tag than the reference wants.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "chart reference digest mismatch: tag {tag} has {found}, but the reference wants {wanted}; correct the digest in spec.helm.repo, or remove it from there to take what the tag has"
)]
pub struct DigestMismatch {
    /// The tag that was looked up.
    pub tag: String,
    /// What the registry has under it.
    pub found: String,
    /// What the reference names.
    pub wanted: String,
}

impl<'a> Digest<'a> {
    /// Reads a digest.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Self, DigestError> {
        let (name, encoded) = text.split_once(':').unwrap_or_default();
        let Some((algorithm, digits)) = ALGORITHMS.into_iter().find(|(known, _)| *known == name) else {
            return Err(DigestError::Algorithm {
                text: text.to_owned(),
            });
        };
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if encoded.len() != digits || !encoded.bytes().all(is_hex) {
            return Err(DigestError::Digits {
                text: text.to_owned(),
                algorithm,
                digits,
            });
        }
        Ok(Self(text))
    }

    /// The digest as written.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether the manifest that the registry has under `tag` is this one: Helm's rule for a reference with a digest.
    ///
    /// `found` is the header `Docker-Content-Digest`, or what the manifest itself gives under the algorithm of this
    /// digest.
    ///
    /// # Errors
    /// Where it is another.
    pub fn check(self, tag: &str, found: &str) -> Result<(), DigestMismatch> {
        if found == self.0 {
            return Ok(());
        }
        Err(DigestMismatch {
            tag: tag.to_owned(),
            found: found.to_owned(),
            wanted: self.0.to_owned(),
        })
    }
}

impl fmt::Display for Digest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let digits = "0123456789abcdef".repeat(8);
        for (algorithm, length) in ALGORITHMS {
            let text = format!("{algorithm}:{}", &digits[..length]);
            assert_eq!(Digest::parse(&text).unwrap().as_str(), text);
            for wrong in [
                format!("{text}0"),
                text[..text.len() - 1].to_owned(),
                text.replace('f', "F"),
                text.replace('f', "g"),
            ] {
                assert!(
                    matches!(Digest::parse(&wrong), Err(DigestError::Digits { .. })),
                    "{wrong}"
                );
            }
        }
        for wrong in ["", ":", "md5:00", "sha256", "SHA256:00", &digits[..64]] {
            assert!(
                matches!(Digest::parse(wrong), Err(DigestError::Algorithm { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn another_manifest_is_told() {
        let wanted = format!("sha256:{}", "0".repeat(64));
        let found = format!("sha256:{}", "1".repeat(64));
        let digest = Digest::parse(&wanted).unwrap();
        assert_eq!(digest.check("1.2.3", &wanted), Ok(()));
        let message = digest.check("1.2.3", &found).unwrap_err().to_string();
        assert!(
            message.contains("tag 1.2.3") && message.contains(&found) && message.contains(&wanted),
            "{message}"
        );
    }
}
