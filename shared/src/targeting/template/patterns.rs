//! The regular expressions of templates, compiled once for all clusters of a Bundle.

use std::{collections::HashMap, rc::Rc};

use regex::{Regex, RegexBuilder};

use super::budget::Meter;
use crate::policy::expression;

/// Longest pattern in bytes. What people write has less than 1 KB.
const MAX_PATTERN: usize = 16 * 1024;

/// Most memory of a compiled pattern, in bytes: enough for `[\pL\pN-]{1,63}`.
const MAX_COMPILED: usize = 4 << 20;

/// Most memory that a search keeps for the next one, in bytes.
const MAX_CACHE: usize = 256 << 10;

/// How many compiled patterns are kept, and how many items they may have together: some 30 MB in the worst case. With
/// more, all are compiled again.
const MAX_KEPT: usize = 32;
const MAX_KEPT_ITEMS: u32 = 10_000;

/// Units of work to compile a pattern at all, and each of its items after repetition.
const COMPILE: u64 = 50_000;
const COMPILE_ITEM: u64 = 10_000;
/// No pattern within [`MAX_COMPILED`] takes more than that to compile, or to be refused.
const MAX_COMPILE: u64 = 50_000_000;

/// Units of work for each byte of a text that is searched, and for each byte and item of the pattern.
const SEARCH: u64 = 8;
const SEARCH_ITEM: u64 = 1;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub regex: Rc<Regex>,
    items: u32,
}

impl Pattern {
    /// Counts one search of `bytes` bytes.
    pub fn search(&self, meter: &Meter, bytes: usize) -> Result<(), String> {
        meter.each(bytes + 16, SEARCH + SEARCH_ITEM * u64::from(self.items))
    }
}

/// Compiled patterns, and why others cannot be compiled.
#[derive(Debug, Default)]
pub struct Patterns {
    known: HashMap<Rc<str>, Result<Pattern, Rc<str>>>,
    items: u32,
}

/// Compiles a pattern, or finds it among those that were.
///
/// # Errors
/// The outer error says that a limit is exceeded, the inner one that the pattern is none.
pub fn compile(meter: &Meter, text: &Rc<str>) -> Result<Result<Pattern, Rc<str>>, String> {
    meter.each(text.len(), 1)?;
    let patterns = meter.budget().patterns();
    if let Some(known) = patterns.borrow().known.get(text) {
        return Ok(known.clone());
    }
    let (compiled, items) = compiled(meter, text)?;
    let mut patterns = patterns.borrow_mut();
    if patterns.known.len() >= MAX_KEPT || patterns.items.saturating_add(items) > MAX_KEPT_ITEMS {
        *patterns = Patterns::default();
    }
    patterns.items = patterns.items.saturating_add(items);
    patterns.known.insert(Rc::clone(text), compiled.clone());
    Ok(compiled)
}

fn compiled(meter: &Meter, text: &str) -> Result<(Result<Pattern, Rc<str>>, u32), String> {
    let refuse = |why: &str| Ok((Err(why.into()), 1));
    if text.len() > MAX_PATTERN {
        return refuse(&format!(
            "the pattern is longer than {MAX_PATTERN} bytes; use a shorter one"
        ));
    }
    meter.work(COMPILE)?;
    meter.each(text.len(), 4 * super::budget::BYTE)?;
    // Without the piece that is wrong: it may come from a value.
    let (rewritten, items) = match expression::rewrite_with_groups(text) {
        Ok(rewritten) => rewritten,
        Err(error) => return refuse(&error.what()),
    };
    meter.work((COMPILE_ITEM * u64::from(items)).min(MAX_COMPILE))?;
    let regex = RegexBuilder::new(&rewritten)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_CACHE)
        .build();
    match regex {
        Ok(regex) => {
            let regex = Rc::new(regex);
            Ok((Ok(Pattern { regex, items }), items))
        }
        Err(regex::Error::CompiledTooBig(_)) => refuse(&format!(
            "the pattern takes more than {MAX_COMPILED} bytes once it is compiled; use fewer or smaller repetitions"
        )),
        Err(_) => refuse("the pattern is not one that can be used"),
    }
}
