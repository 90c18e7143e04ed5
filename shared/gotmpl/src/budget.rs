//! Limits on the work of all templates of one Bundle for all its clusters, and on the memory of one rendering.
//!
//! Work is counted in units of about a nanosecond. Functions charge for what they read, not only for what they return: the
//! digest of a long text is short. Processor time is the last limit, because the charges are estimates. Only the time of the
//! thread counts, so a Bundle does not fail because of other computations.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    time::Duration,
};

use thiserror::Error;

use super::patterns::PatternCache;

/// Maximum length of a text in bytes: more than the API server accepts for a whole object.
pub const MAX_TEXT: usize = 2 << 20;

/// Maximum bytes of all texts, lists and maps that a rendering creates. Lists and maps live until it ends.
pub const MAX_ALLOCATED: usize = 16 << 20;

/// Work of a step: a node of the template, a call, a comparison.
pub const STEP: u64 = 150;

/// Work for each byte that a function reads or writes. The slowest function takes about that much.
pub const BYTE: u64 = 8;

/// Work between two checks of the clock: about a millisecond.
const CLOCK_INTERVAL: u64 = 1_000_000;

/// The limits for the templates of a Bundle on all its clusters together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Units of work for the Bundle, independent of the number of clusters.
    pub work: u64,
    /// Units of work that each cluster adds.
    pub work_per_cluster: u64,
    /// Bytes of the Helm values and options of all clusters, which are in memory at the same time.
    pub retained: usize,
    /// Bytes of Helm values and options that each cluster adds.
    pub retained_per_cluster: usize,
    /// Processor time, independent of the number of clusters.
    pub time: Duration,
    /// Processor time that each cluster adds.
    pub time_per_cluster: Duration,
}

impl Limits {
    /// The limits of the controller; see docs/standalone.md. Templates of 10 KB with 160 actions take about 3 million units
    /// and 1.5 ms for a cluster, so 2,000 clusters fit.
    pub const fn within(time: Duration) -> Self {
        Self {
            work: 1_000_000_000,
            work_per_cluster: 3_000_000,
            retained: 64 << 20,
            retained_per_cluster: 16 << 10,
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
        /// The allowed units of work when it was exceeded.
        limit: u64,
    },
    /// Too much processor time.
    #[error(
        "the values of this Bundle take more than {} ms of processor time for its clusters together; use shorter templates, or \
         several Bundles with fewer clusters each", limit.as_millis()
    )]
    Time {
        /// The allowed processor time when it was exceeded.
        limit: Duration,
    },
    /// Too many bytes of values and options.
    #[error(
        "the values and options of this Bundle for its clusters, each counted once, have more than {limit} bytes together; use \
         smaller ones, valuesFrom, or several Bundles with fewer clusters each"
    )]
    Memory {
        /// The allowed bytes when it was exceeded.
        limit: usize,
    },
}

/// The budget of one Bundle: clones share it.
#[derive(Clone)]
pub struct Budget(Rc<State>);

struct State {
    limits: Limits,
    clock: Box<dyn Fn() -> Duration>,
    clusters: Cell<u32>,
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

impl Budget {
    /// An unused budget. `clock` returns the processor time since its start.
    pub fn new(limits: Limits, clock: impl Fn() -> Duration + 'static) -> Self {
        Self(Rc::new(State {
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

    /// A budget without a clock, for input that does not come from a tenant.
    pub fn without_clock() -> Self {
        Self::new(Limits::within(Duration::MAX), || Duration::ZERO)
    }

    /// Starts the next cluster, which raises the limits.
    ///
    /// # Errors
    /// If a limit was exceeded before, or the time is up.
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

    /// The units of work used.
    pub fn used(&self) -> u64 {
        self.0.work.get()
    }

    /// Charges for work before it is done.
    ///
    /// # Errors
    /// If a limit is exceeded.
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

    /// Checks the clock.
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

    /// Charges for values and options that stay in memory until all clusters have theirs.
    ///
    /// # Errors
    /// If those of all clusters together exceed the limit.
    pub fn retain(&self, bytes: usize) -> Result<(), Exceeded> {
        let kept = self.0.kept.get().saturating_add(bytes);
        self.0.kept.set(kept);
        let clusters = usize::try_from(self.0.clusters.get()).unwrap_or(usize::MAX);
        let limits = &self.0.limits;
        let limit = (limits.retained_per_cluster)
            .saturating_mul(clusters)
            .saturating_add(limits.retained);
        if kept > limit {
            return self.exceed(Exceeded::Memory { limit });
        }
        Ok(())
    }

    /// The bytes of all values and options that stay in memory.
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

/// Counts what one rendering uses: work from the Bundle's budget, and its own memory.
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

    /// The budget of the Bundle.
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
