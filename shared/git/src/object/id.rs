//! Names of objects: the hash of their kind, size and content.

use std::fmt;

use bounded_text::hex;
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use super::ObjectKind;

/// The hash that a repository names its objects by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectFormat {
    /// SHA-1, 40 hexadecimal digits.
    #[default]
    Sha1,
    /// SHA-256, 64 hexadecimal digits.
    Sha256,
}

/// The longest hash, in bytes.
const MAX_LEN: usize = 32;

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    format: ObjectFormat,
    bytes: [u8; MAX_LEN],
}

/// Computes the name of an object from its parts.
pub struct Hasher {
    format: ObjectFormat,
    context: Context,
}

impl ObjectFormat {
    /// Length of a hash, in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no hash is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => MAX_LEN,
        }
    }

    /// Its name in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// The format of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sha1, Self::Sha256]
            .into_iter()
            .find(|format| format.as_str() == text)
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
        }
    }

    /// The hash of some bytes, such as those of a pack.
    pub fn digest(self, bytes: &[u8]) -> ObjectId {
        let digest = ring::digest::digest(self.algorithm(), bytes);
        ObjectId::padded(self, digest.as_ref())
    }
}

impl ObjectId {
    /// The name in these bytes, whose number has to be that of the format.
    pub fn from_bytes(format: ObjectFormat, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == format.len()).then(|| Self::padded(format, bytes))
    }

    /// The name in these hexadecimal digits, in lower case; their number says which format it is.
    pub fn from_hex(text: &str) -> Option<Self> {
        let format = [ObjectFormat::Sha1, ObjectFormat::Sha256]
            .into_iter()
            .find(|format| text.len() == 2 * format.len())?;
        let (pairs, _) = text.as_bytes().as_chunks::<2>();
        let mut id = Self::padded(format, &[]);
        for (to, [high, low]) in id.bytes.iter_mut().zip(pairs) {
            *to = digit(*high)? << 4 | digit(*low)?;
        }
        Some(id)
    }

    fn padded(format: ObjectFormat, bytes: &[u8]) -> Self {
        let mut padded = [0; MAX_LEN];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self {
            format,
            bytes: padded,
        }
    }

    /// The hash that it is of.
    pub const fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.format.len()).0
    }

    /// The name of an object with this content.
    pub fn of(format: ObjectFormat, kind: ObjectKind, content: &[u8]) -> Self {
        let mut hasher = Hasher::new(format, kind, content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.as_bytes()))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Hasher {
    /// For an object of this kind and size.
    pub fn new(format: ObjectFormat, kind: ObjectKind, size: u64) -> Self {
        let mut context = Context::new(format.algorithm());
        context.update(format!("{} {size}\0", kind.as_str()).as_bytes());
        Self { format, context }
    }

    /// The next part of its content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    /// The name.
    pub fn finish(self) -> ObjectId {
        ObjectId::padded(self.format, self.context.finish().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `git hash-object` computes them.
    #[test]
    fn names_are_those_of_git() {
        for (format, content, expected) in [
            (ObjectFormat::Sha1, "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (
                ObjectFormat::Sha1,
                "hello\n",
                "ce013625030ba8dba906f756967f9e9ca394464a",
            ),
            (
                ObjectFormat::Sha256,
                "",
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ] {
            let id = ObjectId::of(format, ObjectKind::Blob, content.as_bytes());
            assert_eq!(id.to_string(), expected);
            assert_eq!(ObjectId::from_hex(expected), Some(id));
            assert_eq!(ObjectId::from_bytes(format, id.as_bytes()), Some(id));
        }
    }

    #[test]
    fn other_texts_are_no_names() {
        let name = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        for text in [
            "",
            "e69de29",
            &name.to_uppercase(),
            &name.replace('e', "g"),
            &name[1..],
        ] {
            assert_eq!(ObjectId::from_hex(text), None, "{text}");
        }
        assert_eq!(ObjectId::from_bytes(ObjectFormat::Sha1, &[0; 32]), None);
    }
}
