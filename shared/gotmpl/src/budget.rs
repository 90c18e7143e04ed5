//! Limits on the work of a batch of renderings, and on the memory of each of them.
//!
//! Functions charge for what they read, not only for what they return: the digest of a long text is short. Processor time is
//! the last limit, because the charges are estimates.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    time::Duration,
};

use go_formats::yaml;
use thiserror::Error;

use super::pattern_cache::PatternCache;

/// Maximum length of a text in bytes: of a template, of its output, and of each text in between.
pub const MAX_TEXT: usize = yaml::MAX_TEXT;

/// Maximum bytes of all texts, lists and maps that a rendering creates. Lists and maps live until it ends.
pub const MAX_ALLOCATED: usize = 16 << 20;

/// Work of a step: a node of the template, a call, a comparison.
pub const STEP: u64 = 150;

/// Work for each byte that a function reads or writes. The slowest function takes about that much.
pub const BYTE: u64 = 8;

/// Work between two checks of the clock: about a millisecond.
const CLOCK_INTERVAL: u64 = 1_000_000;

/// The limits of a batch: of all that is parsed, converted and rendered with one [`Budget`]. Each item of the batch, which
/// [`Budget::next_item`] starts, raises them.
///
/// A unit of work is about a nanosecond. A template of 10 KB with 160 actions takes about 3 million units and 1.5 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units of work, independent of the number of items.
    pub work: u64,
    /// Units of work that each item adds.
    pub work_per_item: u64,
    /// Bytes of results that stay in memory ([`Budget::retain`]), independent of the number of items.
    pub retained: usize,
    /// Bytes of results that each item adds.
    pub retained_per_item: usize,
    /// Processor time, independent of the number of items.
    pub time: Duration,
    /// Processor time that each item adds.
    pub time_per_item: Duration,
}

impl Default for Limits {
    /// A billion units of work and 64 MiB of results, and 3 million units and 16 KiB for each item; any time. They suffice for
    /// thousands of items, and stop a hostile template after about a second.
    fn default() -> Self {
        Self {
            work: 1_000_000_000,
            work_per_item: 3_000_000,
            retained: 64 << 20,
            retained_per_item: 16 << 10,
            time: Duration::MAX,
            time_per_item: Duration::ZERO,
        }
    }
}

/// The limit that a batch exceeded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Exceeded {
    /// Too much work.
    #[error(
        "the templates take more work than {limit} units together; use shorter loops, texts and patterns"
    )]
    Work {
        /// The allowed units of work when it was exceeded.
        limit: u64,
    },
    /// Too much processor time. It may suffice when the same is done again.
    #[error("the templates take more than {} ms of processor time together; use shorter ones", limit.as_millis())]
    Time {
        /// The allowed processor time when it was exceeded.
        limit: Duration,
    },
    /// Too many bytes of results that stay in memory.
    #[error("the results have more than {limit} bytes together; use shorter ones")]
    Memory {
        /// The allowed bytes when it was exceeded.
        limit: usize,
    },
}

/// What a batch of renderings may use, and has used. Clones share it.
///
/// Templates and data may come from users who do not trust each other: with a budget of their own, none of them can take the
/// processor or the memory from the others. The default has the default [`Limits`] and no clock, so that the result does not depend
/// on the machine.
///
/// ```
/// use gotmpl::{Budget, Context, Delimiters, Exceeded, Limits, Template, TemplateErrorKind};
///
/// let budget = Budget::new(Limits { work: 1_000_000, ..Limits::default() }, || std::time::Duration::ZERO);
/// let template = Template::parse("{{ range 1000000000 }}{{ end }}", Delimiters::GO, &budget).unwrap();
/// let error = template.render(&Context::default(), &budget).unwrap_err();
/// assert_eq!(error.kind, TemplateErrorKind::Exceeded(Exceeded::Work { limit: 1_000_000 }));
/// assert_eq!(error.to_string(), "at <1000000000>: the templates take more work than 1000000 units together; \
///     use shorter loops, texts and patterns");
/// ```
#[derive(Clone)]
pub struct Budget(Rc<State>);

struct State {
    limits: Limits,
    clock: Box<dyn Fn() -> Duration>,
    items: Cell<u32>,
    work: Cell<u64>,
    unchecked: Cell<u64>,
    kept: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
    patterns: RefCell<PatternCache>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limits", &self.0.limits)
            .field("work", &self.0.work)
            .field("exceeded", &self.0.exceeded)
            .finish_non_exhaustive()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default(), || Duration::ZERO)
    }
}

impl Budget {
    /// An unused budget.
    ///
    /// `clock` returns the processor time since its start. It is read about every millisecond. Best it returns the time of the
    /// thread, so that no template fails because of other computations.
    pub fn new(limits: Limits, clock: impl Fn() -> Duration + 'static) -> Self {
        Self(Rc::new(State {
            limits,
            clock: Box::new(clock),
            items: Cell::new(0),
            work: Cell::new(0),
            unchecked: Cell::new(0),
            kept: Cell::new(0),
            exceeded: Cell::new(None),
            patterns: RefCell::default(),
        }))
    }

    /// Starts the next item of the batch, such as the next recipient of the same text. It raises the limits.
    ///
    /// # Errors
    /// If a limit was exceeded before, or the time is up.
    pub fn next_item(&self) -> Result<(), Exceeded> {
        if let Some(exceeded) = self.0.exceeded.get() {
            return Err(exceeded);
        }
        self.0.items.set(self.0.items.get().saturating_add(1));
        self.check_time()
    }

    /// The first limit that was exceeded, if any.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.0.exceeded.get()
    }

    /// The units of work used.
    pub fn used(&self) -> u64 {
        self.0.work.get()
    }

    /// Charges for work before it is done: for what a program does besides rendering, such as decoding the output.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub fn charge(&self, units: u64) -> Result<(), Exceeded> {
        let used = self.0.work.get().saturating_add(units);
        self.0.work.set(used);
        let limits = &self.0.limits;
        let limit = (limits.work_per_item)
            .saturating_mul(self.0.items.get().into())
            .saturating_add(limits.work);
        if used > limit {
            return self.exceed(Exceeded::Work { limit });
        }
        let unchecked = self.0.unchecked.get().saturating_add(units);
        if unchecked >= CLOCK_INTERVAL {
            return self.check_time();
        }
        self.0.unchecked.set(unchecked);
        Ok(())
    }

    /// Checks the clock.
    pub(super) fn check_time(&self) -> Result<(), Exceeded> {
        self.0.unchecked.set(0);
        let limits = &self.0.limits;
        let more = limits.time_per_item.saturating_mul(self.0.items.get());
        let limit = limits.time.saturating_add(more);
        if (self.0.clock)() > limit {
            return self.exceed(Exceeded::Time { limit });
        }
        self.0.exceeded.get().map_or(Ok(()), Err)
    }

    /// Charges for a result that stays in memory until the end of the batch.
    ///
    /// # Errors
    /// If the results of all items together exceed the limit.
    pub fn retain(&self, bytes: usize) -> Result<(), Exceeded> {
        let kept = self.0.kept.get().saturating_add(bytes);
        self.0.kept.set(kept);
        let items = usize::try_from(self.0.items.get()).unwrap_or(usize::MAX);
        let limits = &self.0.limits;
        let limit = (limits.retained_per_item)
            .saturating_mul(items)
            .saturating_add(limits.retained);
        if kept > limit {
            return self.exceed(Exceeded::Memory { limit });
        }
        Ok(())
    }

    /// The bytes of all results that stay in memory.
    pub fn retained(&self) -> usize {
        self.0.kept.get()
    }

    pub(super) fn patterns(&self) -> &RefCell<PatternCache> {
        &self.0.patterns
    }

    fn exceed(&self, exceeded: Exceeded) -> Result<(), Exceeded> {
        // The first one is the cause; others follow from it.
        let first = self.0.exceeded.get().unwrap_or(exceeded);
        self.0.exceeded.set(Some(first));
        Err(first)
    }
}

/// Counts what one rendering uses: work from the budget of the batch, and its own memory.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    allocated: Cell<usize>,
}

impl Meter {
    /// A meter without any memory in use.
    pub fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            allocated: Cell::new(0),
        }
    }

    /// The budget of the batch.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Charges for work before it is done.
    pub fn charge(&self, units: u64) -> Result<(), String> {
        self.budget.charge(units).map_err(|exceeded| exceeded.to_string())
    }

    /// Charges `units` of work for each of `count` items.
    pub fn charge_each(&self, count: usize, units: u64) -> Result<(), String> {
        self.charge(u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(units))
    }

    /// Charges for memory before it is allocated.
    pub fn allocate(&self, bytes: usize) -> Result<(), String> {
        self.check_memory(bytes)?;
        self.allocated.set(self.allocated.get().saturating_add(bytes));
        Ok(())
    }

    /// The bytes that were charged.
    pub const fn allocated(&self) -> usize {
        self.allocated.get()
    }

    /// Fails if `bytes` more would exceed the limit. The caller charges for them when it allocates them.
    pub fn check_memory(&self, bytes: usize) -> Result<(), String> {
        if self.allocated.get().saturating_add(bytes) > MAX_ALLOCATED {
            return Err(format!(
                "the template creates more than {MAX_ALLOCATED} bytes of texts, lists and maps; create fewer or shorter ones"
            ));
        }
        Ok(())
    }

    /// Fails if a text of `bytes` bytes would be too long, before it is created and without charging for it.
    pub fn check_text(&self, bytes: usize) -> Result<(), String> {
        if bytes > MAX_TEXT {
            return Err(format!("the text would be longer than {MAX_TEXT} bytes"));
        }
        self.check_memory(bytes)
    }

    /// Checks the clock, after an operation whose work cannot be estimated.
    pub fn check_time(&self) -> Result<(), String> {
        self.budget.check_time().map_err(|exceeded| exceeded.to_string())
    }
}
