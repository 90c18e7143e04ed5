//! The token of a Receiver.

use std::fmt;

use ring::hmac;

/// The shortest token, in bytes: it must not be guessed, also not by trial against a recorded signature.
pub const MIN_TOKEN: usize = 16;

/// The secret that the caller and helmops share, as keys.
///
/// The only comparisons are those of [`hmac::verify`], which take the same time whatever differs. A text is compared with the token by
/// the digests of both, so its length does not show either.
#[derive(Clone)]
pub struct Token {
    sha256: hmac::Key,
    sha512: hmac::Key,
    sha1: hmac::Key,
    of_itself: hmac::Tag,
}

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
    /// For a sender that has nothing else.
    Sha1,
}

impl Token {
    /// The token with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let sha256 = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Self {
            of_itself: hmac::sign(&sha256, bytes),
            sha256,
            sha512: hmac::Key::new(hmac::HMAC_SHA512, bytes),
            sha1: hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, bytes),
        }
    }

    /// Whether a text is the token.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        hmac::verify(&self.sha256, text, self.of_itself.as_ref()).is_ok()
    }

    /// Whether a signature is that of the message.
    pub(super) fn has_signed(&self, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
        let key = match hash {
            Hash::Sha256 => &self.sha256,
            Hash::Sha512 => &self.sha512,
            Hash::Sha1 => &self.sha1,
        };
        hmac::verify(key, message, signature).is_ok()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
