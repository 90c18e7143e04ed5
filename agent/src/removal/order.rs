//! Whether it is the turn of a release to be removed: those that depend on it come first, if they are removed as well.
//!
//! ```text
//! BundleDeployment gone ─► dependents that are removed too, or exist ─► wait: looked at again, without a request
//!                                                                    └► its turn: none left, or waited for too long
//! ```
//!
//! Nothing is held and nothing is requested while a release waits.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use bounded_text::listed;
use helmops_helm::request::DEFAULT_HOOK_TIMEOUT;
use helmops_kube::lease::Term;
use helmops_process::lock;
use helmops_release::{names::ReleaseKey, record::OnDeletePolicy};
use kube::Resource;

use crate::{context::Context, error::AgentError, owned::OwnedRelease};

/// How often a wait is looked at.
pub const RECHECK: Duration = Duration::from_secs(1);
/// How long a release waits for the deletion of dependents that exist. BundleDeployments of HelmOps that are deleted together are deleted
/// one after the other, in any order.
const GRACE: Duration = Duration::from_secs(10);
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
    /// How many dependents were left then.
    left: usize,
    /// Whether it was too long.
    is_over: bool,
    /// What is to be reported then.
    warning: Option<String>,
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
    /// Not yet; whether that is new.
    Wait { is_new: bool },
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

    fn follow(&self, term: Option<Term>) {
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
        let Dependents { removed, existing } = dependents;
        let all = &mut lock(&self.0).for_dependents;
        if removed.is_empty() && existing.is_empty() {
            all.remove(deployment);
            return Turn::Now;
        }
        let waits = |name: &&&str| all.get(**name).is_some_and(|wait| !wait.is_over);
        let is_progress = removed.iter().any(|name| waits(&name));
        let is_new = !all.contains_key(deployment);
        let wait = all.entry(deployment.to_owned()).or_insert(Wait {
            first: now,
            since: now,
            left: removed.len(),
            is_over: false,
            warning: None,
        });
        if wait.is_over {
            return Turn::Now;
        }
        // A dependent that waits itself is not to blame. There are no cycles of waits, so that one of them does not.
        if is_progress || removed.len() < wait.left {
            wait.since = now;
        }
        wait.left = removed.len();
        let (is_over, text) = if removed.is_empty() {
            let names = listed(existing, MAX_NAMES);
            let text = format!(
                "it is uninstalled although these BundleDeployments depend on it and are not deleted: {names}"
            );
            (now - wait.first >= GRACE.min(timeout), text)
        } else {
            let (names, seconds) = (listed(removed, MAX_NAMES), timeout.as_secs());
            let text = format!(
                "it is uninstalled before these BundleDeployments, which depend on it and were not uninstalled within {seconds}s \
                 (lifecycle.uninstall.timeout): {names}"
            );
            (now - wait.since >= timeout, text)
        };
        if !is_over {
            return Turn::Wait { is_new };
        }
        wait.is_over = true;
        wait.warning = Some(text);
        Turn::Now
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
/// If the ConfigMap of the agent cannot be read.
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
    let waits = &context.removals;
    waits.follow(context.leadership.term());
    match waits.turn(deployment, &dependents, timeout, Instant::now()) {
        Turn::Now => Ok(true),
        Turn::Wait { is_new } => {
            if is_new && !dependents.removed.is_empty() {
                let names = listed(&dependents.removed, MAX_NAMES);
                let text =
                    format!("these BundleDeployments depend on it, and are uninstalled first: {names}");
                tracing::info!(%release, "{text}");
                context.reports.dependents_remain(&release, false, &text);
            }
            Ok(false)
        }
    }
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
                Turn::Wait { is_new: true } => "begins".to_owned(),
                Turn::Wait { is_new: false } => "waits".to_owned(),
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

    #[test]
    fn a_dependent_that_exists_is_awaited_for_a_moment_only() {
        run(&[
            check("db", 0, [&[], &["web"]], "begins"),
            check("db", 9, [&[], &["web"]], "waits"),
            check("db", 10, [&[], &["web"]], "depend on it and are not deleted: web"),
            check("db", 11, [&["web"], &[]], "now"),
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
            check("db", 20, [&["api"], &["web"]], "waits"),
            check("db", 21, [&[], &["web"]], "depend on it and are not deleted: web"),
        ]);
    }

    #[test]
    fn what_is_forgotten_starts_again() {
        let (waits, start) = (RemovalWaits::default(), Instant::now());
        let dependents = Dependents {
            removed: vec!["web"],
            existing: Vec::new(),
        };
        let turn = |seconds| waits.turn("db", &dependents, TIMEOUT, start + Duration::from_secs(seconds));
        assert_eq!(turn(0), Turn::Wait { is_new: true });
        waits.forget("db");
        assert_eq!(turn(400), Turn::Wait { is_new: true });
        waits.follow(Some(Term::default()));
        assert_eq!(turn(900), Turn::Wait { is_new: true });
        waits.follow(Some(Term::default()));
        assert_eq!(turn(901), Turn::Wait { is_new: false });
    }
}
