//! The nodes with anchors, for aliases to repeat.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::super::collect::Collection;
use super::super::scalar::Style;

use super::IndexError;

/// How much of the nodes with anchors is kept, in bytes: enough for a few hundred entries.
const MAX_KEPT: usize = 1 << 20;

/// A node of the document, or the start or end of a collection.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Scalar(Cow<'static, str>, Style),
    Open(Collection),
    Close,
    Alias(usize),
}

impl Node {
    fn bytes(&self) -> usize {
        let text = match self {
            Self::Scalar(text, _) => text.len(),
            Self::Open(_) | Self::Close | Self::Alias(_) => 0,
        };
        size_of::<Self>() + text
    }
}

/// The nodes that have anchors, and those that are being repeated.
#[derive(Default)]
pub(super) struct Anchors {
    /// All nodes with an anchor and the nodes in them, in order.
    tape: Vec<Node>,
    /// The position of an anchor's node on the tape; without an end while the node is open.
    named: BTreeMap<usize, (usize, Option<usize>)>,
    /// The anchors whose nodes are open, and their depths.
    open: Vec<(usize, usize)>,
    depth: usize,
    kept: usize,
    /// Whether the limit was exceeded.
    has_overflowed: bool,
    repeating: Vec<Range<usize>>,
}

impl Anchors {
    /// Records the next node of the document; `anchor` is 0 if it has none.
    pub(super) fn record(&mut self, node: &Node, anchor: usize) {
        if self.has_overflowed || (anchor == 0 && self.open.is_empty()) {
            return;
        }
        if anchor != 0 {
            self.named.insert(anchor, (self.tape.len(), None));
            self.open.push((anchor, self.depth));
            self.kept += size_of::<(usize, (usize, Option<usize>))>();
        }
        self.kept += node.bytes();
        if self.kept > MAX_KEPT {
            // An error only if an alias is used later.
            *self = Self {
                has_overflowed: true,
                ..Self::default()
            };
            return;
        }
        self.tape.push(node.clone());
        match node {
            Node::Open(_) => self.depth += 1,
            Node::Close => self.depth -= 1,
            Node::Scalar(..) | Node::Alias(_) => {}
        }
        while let Some((anchor, _)) = self.open.pop_if(|(_, depth)| *depth == self.depth) {
            if let Some((_, end)) = self.named.get_mut(&anchor) {
                *end = Some(self.tape.len());
            }
        }
    }

    /// Starts to repeat the node of an anchor.
    pub(super) fn repeat(&mut self, anchor: usize) -> Result<(), IndexError> {
        match self.named.get(&anchor) {
            Some((start, Some(end))) => {
                self.repeating.push(*start..*end);
                Ok(())
            }
            Some((_, None)) => Err(IndexError::Malformed(
                "an alias refers to a node that contains it".to_owned(),
            )),
            None => Err(IndexError::TooManyAliases),
        }
    }

    /// The next node to repeat, if there is one.
    pub(super) fn repeated(&mut self) -> Option<Node> {
        while let Some(range) = self.repeating.last_mut() {
            if let Some(at) = range.next() {
                return self.tape.get(at).cloned();
            }
            self.repeating.pop();
        }
        None
    }
}
