//! Whether it is the turn of a release to be removed: those that depend on it come first, if they are removed as well.
//!
//! ```text
//! BundleDeployment gone ─► dependents that are removed too, or exist ─► wait: looked at again, without a request
//!                                                                    └► its turn: none left, or waited for too long
//! ```
//!
//! Nothing is held and nothing is requested while a release waits, except until an Event is written: that is only if the BundleDeployment is
//! certainly deleted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Mutex,
    time::{Duration, Instant},
};

use bounded_text::listed;
use helmops_helm::request::DEFAULT_HOOK_TIMEOUT;
use helmops_kube::lease::Term;
use helmops_process::lock;
use helmops_release::{names::ReleaseKey, record::OnDeletePolicy};
use kube::Resource;

use super::is_deleted;
use crate::{context::Context, error::AgentError, owned::OwnedRelease, upstream::Deleted};

/// How often a wait is looked at.
pub const RECHECK: Duration = Duration::from_secs(1);
/// How long a release waits for the deletion of dependents that exist. BundleDeployments of HelmOps that are deleted together are deleted
/// in any order, and with thousands of clusters that takes a minute.
const GRACE: Duration = Duration::from_secs(90);
/// How many bytes of names a message has.
const MAX_NAMES: usize = 500;

/// What removals wait for.
#[derive(Debug, Default)]
pub struct RemovalWaits(Mutex<Waits>);

/// What removals wait for in a term of leadership: the clocks of an earlier one say nothing.
#[derive(Debug, Default)]
struct Waits {
    term: Option<Term>,
    for_dependents: HashMap<String, Wait>,
    for_objects: HashMap<String, Uninstalled>,
}

/// The wait of a BundleDeployment for those that depend on it.
#[derive(Clone, Debug)]
struct Wait {
    /// When its removal was seen first.
    first: Instant,
    /// Since when nothing has happened that it waits for.
    since: Instant,
    /// How many dependents that are removed were left then.
    left: usize,
    /// Whether it waits, or has waited for too long.
    waits: bool,
    /// The dependents that it does not wait for any more, as they are: one that exists may be removed later, and counts then.
    over: GivenUp,
    /// What is to be reported then.
    warning: Option<String>,
    /// When to report that it waits, if it is certainly deleted; `None` if that is done.
    report_at: Option<Instant>,
}

/// The dependents that were waited for for too long.
#[derive(Clone, Debug, Default)]
struct GivenUp {
    removed: BTreeSet<String>,
    existing: BTreeSet<String>,
}

/// What was uninstalled, as long as its objects are being deleted.
#[derive(Clone, Debug)]
pub struct Uninstalled {
    /// The releases that do not exist any more.
    pub gone: Vec<ReleaseKey>,
    /// Whether this agent has not deployed one of the others.
    pub has_refused: bool,
    since: Instant,
}

/// The BundleDeployments that depend on one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dependents<'d> {
    /// Those that are being removed.
    removed: Vec<&'d str>,
    /// The others.
    existing: Vec<&'d str>,
}

/// Whether a BundleDeployment is removed now.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// No dependent is left, or it has waited for too long.
    Now,
    /// Not yet; whether that is to be reported.
    Wait { to_report: bool },
}

impl Dependents<'_> {
    /// What is waited for.
    fn text(&self) -> String {
        let names = |names| listed(names, MAX_NAMES);
        if self.removed.is_empty() {
            return format!(
                "these BundleDeployments depend on it and are not deleted; it is uninstalled all the same after {}s at the latest: {}",
                GRACE.as_secs(),
                names(&self.existing)
            );
        }
        format!(
            "these BundleDeployments depend on it, and are uninstalled first: {}",
            names(&self.removed)
        )
    }
}

impl Wait {
    fn new(left: usize, now: Instant) -> Self {
        Self {
            first: now,
            since: now,
            left,
            waits: true,
            over: GivenUp::default(),
            warning: None,
            report_at: Some(now),
        }
    }

    /// Waits for these no more.
    fn give_up(&mut self, removed: &[&str], existing: &[&str], timeout: Duration) {
        let mut texts = Vec::new();
        if !removed.is_empty() {
            let (names, seconds) = (listed(removed, MAX_NAMES), timeout.as_secs());
            texts.push(format!(
                "it is uninstalled before these BundleDeployments, which depend on it and were not uninstalled within {seconds}s \
                 (lifecycle.uninstall.timeout): {names}"
            ));
        }
        if !existing.is_empty() {
            let names = listed(existing, MAX_NAMES);
            texts.push(format!(
                "it is uninstalled although these BundleDeployments depend on it and are not deleted: {names}"
            ));
        }
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        self.over.removed.extend(owned(removed));
        self.over.existing.extend(owned(existing));
        if !texts.is_empty() {
            self.warning = Some(texts.join("; "));
        }
    }
}

fn without<'d>(names: &[&'d str], over: &BTreeSet<String>) -> Vec<&'d str> {
    let left = names.iter().copied();
    left.filter(|name| !over.contains(*name)).collect()
}

impl Uninstalled {
    pub fn new(gone: Vec<ReleaseKey>, has_refused: bool) -> Self {
        let since = Instant::now();
        Self {
            gone,
            has_refused,
            since,
        }
    }
}

impl RemovalWaits {
    /// A BundleDeployment exists, is removed, or may not be removed: its next removal starts from the beginning.
    pub fn forget(&self, deployment: &str) {
        let mut waits = lock(&self.0);
        waits.for_dependents.remove(deployment);
        waits.for_objects.remove(deployment);
    }

    /// What was uninstalled of a BundleDeployment, if its objects are awaited.
    pub fn uninstalled(&self, deployment: &str) -> Option<Uninstalled> {
        lock(&self.0).for_objects.get(deployment).cloned()
    }

    /// Starts from the beginning in another term.
    pub fn follow(&self, term: Option<Term>) {
        let mut waits = lock(&self.0);
        if waits.term != term {
            *waits = Waits {
                term,
                ..Waits::default()
            };
        }
    }

    /// Whether it is the turn of a BundleDeployment.
    fn turn(&self, deployment: &str, dependents: &Dependents<'_>, timeout: Duration, now: Instant) -> Turn {
        let all = &mut lock(&self.0).for_dependents;
        if dependents.removed.is_empty() && dependents.existing.is_empty() {
            all.remove(deployment);
            return Turn::Now;
        }
        let nothing = GivenUp::default();
        let over = all.get(deployment).map_or(&nothing, |wait| &wait.over);
        let removed = without(&dependents.removed, &over.removed);
        let existing = without(&dependents.existing, &over.existing);
        let is_waiting = |name: &&str| all.get(*name).is_some_and(|wait| wait.waits);
        let is_progress = removed.iter().any(is_waiting);
        let wait = all
            .entry(deployment.to_owned())
            .or_insert_with(|| Wait::new(removed.len(), now));
        // A dependent that waits itself is not to blame. There are no cycles of waits, so that one of them does not. And after a wait that
        // was too long, another one is removed only now.
        if is_progress || removed.len() < wait.left || !wait.waits {
            wait.since = now;
        }
        wait.left = removed.len();
        let is_over = if removed.is_empty() {
            existing.is_empty() || now - wait.first >= GRACE.min(timeout)
        } else {
            now - wait.since >= timeout
        };
        wait.waits = !is_over;
        if !is_over {
            let to_report = wait.report_at.is_some_and(|at| at <= now);
            return Turn::Wait { to_report };
        }
        wait.give_up(&removed, &existing, timeout);
        Turn::Now
    }

    /// When to report that a BundleDeployment waits; `None` if that is done.
    fn report_at(&self, deployment: &str, time: Option<Instant>) {
        if let Some(wait) = lock(&self.0).for_dependents.get_mut(deployment) {
            wait.report_at = time;
        }
    }

    /// Why a BundleDeployment is removed although dependents are left, once.
    fn take_warning(&self, deployment: &str) -> Option<String> {
        let mut waits = lock(&self.0);
        waits.for_dependents.get_mut(deployment)?.warning.take()
    }
}

/// Whether a BundleDeployment that is gone may be removed now, as far as those are concerned that depend on it.
///
/// # Errors
/// If the ConfigMap of the agent cannot be read, or it is not certain that the BundleDeployment is gone.
pub async fn is_its_turn(context: &Context, deployment: &str) -> Result<bool, AgentError> {
    let owned = context.owned.of_deployment(deployment).await?;
    let Some((release, timeout)) = uninstalled_after_others(context, &owned) else {
        return Ok(true);
    };
    let order = context.owned.removal_order().await?;
    let is_removed = |name: &&str| {
        let found = context.deployments.get(&context.key(name));
        found.is_none_or(|found| found.meta().deletion_timestamp.is_some())
    };
    let (removed, existing) = order.dependents(deployment).into_iter().partition(is_removed);
    let dependents = Dependents { removed, existing };
    match context
        .removals
        .turn(deployment, &dependents, timeout, Instant::now())
    {
        Turn::Now => Ok(true),
        Turn::Wait { to_report } => {
            if to_report {
                report_wait(context, deployment, &release, &dependents.text()).await?;
            }
            Ok(false)
        }
    }
}

/// Reports that a BundleDeployment waits for others, if it is certainly deleted: its namespace may only seem to be empty. If that is to be
/// confirmed later, so is the report.
///
/// # Errors
/// If it is not certain, which is reported instead.
async fn report_wait(
    context: &Context,
    deployment: &str,
    release: &ReleaseKey,
    text: &str,
) -> Result<(), AgentError> {
    let later = match is_deleted(context, deployment).await? {
        Deleted::Yes => {
            tracing::info!(%release, "{text}");
            context.reports.dependents_remain(release, false, text);
            None
        }
        Deleted::NotYet(wait) => Some(Instant::now() + wait),
        // The watch will show it, and its next removal starts from the beginning.
        Deleted::No => None,
    };
    context.removals.report_at(deployment, later);
    Ok(())
}

/// Reports that a BundleDeployment, which is certainly deleted, is removed although dependents are left.
pub fn warn(context: &Context, deployment: &str, owned: &[OwnedRelease]) {
    if let Some(text) = context.removals.take_warning(deployment)
        && let Some((release, _)) = uninstalled_after_others(context, owned)
    {
        tracing::warn!(%release, "{text}");
        context.reports.dependents_remain(&release, true, &text);
    }
}

/// Whether objects of what was uninstalled are still being deleted, such as by a controller that removes their finalizers and is uninstalled
/// next. Without dependencies, nothing is uninstalled next. What is not watched, as after a restart, is not awaited.
pub fn awaits_objects(
    context: &Context,
    deployment: &str,
    owned: &[OwnedRelease],
    uninstalled: &Uninstalled,
) -> bool {
    let timeout = owned.iter().filter(|owned| !owned.depends_on.is_empty());
    let Some(timeout) = timeout.map(|owned| timeout_of(context, owned)).max() else {
        return false;
    };
    let set = context.set_of(deployment).hash();
    let objects = context.live.of_release(deployment, &set).unwrap_or_default();
    let elapsed = uninstalled.since.elapsed();
    // The watches may be behind.
    let left = objects
        .iter()
        .filter(|one| one.is_terminating || elapsed < RECHECK);
    let left: Vec<_> = left.map(|one| one.id.to_string()).collect();
    if left.is_empty() {
        return false;
    }
    if elapsed >= timeout {
        let objects = listed(&left, MAX_NAMES);
        tracing::warn!("the release is uninstalled, and these objects are still being deleted: {objects}");
        return false;
    }
    let mut waits = lock(&context.removals.0);
    waits
        .for_objects
        .insert(deployment.to_owned(), uninstalled.clone());
    true
}

/// The release that waits for dependents, and how long; `None` if nothing is uninstalled.
fn uninstalled_after_others(context: &Context, owned: &[OwnedRelease]) -> Option<(ReleaseKey, Duration)> {
    let is_uninstalled = |owned: &&OwnedRelease| {
        let on_delete = context.records.on_delete(&owned.release).unwrap_or_default();
        on_delete.policy == OnDeletePolicy::Uninstall
    };
    let uninstalled = owned.iter().filter(is_uninstalled);
    let with_timeout = uninstalled.map(|owned| (owned.release.clone(), timeout_of(context, owned)));
    with_timeout.max_by_key(|(_, timeout)| *timeout)
}

fn timeout_of(context: &Context, owned: &OwnedRelease) -> Duration {
    let on_delete = context.records.on_delete(&owned.release);
    let timeout = on_delete.and_then(|on_delete| on_delete.timeout);
    timeout.unwrap_or(DEFAULT_HOOK_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(5);

    /// A check at a time: what is removed and what exists of those that depend on `name`, and whether that is waited for.
    struct Check {
        name: &'static str,
        at: u64,
        removed: &'static [&'static str],
        existing: &'static [&'static str],
        expected: &'static str,
    }

    const fn check(
        name: &'static str,
        at: u64,
        [removed, existing]: [&'static [&'static str]; 2],
        expected: &'static str,
    ) -> Check {
        Check {
            name,
            at,
            removed,
            existing,
            expected,
        }
    }

    fn run(checks: &[Check]) {
        let (waits, start) = (RemovalWaits::default(), Instant::now());
        for check in checks {
            let dependents = Dependents {
                removed: check.removed.to_vec(),
                existing: check.existing.to_vec(),
            };
            let now = start + Duration::from_secs(check.at);
            let found = match waits.turn(check.name, &dependents, TIMEOUT, now) {
                Turn::Now => waits.take_warning(check.name).unwrap_or_else(|| "now".to_owned()),
                Turn::Wait { to_report: true } => {
                    waits.report_at(check.name, None);
                    "begins".to_owned()
                }
                Turn::Wait { to_report: false } => "waits".to_owned(),
            };
            let is_expected =
                found == check.expected || check.expected.len() > 8 && found.contains(check.expected);
            assert!(is_expected, "{} after {}s: {found}", check.name, check.at);
        }
    }

    #[test]
    fn a_release_waits_for_dependents_that_are_removed_too() {
        run(&[
            check("db", 0, [&["web"], &[]], "begins"),
            check("db", 200, [&["web"], &[]], "waits"),
            check("db", 201, [&[], &[]], "now"),
            // Its clock starts again.
            check("db", 900, [&["web"], &[]], "begins"),
        ]);
    }

    #[test]
    fn a_wait_ends_with_the_timeout_and_stays_so() {
        run(&[
            check("db", 0, [&["api", "web"], &[]], "begins"),
            check("db", 299, [&["api", "web"], &[]], "waits"),
            check(
                "db",
                300,
                [&["api", "web"], &[]],
                "within 300s (lifecycle.uninstall.timeout): api, web",
            ),
            // Its own removal is retried.
            check("db", 400, [&["api", "web"], &[]], "now"),
        ]);
        run(&[
            check("db", 0, [&["api", "web"], &[]], "begins"),
            // One of them is uninstalled.
            check("db", 200, [&["web"], &[]], "waits"),
            check("db", 499, [&["web"], &[]], "waits"),
            check("db", 500, [&["web"], &[]], "(lifecycle.uninstall.timeout): web"),
        ]);
    }

    #[test]
    fn the_time_that_a_dependent_waits_itself_does_not_count() {
        run(&[
            check("api", 0, [&["web"], &[]], "begins"),
            check("db", 0, [&["api"], &[]], "begins"),
            check("db", 299, [&["api"], &[]], "waits"),
            check("api", 300, [&["web"], &[]], "(lifecycle.uninstall.timeout): web"),
            check("db", 301, [&["api"], &[]], "waits"),
            check("db", 598, [&["api"], &[]], "waits"),
            check("db", 599, [&["api"], &[]], "(lifecycle.uninstall.timeout): api"),
        ]);
    }

    /// A dependent that it waits for no more waits again.
    #[test]
    fn only_what_is_awaited_stops_the_clock() {
        run(&[
            check("db", 0, [&["api"], &[]], "begins"),
            check("db", 300, [&["api"], &[]], "(lifecycle.uninstall.timeout): api"),
            check("api", 301, [&["web"], &[]], "begins"),
            check("db", 302, [&["api", "ui"], &[]], "waits"),
            check("db", 601, [&["api", "ui"], &[]], "waits"),
            check(
                "db",
                602,
                [&["api", "ui"], &[]],
                "(lifecycle.uninstall.timeout): ui",
            ),
        ]);
    }

    #[test]
    fn a_dependent_that_exists_is_awaited_for_a_moment_only() {
        run(&[
            check("db", 0, [&[], &["web"]], "begins"),
            check("db", 89, [&[], &["web"]], "waits"),
            check("db", 90, [&[], &["web"]], "depend on it and are not deleted: web"),
            // Its own removal is retried.
            check("db", 91, [&[], &["web"]], "now"),
        ]);
        // It is deleted a moment later.
        run(&[
            check("db", 0, [&[], &["web"]], "begins"),
            check("db", 2, [&["web"], &[]], "waits"),
            check("db", 90, [&["web"], &[]], "waits"),
            check("db", 91, [&[], &[]], "now"),
        ]);
        // The wait for another one has taken that long already.
        run(&[
            check("db", 0, [&["api"], &["web"]], "begins"),
            check("db", 100, [&["api"], &["web"]], "waits"),
            check(
                "db",
                101,
                [&[], &["web"]],
                "depend on it and are not deleted: web",
            ),
        ]);
        // The timeout is shorter.
        run(&[
            check("db", 0, [&["api"], &["web"]], "begins"),
            check(
                "db",
                300,
                [&["api"], &["web"]],
                "(lifecycle.uninstall.timeout): api; it is uninstalled although these BundleDeployments depend on it and are not deleted: web",
            ),
        ]);
    }

    /// While the removal is retried, or nothing is certain.
    #[test]
    fn a_dependent_that_is_deleted_after_the_wait_is_uninstalled_first() {
        run(&[
            check("db", 0, [&[], &["api", "web"]], "begins"),
            check("db", 90, [&[], &["api", "web"]], "are not deleted: api, web"),
            check("db", 95, [&["web"], &["api"]], "waits"),
            check("db", 394, [&["web"], &["api"]], "waits"),
            check(
                "db",
                395,
                [&["web"], &["api"]],
                "(lifecycle.uninstall.timeout): web",
            ),
            check("db", 396, [&["web"], &["api"]], "now"),
            check("db", 400, [&["api", "web"], &[]], "waits"),
            check("db", 401, [&["web"], &[]], "now"),
            check("db", 402, [&[], &[]], "now"),
        ]);
        // Another wait goes on as long as that one.
        run(&[
            check("api", 0, [&[], &["web"]], "begins"),
            check("db", 0, [&["api"], &[]], "begins"),
            check("api", 90, [&[], &["web"]], "are not deleted: web"),
            check("api", 300, [&["web"], &[]], "waits"),
            check("db", 301, [&["api"], &[]], "waits"),
            check("db", 600, [&["api"], &[]], "waits"),
        ]);
    }

    #[test]
    fn a_report_names_the_dependents_and_what_follows() {
        let text = |removed: &[&'static str], existing: &[&'static str]| {
            let (removed, existing) = (removed.to_vec(), existing.to_vec());
            Dependents { removed, existing }.text()
        };
        let first = text(&["api", "web"], &["job"]);
        assert!(
            first.ends_with("depend on it, and are uninstalled first: api, web"),
            "{first}"
        );
        let not_deleted = text(&[], &["web"]);
        assert!(
            not_deleted.contains("are not deleted; it is uninstalled all the same after 90s"),
            "{not_deleted}"
        );
        assert!(not_deleted.ends_with(": web"), "{not_deleted}");
    }

    #[test]
    fn what_is_forgotten_starts_again() {
        let (waits, start) = (RemovalWaits::default(), Instant::now());
        let dependents = Dependents {
            removed: vec!["web"],
            existing: Vec::new(),
        };
        let turn = |seconds| waits.turn("db", &dependents, TIMEOUT, start + Duration::from_secs(seconds));
        assert_eq!(turn(0), Turn::Wait { to_report: true });
        waits.report_at("db", None);
        assert_eq!(turn(1), Turn::Wait { to_report: false });
        waits.forget("db");
        assert_eq!(turn(400), Turn::Wait { to_report: true });
        waits.report_at("db", None);
        waits.follow(Some(Term::default()));
        assert_eq!(turn(900), Turn::Wait { to_report: true });
        waits.report_at("db", None);
        waits.follow(Some(Term::default()));
        assert_eq!(turn(901), Turn::Wait { to_report: false });
    }

    /// Its deletion is not certain until it is confirmed.
    #[test]
    fn a_wait_is_reported_once_as_soon_as_that_is_certain() {
        let (waits, start) = (RemovalWaits::default(), Instant::now());
        let dependents = Dependents {
            removed: vec!["web"],
            existing: Vec::new(),
        };
        let at = |seconds| start + Duration::from_secs(seconds);
        let is_due = |seconds| {
            let turn = waits.turn("db", &dependents, TIMEOUT, at(seconds));
            turn == Turn::Wait { to_report: true }
        };
        assert!(is_due(0));
        waits.report_at("db", Some(at(30)));
        assert_eq!([1, 29, 30].map(is_due), [false, false, true]);
        waits.report_at("db", None);
        assert_eq!([31, 60].map(is_due), [false, false]);
    }
}
