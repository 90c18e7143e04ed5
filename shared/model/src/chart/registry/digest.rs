//! Digests of manifests, such as `sha256:6c3c…`.

use std::fmt;

use thiserror::Error;

/// The algorithms that the OCI image specification registers, and the lengths of their digests, in hexadecimal digits.
///
/// Go's `digest` package, which Helm and Fleet use, knows these three and rejects all others.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A digest that is complete and well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest<'a>(&'a str);

/// Why a text is not a digest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DigestError {
    /// No algorithm, or an unknown one.
    #[error("digest {text:?} names no known algorithm; write sha256: and 64 hexadecimal digits after it")]
    Algorithm {
        /// The whole text.
        text: String,
    },
    /// Not the digits of the algorithm.
    #[error("digest {text:?} needs {digits} hexadecimal digits in lower case after {algorithm}:")]
    Digits {
        /// The whole text.
        text: String,
        /// The text before the colon.
        algorithm: &'static str,
        /// How many digits the algorithm has.
        digits: usize,
    },
}

/// The tag in the registry has another digest than the reference.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "chart reference digest mismatch: tag {tag} has {found}, but the reference requires {expected}; correct the digest in spec.helm.repo, or remove it to use the manifest of the tag"
)]
pub struct DigestMismatch {
    /// The tag that was looked up.
    pub tag: String,
    /// Its digest in the registry.
    pub found: String,
    /// The digest in the reference.
    pub expected: String,
}

impl<'a> Digest<'a> {
    /// Parses a digest.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Self, DigestError> {
        let (name, encoded) = text.split_once(':').unwrap_or_default();
        let Some((algorithm, digits)) = ALGORITHMS.into_iter().find(|(algorithm, _)| *algorithm == name)
        else {
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

    /// Checks that the manifest of `tag` has this digest: Helm's rule for a reference with a digest.
    ///
    /// `found` is the header `Docker-Content-Digest`, or the digest of the manifest by the algorithm of this digest.
    ///
    /// # Errors
    /// When it has another one.
    pub fn check(self, tag: &str, found: &str) -> Result<(), DigestMismatch> {
        if found == self.0 {
            return Ok(());
        }
        Err(DigestMismatch {
            tag: tag.to_owned(),
            found: found.to_owned(),
            expected: self.0.to_owned(),
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
    fn known_algorithms_with_their_lengths_are_accepted() {
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
    fn another_digest_is_reported() {
        let expected = format!("sha256:{}", "0".repeat(64));
        let found = format!("sha256:{}", "1".repeat(64));
        let digest = Digest::parse(&expected).unwrap();
        assert_eq!(digest.check("1.2.3", &expected), Ok(()));
        let message = digest.check("1.2.3", &found).unwrap_err().to_string();
        assert!(
            message.contains("tag 1.2.3") && message.contains(&found) && message.contains(&expected),
            "{message}"
        );
    }
}
