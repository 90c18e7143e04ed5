//! What a chart consists of, by the hashes that Git has: whether a commit has changed it follows from its folders alone.

use std::{collections::BTreeMap, fmt};

use bounded_text::hex;
use ring::digest::{Context, SHA256};

use super::{ChartPath, error::ChartError, locate};
use crate::{ObjectId, Objects};

/// Between the hashes of folders in a text. No path has it.
const SEPARATOR: &str = "//";
/// Digits of a digest in a version.
const SHORT: usize = 12;

/// What a chart consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The hash of its folder.
    pub tree: ObjectId,
    /// The hashes of the folders that it includes by `file://`, by their paths in the repository.
    pub local: BTreeMap<ChartPath, ObjectId>,
}

impl Content {
    /// Whether a chart consists of the same in another commit with these folders.
    ///
    /// # Errors
    /// If its folder is not there any more, or cannot be read.
    pub fn is_same_in(
        &self,
        objects: &mut Objects,
        root: ObjectId,
        path: &ChartPath,
    ) -> Result<bool, ChartError> {
        if locate::folder(objects, root, path)? != self.tree {
            return Ok(false);
        }
        for (path, tree) in &self.local {
            // One that is missing is reported when the chart is read.
            if locate::find(objects, root, path)? != Ok(*tree) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads what [`fmt::Display`] writes; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let tree = ObjectId::from_hex(parts.next()?)?;
        let local = parts.map(|part| {
            let (tree, path) = part.split_once(':')?;
            Some((ChartPath::parse(path).ok()?, ObjectId::from_hex(tree)?))
        });
        Some(Self {
            tree,
            local: local.collect::<Option<_>>()?,
        })
    }

    /// A digest of all hashes, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut digest = Context::new(&SHA256);
        digest.update(format!("{}\n", self.tree).as_bytes());
        for (path, tree) in &self.local {
            // A path has no line break.
            digest.update(format!("{tree} {}\n", path.as_str()).as_bytes());
        }
        hex(digest.finish().as_ref())
    }

    /// The start of the digest, for a version.
    pub fn short_digest(&self) -> String {
        self.digest().chars().take(SHORT).collect()
    }
}

/// The hash of its folder, and those of the folders that it includes, each with a colon and its path, after two slashes.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tree)?;
        for (path, tree) in &self.local {
            write!(f, "{SEPARATOR}{tree}:{}", path.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> ObjectId {
        ObjectId::from_hex(&String::from(digit).repeat(40)).unwrap()
    }

    #[test]
    fn a_recorded_content_is_read_again() {
        let path = |text| ChartPath::parse(text).unwrap();
        let alone = Content {
            tree: id('a'),
            local: BTreeMap::new(),
        };
        assert_eq!(alone.to_string(), "a".repeat(40));
        let local = BTreeMap::from([(path("lib/b"), id('b')), (path("a b:c d"), id('c'))]);
        let with_others = Content {
            local,
            ..alone.clone()
        };
        for content in [alone.clone(), with_others] {
            assert_eq!(Content::parse(&content.to_string()), Some(content));
        }
        for other in ["", "x", "sha256:0", &format!("{}//{}", id('a'), id('b'))] {
            assert_eq!(Content::parse(other), None, "{other}");
        }
    }
}
