//! The regular expressions of templates, compiled once for all renderings with a budget.

use std::{collections::HashMap, rc::Rc};

use regex::Regex;

/// How many compiled patterns are cached, and how many items they may have together: about 30 MB in the worst case. Beyond
/// that, the cache is cleared.
const MAX_CACHED: usize = 32;
const MAX_CACHED_ITEMS: u32 = 10_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub regex: Rc<Regex>,
    /// Its items, after expansion of repetitions.
    pub items: u32,
}

/// A compiled pattern, or why it does not compile.
pub type CompiledPattern = Result<Pattern, Rc<str>>;

/// Compiled patterns, and the errors of patterns that do not compile.
#[derive(Debug, Default)]
pub struct PatternCache {
    entries: HashMap<Rc<str>, CompiledPattern>,
    items: u32,
}

impl PatternCache {
    pub fn get(&self, text: &str) -> Option<CompiledPattern> {
        self.entries.get(text).cloned()
    }

    /// Adds a pattern with this number of items; the error of a pattern counts too.
    pub fn insert(&mut self, text: &Rc<str>, compiled: CompiledPattern, items: u32) {
        if self.entries.len() >= MAX_CACHED || self.items.saturating_add(items) > MAX_CACHED_ITEMS {
            *self = Self::default();
        }
        self.items = self.items.saturating_add(items);
        self.entries.insert(Rc::clone(text), compiled);
    }
}
