//! Compiles the regular expressions of templates.

use std::rc::Rc;

use go_formats::regexp;
use regex::RegexBuilder;

use super::{
    budget::Meter,
    pattern_cache::{CompiledPattern, Pattern},
};

/// Maximum length of a pattern in bytes. Practical patterns have less than 1 KB.
const MAX_PATTERN: usize = 16 * 1024;

/// Maximum memory of a compiled pattern in bytes: enough for `[\pL\pN-]{1,63}`.
const MAX_COMPILED: usize = 4 << 20;

/// Maximum memory that a search keeps for the next one, in bytes.
const MAX_SEARCH_CACHE: usize = 256 << 10;

/// Units of work to compile a pattern, and for each of its items after expansion of repetitions.
const COMPILE: u64 = 50_000;
const COMPILE_ITEM: u64 = 10_000;
/// No pattern within [`MAX_COMPILED`] takes more work than this to compile or to reject.
const MAX_COMPILE: u64 = 50_000_000;

/// Units of work for each byte of a text that is searched, and for each byte and item of the pattern.
const SEARCH: u64 = 8;
const SEARCH_ITEM: u64 = 1;

impl Pattern {
    /// Charges for one search in a text of `bytes` bytes.
    pub fn search(&self, meter: &Meter, bytes: usize) -> Result<(), String> {
        meter.charge_each(bytes + 16, SEARCH + SEARCH_ITEM * u64::from(self.items))
    }
}

/// Compiles a pattern, or returns it from the cache.
///
/// # Errors
/// The outer error is an exceeded limit, the inner one an invalid pattern.
pub fn compile(meter: &Meter, text: &Rc<str>) -> Result<CompiledPattern, String> {
    meter.charge_each(text.len(), 1)?;
    let cache = meter.budget().patterns();
    if let Some(known) = cache.borrow().get(text) {
        return Ok(known);
    }
    let (compiled, items) = compile_uncached(meter, text)?;
    cache.borrow_mut().insert(text, compiled.clone(), items);
    Ok(compiled)
}

fn compile_uncached(meter: &Meter, text: &str) -> Result<(CompiledPattern, u32), String> {
    let refuse = |why: &str| Ok((Err(why.into()), 1));
    if text.len() > MAX_PATTERN {
        return refuse(&format!(
            "the pattern is longer than {MAX_PATTERN} bytes; use a shorter one"
        ));
    }
    meter.charge(COMPILE)?;
    meter.charge_each(text.len(), 4 * super::budget::BYTE)?;
    // Without the offending piece, which may come from a value.
    let (rewritten, items) = match regexp::rewrite_with_groups(text) {
        Ok(rewritten) => rewritten,
        Err(error) => return refuse(&error.message()),
    };
    meter.charge((COMPILE_ITEM * u64::from(items)).min(MAX_COMPILE))?;
    let regex = RegexBuilder::new(&rewritten)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_SEARCH_CACHE)
        .build();
    match regex {
        Ok(regex) => {
            let regex = Rc::new(regex);
            Ok((Ok(Pattern { regex, items }), items))
        }
        Err(regex::Error::CompiledTooBig(_)) => refuse(&format!(
            "the compiled pattern has more than {MAX_COMPILED} bytes; use fewer or smaller repetitions"
        )),
        Err(_) => refuse("the pattern is not supported"),
    }
}
