//! How large an expression is with its counts written out.

use super::MAX_COUNT;

/// What an item counts as that stands for many characters beyond ASCII, such as `\pL`: each byte of their encoding has
/// branches of its own.
pub const MANY: u32 = 50;

/// The sizes of what was read, by group.
#[derive(Default)]
pub struct Sizes {
    /// Groups around the one that is read.
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
    /// Items, those in repetitions as often as they are repeated.
    items: u32,
    /// The largest product of counts within counts, as Go computes it.
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
    /// Another item of a size.
    pub fn item(&mut self, items: u32) {
        self.group.before = self.group.whole();
        self.group.last = Size { items, counts: 1 };
    }

    /// The beginning of a group.
    pub fn open(&mut self) {
        self.group.before = self.group.whole();
        self.group.last = Size::default();
        self.outer.push(std::mem::take(&mut self.group));
    }

    /// The end of a group, which is an item then; `false` if there is none to end.
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

    /// Repeats the last item; `false` if that is more than Go takes. What is repeated zero times counts for nothing.
    pub fn repeat(&mut self, most: u32) -> bool {
        let last = &mut self.group.last;
        last.items = last.items.saturating_mul(most.max(1));
        last.counts = last.counts.saturating_mul(most);
        most < 2 || last.counts <= MAX_COUNT
    }

    pub fn is_open(&self) -> bool {
        !self.outer.is_empty()
    }

    /// All items.
    pub fn items(&self) -> u32 {
        self.outer
            .iter()
            .chain([&self.group])
            .fold(0, |items, group| items.saturating_add(group.whole().items))
    }
}
