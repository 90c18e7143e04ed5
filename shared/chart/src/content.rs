//! What a chart consists of, by the names that its folders have: whether it has changed follows from these alone.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    iter,
};

use bounded_text::hex;
use ring::digest::{Context, SHA256};

use crate::{ChartPath, FileTree, error::ChartError, locate};

/// Between the hashes of folders in a text. No path has it.
const SEPARATOR: &str = "//";

/// What a chart consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content<Id> {
    /// What names its folder.
    pub tree: Id,
    /// What names the folders that it includes by `file://`, by their paths.
    pub local: BTreeMap<ChartPath, Id>,
}

impl<Id: Copy + Eq> Content<Id> {
    /// Whether a chart consists of the same in other folders.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn is_same_in<T: FileTree<Id = Id>>(
        &self,
        files: &mut T,
        root: Id,
        path: &ChartPath,
    ) -> Result<bool, ChartError<T::Error>> {
        for (path, tree) in iter::once((path, &self.tree)).chain(&self.local) {
            // One that is missing is reported when the chart is read.
            if locate::find(files, root, path).map_err(ChartError::Tree)? != Ok(*tree) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads what [`Display`] writes, with what reads a name; `None` for any other text.
    pub fn parse(text: &str, name: impl Fn(&str) -> Option<Id>) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let tree = name(parts.next()?)?;
        let local = parts.map(|part| {
            let (tree, path) = part.split_once(':')?;
            Some((ChartPath::parse(path).ok()?, name(tree)?))
        });
        Some(Self {
            tree,
            local: local.collect::<Option<_>>()?,
        })
    }
}

impl<Id: Display> Content<Id> {
    /// A digest of all names, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let local = self
            .local
            .iter()
            .map(|(path, tree)| format!("{tree} {}", path.as_str()));
        digest_of(iter::once(self.tree.to_string()).chain(local))
    }
}

/// A digest of lines with names and paths, which have no line break, in hexadecimal digits.
pub(crate) fn digest_of(lines: impl Iterator<Item = String>) -> String {
    let mut digest = Context::new(&SHA256);
    for line in lines {
        digest.update(line.as_bytes());
        digest.update(b"\n");
    }
    hex(digest.finish().as_ref())
}

/// What names its folder, and the folders that it includes, each with a colon and its path, after two slashes.
impl<Id: Display> Display for Content<Id> {
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

    #[test]
    fn a_recorded_content_is_read_again() {
        let path = |text| ChartPath::parse(text).unwrap();
        let parse = |text: &str| Content::<u32>::parse(text, |name| name.parse().ok());
        let alone = Content {
            tree: 1,
            local: BTreeMap::new(),
        };
        assert_eq!(alone.to_string(), "1");
        let local = BTreeMap::from([(path("lib/b"), 2), (path("a b:c d"), 3)]);
        let with_others = Content {
            local,
            ..alone.clone()
        };
        for content in [alone.clone(), with_others] {
            assert_eq!(parse(&content.to_string()), Some(content));
        }
        for other in ["", "x", "sha256:0", "1//2"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
