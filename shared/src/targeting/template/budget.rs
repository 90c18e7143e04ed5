//! What the templates of one Bundle may use on all its clusters, and what one rendering may make.
//!
//! Work is counted in units of about a nanosecond. Functions charge for what they read, not only for what they return: a
//! digest of a long text returns little. Processor time is the last limit, because the charges are estimates. It is that of
//! the thread alone, so that a Bundle does not fail for what others compute at the same time.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    time::Duration,
};

use thiserror::Error;

use super::patterns::Patterns;

/// How many bytes a text may have: more than the API server takes for a whole object.
pub const MAX_TEXT: usize = 2 << 20;

/// How many bytes of texts, lists and maps a rendering may make in all. Lists and maps live until its end.
pub const MAX_MADE: usize = 16 << 20;

/// Work of a step: a node of the template, a call, a comparison.
pub const STEP: u64 = 150;

/// Work for each byte that a function reads or writes. The slowest function for its input takes about that much.
pub const BYTE: u64 = 8;

/// Work between two looks at the clock: about a millisecond.
const CLOCK_INTERVAL: u64 = 1_000_000;

/// What the templates of a Bundle may use on all its clusters together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Units of work for the Bundle, however few clusters it goes to.
    pub work: u64,
    /// Units of work that each cluster adds.
    pub work_per_cluster: u64,
    /// Bytes of Helm values and options of all clusters: they are in memory at the same time.
    pub kept: usize,
    /// Bytes of Helm values and options that each cluster adds.
    pub kept_per_cluster: usize,
    /// Processor time, however few clusters there are.
    pub time: Duration,
    /// Processor time that each cluster adds.
    pub time_per_cluster: Duration,
}

impl Limits {
    /// The limits of the controller; see docs/standalone.md. Templates of 10 KB with 160 actions take some 3 million units
    /// and 1.5 ms on a cluster, so that 2,000 clusters fit.
    pub const fn within(time: Duration) -> Self {
        Self {
            work: 1_000_000_000,
            work_per_cluster: 3_000_000,
            kept: 64 << 20,
            kept_per_cluster: 16 << 10,
            time,
            time_per_cluster: Duration::from_millis(1),
        }
    }
}

/// The limit of a Bundle that was exceeded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Exceeded {
    /// Too much work.
    #[error(
        "the templates of this Bundle take more work than {limit} units on its clusters together; use shorter loops, texts and \
         patterns, or several Bundles"
    )]
    Work {
        /// Units of work that were allowed so far.
        limit: u64,
    },
    /// Too much processor time.
    #[error(
        "the values of this Bundle take more than {} ms of processor time for its clusters together; use shorter templates, or \
         several Bundles with fewer clusters each", limit.as_millis()
    )]
    Time {
        /// Processor time that was allowed so far.
        limit: Duration,
    },
    /// Too many values and options.
    #[error(
        "the values and options of this Bundle for its clusters, each counted once, have more than {limit} bytes together; use \
         smaller ones, valuesFrom, or several Bundles with fewer clusters each"
    )]
    Interner {
        /// Bytes that were allowed so far.
        limit: usize,
    },
}

/// The budget of one Bundle: clones share it.
#[derive(Clone)]
pub struct Budget(Rc<Shared>);

struct Shared {
    limits: Limits,
    clock: Box<dyn Fn() -> Duration>,
    clusters: Cell<u32>,
    work: Cell<u64>,
    unchecked: Cell<u64>,
    kept: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
    patterns: RefCell<Patterns>,
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

impl Budget {
    /// A budget that nothing of is used yet. `clock` gives the processor time since it began.
    pub fn new(limits: Limits, clock: impl Fn() -> Duration + 'static) -> Self {
        Self(Rc::new(Shared {
            limits,
            clock: Box::new(clock),
            clusters: Cell::new(0),
            work: Cell::new(0),
            unchecked: Cell::new(0),
            kept: Cell::new(0),
            exceeded: Cell::new(None),
            patterns: RefCell::default(),
        }))
    }

    /// A budget without a clock, for what is not of a tenant.
    pub fn without_clock() -> Self {
        Self::new(Limits::within(Duration::MAX), || Duration::ZERO)
    }

    /// Begins a cluster, which adds to what may be used.
    ///
    /// # Errors
    /// Where a limit was exceeded before, or the time is over.
    pub fn next_cluster(&self) -> Result<(), Exceeded> {
        if let Some(exceeded) = self.0.exceeded.get() {
            return Err(exceeded);
        }
        self.0.clusters.set(self.0.clusters.get().saturating_add(1));
        self.check_time()
    }

    /// The limit that was exceeded, if any.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.0.exceeded.get()
    }

    /// Units of work that were used.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.0.work.get()
    }

    /// Counts work before it is done.
    ///
    /// # Errors
    /// Where a limit is exceeded.
    pub fn charge(&self, units: u64) -> Result<(), Exceeded> {
        let used = self.0.work.get().saturating_add(units);
        self.0.work.set(used);
        let limits = &self.0.limits;
        let limit = (limits.work_per_cluster)
            .saturating_mul(self.0.clusters.get().into())
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

    /// Looks at the clock.
    pub(super) fn check_time(&self) -> Result<(), Exceeded> {
        self.0.unchecked.set(0);
        let limits = &self.0.limits;
        let more = limits.time_per_cluster.saturating_mul(self.0.clusters.get());
        let limit = limits.time.saturating_add(more);
        if (self.0.clock)() > limit {
            return self.exceed(Exceeded::Time { limit });
        }
        self.0.exceeded.get().map_or(Ok(()), Err)
    }

    /// Counts values and options that are kept until all clusters have theirs.
    ///
    /// # Errors
    /// Where those of all clusters together are too long.
    pub fn keep(&self, bytes: usize) -> Result<(), Exceeded> {
        let kept = self.0.kept.get().saturating_add(bytes);
        self.0.kept.set(kept);
        let clusters = usize::try_from(self.0.clusters.get()).unwrap_or(usize::MAX);
        let limits = &self.0.limits;
        let limit = (limits.kept_per_cluster)
            .saturating_mul(clusters)
            .saturating_add(limits.kept);
        if kept > limit {
            return self.exceed(Exceeded::Interner { limit });
        }
        Ok(())
    }

    /// The bytes of all values and options that are kept.
    pub fn kept(&self) -> usize {
        self.0.kept.get()
    }

    pub(super) fn patterns(&self) -> &RefCell<Patterns> {
        &self.0.patterns
    }

    fn exceed(&self, exceeded: Exceeded) -> Result<(), Exceeded> {
        // The first one is what matters; others follow from it.
        let first = self.0.exceeded.get().unwrap_or(exceeded);
        self.0.exceeded.set(Some(first));
        Err(first)
    }
}

/// What one rendering uses: work of the Bundle's budget, and memory of its own.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    made: Cell<usize>,
}

impl Meter {
    /// One that has made nothing yet.
    pub fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            made: Cell::new(0),
        }
    }

    /// The budget of the Bundle.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Counts units of work before they are done.
    pub fn work(&self, units: u64) -> Result<(), String> {
        self.budget.charge(units).map_err(|exceeded| exceeded.to_string())
    }

    /// Counts `count` things that take `each` units of work.
    pub fn each(&self, count: usize, each: u64) -> Result<(), String> {
        self.work(u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(each))
    }

    /// Counts bytes before they are made.
    pub fn make(&self, bytes: usize) -> Result<(), String> {
        self.room(bytes)?;
        self.made.set(self.made.get().saturating_add(bytes));
        Ok(())
    }

    /// Bytes that were made.
    pub const fn made(&self) -> usize {
        self.made.get()
    }

    /// Refuses bytes that there is no room for. Whoever makes them counts them.
    pub fn room(&self, bytes: usize) -> Result<(), String> {
        if self.made.get().saturating_add(bytes) > MAX_MADE {
            return Err(format!(
                "the template makes more than {MAX_MADE} bytes of texts, lists and maps; make fewer or shorter ones"
            ));
        }
        Ok(())
    }

    /// Refuses a text of `bytes` bytes before it is made, without counting it.
    pub fn text_room(&self, bytes: usize) -> Result<(), String> {
        if bytes > MAX_TEXT {
            return Err(format!("the text would be longer than {MAX_TEXT} bytes"));
        }
        self.room(bytes)
    }

    /// Looks at the clock, after something whose work is not known before.
    pub fn check_time(&self) -> Result<(), String> {
        self.budget.check_time().map_err(|exceeded| exceeded.to_string())
    }
}
