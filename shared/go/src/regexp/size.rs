//! The size of an expression with its counts expanded.

use super::MAX_COUNT;

/// The size of an item that matches many non-ASCII characters, such as `\pL`: each byte of their encoding has branches of
/// its own.
pub const LARGE_SET: u32 = 50;

/// The sizes of the parsed items, by group.
#[derive(Default)]
pub struct Sizes {
    /// The groups that enclose the current one.
    outer: Vec<Group>,
    group: Group,
}

/// A group that is not closed yet: the items before the last one, and the last one, which may still be repeated.
#[derive(Clone, Copy, Default)]
struct Group {
    before: Size,
    last: Size,
}

#[derive(Clone, Copy, Default)]
struct Size {
    /// Number of items, where repeated items count as often as they are repeated.
    items: u32,
    /// The largest product of nested counts, as Go computes it.
    counts: u32,
}

impl Group {
    fn whole(self) -> Size {
        Size {
            items: self.before.items.saturating_add(self.last.items),
            counts: self.before.counts.max(self.last.counts),
        }
    }
}

impl Sizes {
    /// Adds an item of a size.
    pub fn item(&mut self, items: u32) {
        self.group.before = self.group.whole();
        self.group.last = Size { items, counts: 1 };
    }

    /// Starts a group.
    pub fn open(&mut self) {
        self.group.before = self.group.whole();
        self.group.last = Size::default();
        self.outer.push(std::mem::take(&mut self.group));
    }

    /// Ends a group, which becomes an item; `false` if no group is open.
    pub fn close(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else {
            return false;
        };
        let mut last = self.group.whole();
        last.items = last.items.saturating_add(1);
        last.counts = last.counts.max(1);
        self.group = Group { last, ..outer };
        true
    }

    /// Repeats the last item; `false` if that exceeds the maximum of Go. An item that is repeated zero times has the count 0.
    pub fn repeat(&mut self, max: u32) -> bool {
        let last = &mut self.group.last;
        last.items = last.items.saturating_mul(max.max(1));
        last.counts = last.counts.saturating_mul(max);
        max < 2 || last.counts <= MAX_COUNT
    }

    pub fn is_open(&self) -> bool {
        !self.outer.is_empty()
    }

    /// The number of all items.
    pub fn items(&self) -> u32 {
        self.outer
            .iter()
            .chain([&self.group])
            .fold(0, |items, group| items.saturating_add(group.whole().items))
    }
}
