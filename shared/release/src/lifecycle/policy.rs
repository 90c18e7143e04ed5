//! What `spec.lifecycle` and the options of a BundleDeployment mean.

use std::{fmt, time::Duration};

use go_formats::duration;
use helmops_api::{
    BundleDeploymentOptions, Lifecycle,
    lifecycle::{self, UninstallPolicy, WaitPolicy},
};

use crate::record::{Attempt, AttemptAction, Cause, OnDelete, OnDeletePolicy, Propagation, TestFilters};

/// How long objects, hooks and tests may take if nothing else is set: as in Helm.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);
/// The time between two attempts if nothing else is set: as in Flux.
const DEFAULT_INTERVAL: Duration = Duration::from_mins(5);
/// The time between two attempts once the retries are used up.
const SLOW: Duration = Duration::from_hours(1);

/// Revisions that are kept if nothing else is set: as in Fleet's agent.
const FLEET_HISTORY: u32 = 2;
/// Revisions that are kept with a life cycle if nothing else is set: as in Flux.
const DEFAULT_HISTORY: u32 = 5;
/// Revisions that a rollback needs: that of the failed attempt, which counts the attempts, the one to restore, and the rollback.
const ROLLBACK_HISTORY: u32 = 3;

/// What happens with a release. Admission rejects what is invalid; here, an invalid field is as if it were not set, because a Bundle
/// can be written without admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens when an installation fails.
    pub install: ActionPolicy,
    /// What happens when an upgrade fails.
    pub upgrade: ActionPolicy,
    /// The tests; `None` if there are none to be run.
    pub test: Option<TestPolicy>,
    /// How many revisions Helm keeps.
    pub history: u32,
    /// What happens with the release when its BundleDeployment is gone.
    pub on_delete: OnDelete,
}

/// What happens when an installation, or an upgrade, fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionPolicy {
    /// When it is tried again.
    pub schedule: Schedule,
    /// What is done about the failed attempt.
    pub remediation: Remediation,
    /// Whether that is also done after the last one of the retries.
    pub remediates_last: bool,
    /// What happens with the CRDs of the chart; `None` leaves them to Helm.
    pub crds: Option<CrdPolicy>,
    /// How long objects may take to become ready; `None` if they are not waited for.
    pub wait: Option<Duration>,
}

/// When a failed attempt is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// As in Fleet, with the backoff of the reconciliation.
    Backoff,
    /// After an interval for a number of times, and after that, once an hour: nothing is given up.
    Intervals {
        /// How many attempts follow the first one.
        retries: u32,
        /// The time between two attempts.
        interval: Duration,
    },
}

/// What is done about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remediation {
    /// Nothing is done.
    None,
    /// The last revision that was deployed is restored.
    Rollback,
    /// The release is uninstalled.
    Uninstall,
    /// It would be uninstalled, but for this.
    Keep(KeptBecause),
}

/// Why a release stays that would be uninstalled after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBecause {
    /// Its BundleDeployment has a release of another name, which may have the same objects.
    OtherName,
    /// The options say that its objects stay, with `keepResources` or `lifecycle.onDelete: Keep`.
    Options,
    /// Its objects are older than the attempt: its records were lost.
    OlderObjects,
}

/// For statuses, after what failed.
impl fmt::Display for KeptBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not uninstalled, because ")?;
        f.write_str(match self {
            Self::OtherName => {
                "the release that the BundleDeployment has under another name may have the same objects"
            }
            Self::Options => "keepResources or lifecycle.onDelete keep its objects",
            Self::OlderObjects => {
                "its objects existed before this attempt, and only the records of the release were missing"
            }
        })
    }
}

/// What happens with the CRDs in the folder `crds` of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdPolicy {
    /// The CRDs are left as they are.
    Skip,
    /// Those that are missing are created.
    Create,
    /// Missing CRDs are created, and existing ones updated.
    CreateReplace,
}

/// The tests of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPolicy {
    /// Whether a failed test is reported only.
    pub ignores_failures: bool,
    /// How long a test may take.
    pub timeout: Duration,
    /// Which tests run.
    pub filters: TestFilters,
}

impl Policy {
    /// The policy of a BundleDeployment. Without `lifecycle`, it is that of Fleet: `helm.timeoutSeconds` or `helm.atomic` wait for the objects,
    /// attempts are repeated with a backoff, and `helm.atomic` alone restores what was before.
    pub fn of(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        let policy = Self::of_options(options, lifecycle);
        if options.keep_resources || policy.on_delete.policy == OnDeletePolicy::Keep {
            policy.without_uninstallation(KeptBecause::Options)
        } else {
            policy
        }
    }

    fn of_options(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        let helm = options.helm.as_ref();
        let seconds = helm.and_then(|helm| u64::try_from(helm.timeout_seconds).ok());
        let seconds = seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.map(Duration::from_secs);
        let timeout = seconds.unwrap_or(DEFAULT_TIMEOUT);
        let own = helm.and_then(|helm| u32::try_from(helm.max_history).ok());
        let own = own.filter(|history| *history > 0);
        let is_atomic = helm.is_some_and(|helm| helm.atomic);
        let fleet = Self::of_fleet(is_atomic, seconds, own.unwrap_or(FLEET_HISTORY));
        // Requests are no policy.
        let policy = lifecycle.filter(|lifecycle| {
            let requests = lifecycle.requests.clone();
            let requested = Lifecycle {
                requests,
                ..Lifecycle::default()
            };
            **lifecycle != requested
        });
        let Some(lifecycle) = policy else {
            return fleet;
        };
        let is_awaited = lifecycle.install.is_some()
            || lifecycle.upgrade.is_some()
            || lifecycle.test.is_some()
            || lifecycle.wait.is_some();
        let none = WaitPolicy::default();
        let wait = lifecycle.wait.as_ref().unwrap_or(&none);
        let history = own.unwrap_or(DEFAULT_HISTORY);
        let install = lifecycle.install.as_ref();
        let upgrade = lifecycle.upgrade.as_ref();
        // A policy for one of them is one for both: the other has the defaults, not Fleet's attempts without end.
        let other = lifecycle::ActionPolicy::default();
        let other = (install.is_some() || upgrade.is_some()).then_some(&other);
        let timeout_of_wait = if is_awaited {
            Some(time(wait.timeout.as_deref()).unwrap_or(timeout))
        } else {
            fleet.upgrade.wait
        };
        let waits = |own| wait_of(own, timeout_of_wait.filter(|_| !wait.disable));
        let (install_wait, upgrade_wait) = (waits(install), waits(upgrade));
        let install = action(install.or(other), AttemptAction::Install, fleet.install);
        let upgrade = action(upgrade.or(other), AttemptAction::Upgrade, fleet.upgrade);
        Self {
            install: ActionPolicy {
                wait: install_wait,
                ..install
            },
            upgrade: ActionPolicy {
                wait: upgrade_wait,
                ..upgrade
            },
            history: if upgrade.remediation == Remediation::Rollback {
                history.max(ROLLBACK_HISTORY)
            } else {
                history
            },
            test: lifecycle
                .test
                .as_ref()
                .filter(|test| test.enable)
                .map(|test| tests(test, timeout)),
            on_delete: on_delete(lifecycle, seconds),
        }
    }

    fn of_fleet(is_atomic: bool, timeout: Option<Duration>, history: u32) -> Self {
        let action = |remediation| ActionPolicy {
            schedule: Schedule::Backoff,
            remediation,
            remediates_last: true,
            crds: None,
            wait: timeout.or(is_atomic.then_some(DEFAULT_TIMEOUT)),
        };
        let (install, upgrade, history) = if is_atomic {
            let history = history.max(ROLLBACK_HISTORY);
            (Remediation::Uninstall, Remediation::Rollback, history)
        } else {
            (Remediation::None, Remediation::None, history)
        };
        Self {
            install: action(install),
            upgrade: action(upgrade),
            test: None,
            history,
            on_delete: OnDelete::default(),
        }
    }

    /// The same policy, but nothing is uninstalled after a failed attempt.
    #[must_use]
    pub fn without_uninstallation(mut self, because: KeptBecause) -> Self {
        for action in [&mut self.install, &mut self.upgrade] {
            if action.remediation == Remediation::Uninstall {
                action.remediation = Remediation::Keep(because);
            }
        }
        self
    }

    /// The policy for an action.
    pub const fn for_action(&self, action: AttemptAction) -> &ActionPolicy {
        match action {
            AttemptAction::Install => &self.install,
            AttemptAction::Upgrade => &self.upgrade,
        }
    }
}

impl ActionPolicy {
    /// What is done after a failed attempt.
    pub fn remediation_of(&self, attempt: &Attempt) -> Remediation {
        if self.is_last(attempt.number) && !self.remediates_last {
            return Remediation::None;
        }
        match self.remediation {
            Remediation::Uninstall if attempt.cause == Cause::Missing => {
                Remediation::Keep(KeptBecause::OlderObjects)
            }
            remediation => remediation,
        }
    }

    /// Whether the retries are used up with the attempt of this number.
    pub const fn is_last(&self, number: u32) -> bool {
        match self.schedule {
            Schedule::Backoff => false,
            Schedule::Intervals { retries, .. } => number > retries,
        }
    }

    /// Whether an uninstallation keeps the record of the failed attempt, which counts the attempts.
    pub const fn keeps_record(&self) -> bool {
        matches!(self.schedule, Schedule::Intervals { .. })
    }

    /// The time from the failure of the attempt with this number until the next one; `None` if the backoff alone counts.
    pub const fn delay(&self, number: u32) -> Option<Duration> {
        match self.schedule {
            Schedule::Backoff => None,
            Schedule::Intervals { retries, .. } if number > retries => Some(SLOW),
            Schedule::Intervals { interval, .. } => Some(interval),
        }
    }
}

fn action(own: Option<&lifecycle::ActionPolicy>, action: AttemptAction, fleet: ActionPolicy) -> ActionPolicy {
    let Some(own) = own else {
        return fleet;
    };
    let remediation = match (&*own.remediation, action) {
        ("rollback", AttemptAction::Upgrade) => Remediation::Rollback,
        ("uninstall", _) => Remediation::Uninstall,
        _ => Remediation::None,
    };
    let crds = match &*own.crds {
        "Skip" => Some(CrdPolicy::Skip),
        "Create" => Some(CrdPolicy::Create),
        "CreateReplace" => Some(CrdPolicy::CreateReplace),
        _ => None,
    };
    ActionPolicy {
        schedule: Schedule::Intervals {
            retries: u32::try_from(own.retries).unwrap_or_default(),
            interval: time(own.retry_interval.as_deref()).unwrap_or(DEFAULT_INTERVAL),
        },
        remediation,
        remediates_last: own.remediate_last_failure.unwrap_or(true),
        crds,
        ..fleet
    }
}

/// How long objects are waited for. `timeout` is that of `wait`, `None` if it is disabled.
fn wait_of(own: Option<&lifecycle::ActionPolicy>, timeout: Option<Duration>) -> Option<Duration> {
    let Some(own) = own else { return timeout };
    let timeout = timeout.filter(|_| !own.disable_wait)?;
    Some(time(own.timeout.as_deref()).unwrap_or(timeout))
}

/// `of_helm` is `helm.timeoutSeconds`.
fn on_delete(own: &Lifecycle, of_helm: Option<Duration>) -> OnDelete {
    let none = UninstallPolicy::default();
    let uninstall = own.uninstall.as_ref().unwrap_or(&none);
    OnDelete {
        policy: if own.on_delete == "Keep" {
            OnDeletePolicy::Keep
        } else {
            OnDeletePolicy::Uninstall
        },
        keep_history: uninstall.keep_history,
        timeout: time(uninstall.timeout.as_deref())
            .or(of_helm)
            .map(OnDelete::timeout_of),
        disable_hooks: uninstall.disable_hooks,
        propagation: Propagation::parse(&uninstall.deletion_propagation).unwrap_or_default(),
    }
}

fn tests(own: &lifecycle::TestPolicy, timeout: Duration) -> TestPolicy {
    let (excluded, included) = own.filters.iter().partition::<Vec<_>, _>(|filter| filter.exclude);
    let names =
        |filters: Vec<&lifecycle::TestFilter>| filters.iter().map(|filter| filter.name.clone()).collect();
    TestPolicy {
        ignores_failures: own.ignore_failures,
        timeout: time(own.timeout.as_deref()).unwrap_or(timeout),
        filters: TestFilters {
            include: names(included),
            exclude: names(excluded),
        },
    }
}

/// A time of the life cycle; `None` if there is none, or no valid one.
pub fn time(text: Option<&str>) -> Option<Duration> {
    text.and_then(|text| duration::parse(text).ok())
        .filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::attempt;

    fn policy(options: &Value, lifecycle: &Value) -> Policy {
        let options = serde_json::from_str(&options.to_string()).unwrap();
        let lifecycle: Option<Lifecycle> = serde_json::from_str(&lifecycle.to_string()).unwrap();
        Policy::of(&options, lifecycle.as_ref())
    }

    #[test]
    fn without_a_life_cycle_it_is_that_of_fleet() {
        let none = policy(&json!({}), &Value::Null);
        let requested = policy(&json!({}), &json!({ "requests": { "force": "1" } }));
        assert_eq!(requested, none);
        assert_eq!((none.install.wait, none.upgrade.wait), (None, None));
        assert_eq!(none.test, None);
        for action in [none.install, none.upgrade] {
            assert_eq!(action.schedule, Schedule::Backoff);
            assert_eq!(action.remediation, Remediation::None);
            assert_eq!(action.delay(7), None);
        }
        let atomic = policy(
            &json!({ "helm": { "atomic": true, "timeoutSeconds": 7 } }),
            &Value::Null,
        );
        assert_eq!(atomic.install.wait, Some(Duration::from_secs(7)));
        assert_eq!(atomic.install.remediation, Remediation::Uninstall);
        assert_eq!(atomic.upgrade.remediation, Remediation::Rollback);
        assert_eq!((none.history, atomic.history), (FLEET_HISTORY, ROLLBACK_HISTORY));
        let timed = policy(&json!({ "helm": { "timeoutSeconds": 7 } }), &Value::Null);
        assert_eq!(timed.upgrade.wait, Some(Duration::from_secs(7)));
        let unwaited = ActionPolicy {
            wait: None,
            ..timed.install
        };
        assert_eq!((unwaited, timed.history), (none.install, none.history));
        // As in Fleet, Jobs are waited for within the timeout, and without one nothing is.
        let jobs = policy(
            &json!({ "helm": { "waitForJobs": true, "timeoutSeconds": 0 } }),
            &Value::Null,
        );
        assert_eq!(jobs.install.wait, None);
    }

    #[test]
    fn objects_are_waited_for_if_failures_matter() {
        let minutes = |minutes| Some(Duration::from_mins(minutes));
        for (lifecycle, wait) in [
            (json!({}), None),
            (json!({ "suspend": true, "drift": { "mode": "enabled" } }), None),
            (json!({ "install": {} }), minutes(5)),
            (json!({ "upgrade": {} }), minutes(5)),
            (json!({ "test": { "enable": true } }), minutes(5)),
            (json!({ "wait": {} }), minutes(5)),
            (json!({ "wait": { "timeout": "2m" } }), minutes(2)),
            (json!({ "install": {}, "wait": { "disable": true } }), None),
            (json!({ "wait": { "timeout": "nonsense" } }), minutes(5)),
        ] {
            let policy = policy(&json!({}), &lifecycle);
            assert_eq!(
                (policy.install.wait, policy.upgrade.wait),
                (wait, wait),
                "{lifecycle}"
            );
        }
        let of_helm = policy(
            &json!({ "helm": { "timeoutSeconds": 60 } }),
            &json!({ "install": {} }),
        );
        assert_eq!(of_helm.upgrade.wait, minutes(1));
        let atomic = |lifecycle: &Value| {
            policy(&json!({ "helm": { "atomic": true } }), lifecycle)
                .upgrade
                .wait
        };
        assert_eq!(
            atomic(&json!({ "drift": { "mode": "enabled" } })),
            Some(DEFAULT_TIMEOUT)
        );
        assert_eq!(atomic(&json!({ "wait": { "disable": true } })), None);
    }

    #[test]
    fn each_action_may_wait_for_its_own_time() {
        let minutes = |minutes| Some(Duration::from_mins(minutes));
        for (lifecycle, install, upgrade) in [
            (json!({ "install": { "timeout": "9m" } }), minutes(9), minutes(5)),
            (
                json!({ "install": { "timeout": "9m" }, "upgrade": { "timeout": "1m" }, "wait": { "timeout": "2m" } }),
                minutes(9),
                minutes(1),
            ),
            (
                json!({ "install": { "disableWait": true, "timeout": "9m" }, "wait": { "timeout": "2m" } }),
                None,
                minutes(2),
            ),
            (
                json!({ "upgrade": { "timeout": "1m" }, "wait": { "disable": true } }),
                None,
                None,
            ),
            (json!({ "rollback": { "timeout": "1m" } }), None, None),
        ] {
            let policy = policy(&json!({}), &lifecycle);
            let waits = (policy.install.wait, policy.upgrade.wait);
            assert_eq!(waits, (install, upgrade), "{lifecycle}");
        }
    }

    #[test]
    fn a_policy_for_one_action_is_one_for_both() {
        let backoff = Schedule::Backoff;
        let once = Schedule::Intervals {
            retries: 0,
            interval: DEFAULT_INTERVAL,
        };
        for (lifecycle, install, upgrade) in [
            (json!({ "install": {} }), once, once),
            (json!({ "upgrade": {} }), once, once),
            (json!({ "wait": {} }), backoff, backoff),
            (json!({ "test": { "enable": true } }), backoff, backoff),
        ] {
            let policy = policy(&json!({}), &lifecycle);
            let schedules = (policy.install.schedule, policy.upgrade.schedule);
            assert_eq!(schedules, (install, upgrade), "{lifecycle}");
        }
        // The other one remediates nothing, and leaves the CRDs to Helm.
        let upgrade = json!({ "remediation": "uninstall", "crds": "Skip", "retries": 2 });
        let install = policy(&json!({}), &json!({ "upgrade": upgrade })).install;
        assert_eq!((install.remediation, install.crds), (Remediation::None, None));
        assert_eq!(install.delay(1), Some(SLOW));
    }

    #[test]
    fn retries_are_followed_by_slow_ones() {
        let own = json!({ "upgrade": { "retries": 2, "retryInterval": "1m", "remediation": "rollback" } });
        let upgrade = policy(&json!({}), &own).upgrade;
        let delays: Vec<_> = (1..5)
            .map(|number| upgrade.delay(number).unwrap().as_secs())
            .collect();
        assert_eq!(delays, [60, 60, 3600, 3600]);
    }

    #[test]
    fn the_last_failure_is_remediated_unless_it_is_left_for_inspection() {
        for (own, expected) in [
            (
                json!({ "retries": 1, "remediation": "rollback" }),
                [Remediation::Rollback; 3],
            ),
            (
                json!({ "retries": 1, "remediation": "rollback", "remediateLastFailure": false }),
                [Remediation::Rollback, Remediation::None, Remediation::None],
            ),
            (json!({ "remediation": "uninstall" }), [Remediation::Uninstall; 3]),
            (json!({ "remediation": "none" }), [Remediation::None; 3]),
            (json!({}), [Remediation::None; 3]),
        ] {
            let upgrade = policy(&json!({}), &json!({ "upgrade": own })).upgrade;
            assert_eq!(
                [1, 2, 3].map(|number| upgrade.remediation_of(&attempt(
                    AttemptAction::Upgrade,
                    ":a",
                    number
                ))),
                expected,
                "{own}"
            );
        }
        // Nothing was deployed before an installation.
        let install = policy(&json!({}), &json!({ "install": { "remediation": "rollback" } })).install;
        assert_eq!(install.remediation, Remediation::None);
    }

    #[test]
    fn enough_revisions_are_kept_for_a_rollback() {
        let rollback = json!({ "upgrade": { "remediation": "rollback" } });
        let history = |max: i64, lifecycle: &Value| {
            policy(&json!({ "helm": { "maxHistory": max } }), lifecycle).history
        };
        for (max, lifecycle, expected) in [
            (0, &Value::Null, 2),
            (1, &Value::Null, 1),
            (0, &json!({}), 2),
            (0, &json!({ "install": {} }), 5),
            (1, &json!({ "install": {} }), 1),
            (0, &rollback, 5),
            (1, &rollback, 3),
            (9, &rollback, 9),
        ] {
            assert_eq!(history(max, lifecycle), expected, "{max} {lifecycle}");
        }
    }

    #[test]
    fn what_happens_at_the_end_is_known_before() {
        let on_delete = |lifecycle: &Value| policy(&json!({}), lifecycle).on_delete;
        for lifecycle in [
            Value::Null,
            json!({}),
            json!({ "onDelete": "Uninstall", "uninstall": {} }),
        ] {
            assert!(on_delete(&lifecycle).is_default(), "{lifecycle}");
        }
        let own = json!({ "onDelete": "Keep", "uninstall": { "keepHistory": true, "timeout": "90s", "disableHooks": true } });
        assert_eq!(
            on_delete(&own).to_string(),
            "Keep.keepHistory.disableHooks.timeout-90000"
        );
        let of_helm = json!({ "helm": { "timeoutSeconds": 600 } });
        let timeout = |lifecycle: &Value| policy(&of_helm, lifecycle).on_delete.timeout;
        assert_eq!(timeout(&own), Some(Duration::from_secs(90)));
        assert_eq!(
            timeout(&json!({ "uninstall": {} })),
            Some(Duration::from_mins(10))
        );
        assert_eq!(timeout(&json!({ "install": {} })), Some(Duration::from_mins(10)));
    }

    #[test]
    fn tests_are_included_and_excluded_by_name() {
        let own = json!({ "test": { "enable": true, "timeout": "90s", "filters": [
            { "name": "a" }, { "name": "b", "exclude": true }
        ] } });
        let test = policy(&json!({}), &own).test.unwrap();
        assert_eq!(
            (test.filters.include, test.filters.exclude),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        assert_eq!(test.timeout, Duration::from_secs(90));
        assert_eq!(
            policy(&json!({}), &json!({ "test": { "filters": [] } })).test,
            None
        );
    }
}
