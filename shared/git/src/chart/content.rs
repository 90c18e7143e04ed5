//! What a chart consists of, by the hashes that Git has: whether a commit has changed it follows from its folders alone.

use std::collections::BTreeMap;

use bounded_text::hex;
use ring::digest::{Context, SHA256};

use super::{ChartPath, error::ChartError, locate};
use crate::{ObjectId, Objects};

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
