//! Every state and every action of Flux's helm-controller, and what follows here from the same records.
//!
//! A row is one situation: the records of the release, and the spec of the BundleDeployment, with the policy. From them follow the state
//! and the step. Rows without a state of Flux are situations that it does not distinguish. Where the step is another one than Flux's, the
//! row says why.
//!
//! Flux's `Unknown` has two causes. Storage that cannot be read leads to no decision here either: it is an error, which is retried. A
//! status that it does not expect has a state and a step here: there is no other way out of it.

use std::collections::BTreeSet;

use helmops_api::bundle_deployment::BundleDeploymentSpec;
use serde_json::{Value, json};

use super::{
    tests::{FAILED_AT, at, text},
    *,
};
use crate::{
    drift::DriftMode,
    gate::Held,
    history::Revision,
    marks,
    record::{Attempt, Cause, Record, Status, TestState, interrupted},
    state::{Applied, Wanted},
};

const ID: &str = ":new";
const OLD: &str = ":old";
const AGENT: &str = "cattle-fleet-system";
const NOT_READY: &str = "not ready: deployment.apps shop/web is not ready";

/// A situation, and what follows.
struct Row {
    /// Flux's state and action; empty if it has none for this.
    flux: [&'static str; 2],
    situation: &'static str,
    records: Vec<Record>,
    spec: Value,
    /// What the status shows as deployed: deployment ID and revision.
    applied: Option<(&'static str, u64)>,
    requested: Requested,
    /// Seconds since the last record was changed.
    seconds: i64,
    /// The state and the step here.
    expected: [&'static str; 2],
    /// Why the step is not Flux's; empty if it is.
    why: &'static str,
}

fn row(state: &'static str, action: &'static str, situation: &'static str) -> Row {
    Row {
        flux: [state, action],
        situation,
        records: Vec::new(),
        spec: spec(&json!({})),
        applied: None,
        requested: Requested::default(),
        seconds: 0,
        expected: ["", ""],
        why: "",
    }
}

impl Row {
    fn records(self, records: impl Into<Vec<Record>>) -> Self {
        let records = records.into();
        Self { records, ..self }
    }

    fn lifecycle(self, lifecycle: &Value) -> Self {
        self.spec(spec(lifecycle))
    }

    fn spec(self, spec: Value) -> Self {
        Self { spec, ..self }
    }

    fn applied(self, deployment_id: &'static str, revision: u64) -> Self {
        let applied = Some((deployment_id, revision));
        Self { applied, ..self }
    }

    fn requested(self, requested: Requested) -> Self {
        Self { requested, ..self }
    }

    fn after(self, seconds: i64) -> Self {
        Self { seconds, ..self }
    }

    fn leads_to(self, state: &'static str, step: &'static str) -> Self {
        let expected = [state, step];
        Self { expected, ..self }
    }

    fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// The state and the step that follow, as the reconciliation of the agent finds them.
    fn found(&self) -> [String; 2] {
        let spec: BundleDeploymentSpec = serde_json::from_value(self.spec.clone()).unwrap();
        if let Some(held) = Held::of(&spec) {
            return [format!("held: {held:?}"), String::new()];
        }
        let policy = Policy::of(&spec.options, spec.lifecycle.as_deref());
        let now = at(FAILED_AT + self.seconds);
        let revision = |record| Revision::of(record, AGENT, Some(at(FAILED_AT)));
        let history = History::new(self.records.iter().map(revision).collect());
        let wanted = Wanted {
            bundle_deployment: "web",
            deployment_id: &spec.deployment_id,
            applied: self.applied.map(|(deployment_id, revision)| Applied {
                deployment_id,
                revision,
            }),
            takes_ownership: spec.options.helm.as_ref().is_some_and(|helm| helm.take_ownership),
        };
        let state = ReleaseState::of(&wanted, &history);
        let details = [
            may_recover(&history, &spec.deployment_id).map(|_| "may recover".to_owned()),
            self.tests(&policy, &state),
            drift(&spec),
        ];
        let mut shown = state_name(&state).to_owned();
        for detail in details.into_iter().flatten() {
            shown = format!("{shown}, {detail}");
        }
        let step = next(Situation {
            state,
            history: &history,
            policy: &policy,
            deployment_id: &spec.deployment_id,
            requested: self.requested,
            is_reported: true,
            now,
        });
        [shown, text(&step)]
    }

    fn tests(&self, policy: &Policy, state: &ReleaseState) -> Option<String> {
        let ReleaseState::Current { revision } = state else {
            return None;
        };
        let test = policy.test.as_ref()?;
        let newest = self.records.iter().find(|record| record.revision == *revision)?;
        let tests = match newest.tests(&test.filters) {
            TestState::NoTests => "no tests",
            TestState::NotRun => "not tested",
            TestState::Succeeded => "tested",
            TestState::Failed(_) if test.ignores_failures => "failed test ignored",
            TestState::Failed(_) => "failed test",
        };
        Some(tests.to_owned())
    }
}

fn drift(spec: &BundleDeploymentSpec) -> Option<String> {
    spec.lifecycle.as_ref()?.drift.as_ref()?;
    let drift = match DriftMode::of(spec) {
        DriftMode::Disabled => "drift not looked for",
        DriftMode::Reported => "drift reported",
        DriftMode::Corrected(_) => "drift reported and corrected",
    };
    Some(drift.to_owned())
}

const fn state_name(state: &ReleaseState) -> &'static str {
    match state {
        ReleaseState::Absent => "absent",
        ReleaseState::Busy(_) => "busy",
        ReleaseState::Interrupted(_) => "interrupted",
        ReleaseState::Current { .. } => "current",
        ReleaseState::Outdated { .. } => "outdated",
        ReleaseState::Unmanaged { .. } => "unmanaged",
        ReleaseState::Failed(_) => "failed",
        ReleaseState::Uninstalling => "uninstalling",
        ReleaseState::Uninstalled => "uninstalled",
        ReleaseState::Foreign(_) => "foreign",
    }
}

fn spec(lifecycle: &Value) -> Value {
    json!({ "deploymentID": ID, "lifecycle": lifecycle })
}

/// A spec that may take over releases of other owners.
fn takes_over() -> Value {
    json!({ "deploymentID": ID, "options": { "helm": { "takeOwnership": true } } })
}

/// One retry after a minute, and this remediation for both actions.
fn policy(remediation: &str) -> Value {
    let rollback = if remediation == "rollback" {
        "none"
    } else {
        remediation
    };
    json!({
        "install": { "retries": 1, "retryInterval": "1m", "remediation": rollback },
        "upgrade": { "retries": 1, "retryInterval": "1m", "remediation": remediation },
    })
}

fn record(revision: u64, status: Status, description: &str, annotations: &Value) -> Record {
    serde_json::from_value(json!({
        "name": "web", "namespace": "shop", "version": revision,
        "info": { "status": status.as_str(), "description": description, "last_deployed": "1970-01-12T13:46:40Z" },
        "chart": { "metadata": { "name": "web", "version": "1.2.0", "annotations": annotations } },
    }))
    .unwrap()
}

fn annotations(bundle_deployment: &str, attempt: Option<&Attempt>) -> Value {
    json!({
        marks::BUNDLE_ID: bundle_deployment,
        marks::AGENT_NAMESPACE: AGENT,
        marks::ATTEMPT: attempt.map_or_else(String::new, ToString::to_string),
    })
}

/// A revision that an attempt of this agent has made.
fn attempt(
    revision: u64,
    status: Status,
    action: AttemptAction,
    id: &str,
    number: u32,
    text: &str,
) -> Record {
    let attempt = Attempt {
        action,
        deployment_id: id.to_owned(),
        cause: Cause::Change,
        number,
    };
    record(revision, status, text, &annotations("web", Some(&attempt)))
}

fn good(revision: u64, status: Status) -> Record {
    attempt(
        revision,
        status,
        AttemptAction::Upgrade,
        OLD,
        1,
        "Upgrade complete",
    )
}

fn current() -> Record {
    attempt(
        2,
        Status::Deployed,
        AttemptAction::Upgrade,
        ID,
        1,
        "Upgrade complete",
    )
}

fn failed(revision: u64, number: u32) -> Record {
    attempt(
        revision,
        Status::Failed,
        AttemptAction::Upgrade,
        ID,
        number,
        "timed out",
    )
}

fn failed_install(status: Status, number: u32) -> Record {
    let text = if status == Status::Uninstalled {
        "uninstalled after a failure: timed out"
    } else {
        "timed out"
    };
    attempt(1, status, AttemptAction::Install, ID, number, text)
}

/// A rollback to a good revision: its record has the chart of that one.
fn rollback(revision: u64, status: Status) -> Record {
    let text = if status == Status::Failed {
        "Rollback \"web\" failed: timed out"
    } else {
        "Rollback to 1"
    };
    attempt(revision, status, AttemptAction::Upgrade, OLD, 1, text)
}

fn of_user(revision: u64, status: Status) -> Record {
    record(revision, status, "Upgrade complete", &Value::Null)
}

fn of_fleet(revision: u64, status: Status) -> Record {
    record(revision, status, "Upgrade complete", &annotations("web", None))
}

/// The current revision with a test that ended in this phase; empty if it has not run.
fn tested(phase: &str) -> Record {
    let run = if phase.is_empty() {
        Value::Null
    } else {
        json!({ "started_at": "1970-01-12T13:46:41Z", "completed_at": "1970-01-12T13:46:42Z", "phase": phase })
    };
    let hook = json!([{
        "name": "web-check", "kind": "Pod", "path": "web/templates/check.yaml", "events": ["test"], "last_run": run,
        "manifest": "apiVersion: v1\nkind: Pod\nmetadata: {name: web-check}\n",
    }]);
    Record {
        hooks: serde_json::from_value(hook).unwrap(),
        ..current()
    }
}

const FORCE: Requested = Requested {
    attempt: false,
    force: true,
    reset: false,
};

const PENDING: [Status; 3] = [
    Status::PendingInstall,
    Status::PendingUpgrade,
    Status::PendingRollback,
];

fn without_a_release() -> Vec<Row> {
    vec![
        row("Absent", "install", "there is no record").leads_to("absent", "install, replaces: false"),
        row("Absent", "install", "a user uninstalled it and kept the records")
            .records([good(1, Status::Uninstalled)])
            .leads_to("uninstalled", "install, replaces: true"),
        row(
            "Absent",
            "install",
            "another owner uninstalled a release of that name",
        )
        .records([of_user(1, Status::Uninstalled)])
        .leads_to("uninstalled", "install, replaces: true"),
        row("Absent", "install", "an upgrade failed and was uninstalled")
            .lifecycle(&policy("uninstall"))
            .records([attempt(
                2,
                Status::Uninstalled,
                AttemptAction::Upgrade,
                ID,
                2,
                "uninstalled after a failure: x",
            )])
            .leads_to("uninstalled", "install, replaces: true"),
        row(
            "Absent",
            "install",
            "an installation failed, was uninstalled, and is to be repeated",
        )
        .lifecycle(&policy("uninstall"))
        .records([failed_install(Status::Uninstalled, 1)])
        .leads_to("uninstalled", "wait 60, Uninstalled")
        .because("Flux repeats it with its backoff; here, the interval is that of the policy"),
        row(
            "Absent",
            "install",
            "an installation failed, was uninstalled, and its interval is over",
        )
        .lifecycle(&policy("uninstall"))
        .records([failed_install(Status::Uninstalled, 1)])
        .after(60)
        .leads_to("uninstalled", "install, replaces: true"),
        row("Absent", "give up", "the retries of the installation are used up")
            .lifecycle(&policy("uninstall"))
            .records([failed_install(Status::Uninstalled, 2)])
            .after(60)
            .leads_to("uninstalled", "wait 3600, Uninstalled")
            .because("nothing is given up: one attempt an hour"),
        row(
            "Absent",
            "install",
            "the retries are used up, and a deployment is forced",
        )
        .lifecycle(&policy("uninstall"))
        .records([failed_install(Status::Uninstalled, 2)])
        .requested(FORCE)
        .leads_to("uninstalled", "install, replaces: true"),
        row("Unknown", "error", "an uninstallation was interrupted")
            .records([good(1, Status::Uninstalling)])
            .leads_to("uninstalling", "Uninstall")
            .because("Flux has no way out; the uninstallation is completed, then the release is installed"),
    ]
}

fn pending() -> Vec<Row> {
    let text = "an operation was interrupted";
    let mut rows = Vec::new();
    for status in PENDING {
        let own = attempt(2, status, AttemptAction::Upgrade, ID, 1, "Preparing upgrade");
        rows.extend([
            row("Locked", "unlock", text)
                .records([good(1, Status::Deployed), own])
                .leads_to("interrupted", "Unlock { revision: 2 }"),
            row("Locked", "unlock", "an operation of another Helm is in progress")
                .records([of_user(2, status)])
                .spec(takes_over())
                .leads_to("busy", "wait for 2")
                .because("Flux unlocks it while that Helm is at work"),
        ]);
    }
    let interrupted = interrupted(Status::PendingUpgrade);
    let unlocked = attempt(2, Status::Failed, AttemptAction::Upgrade, ID, 1, &interrupted);
    rows.extend([
        row("Failed", "upgrade", "an interrupted upgrade was unlocked")
            .lifecycle(&policy("rollback"))
            .records([good(1, Status::Superseded), unlocked])
            .leads_to("failed", "upgrade without 2")
            .because("an interruption is no failure: it is neither counted nor remediated"),
        row("Unmanaged", "upgrade", "another Helm uninstalls its own release")
            .records([of_user(2, Status::Uninstalling)])
            .spec(takes_over())
            .leads_to("busy", "wait for 2")
            .because("its end is waited for; Helm would refuse the upgrade"),
    ]);
    rows
}

fn of_other_owners() -> Vec<Row> {
    let explicit = "a release is taken over only if takeOwnership is set";
    let mut rows = Vec::new();
    for status in [
        Status::Deployed,
        Status::Superseded,
        Status::Failed,
        Status::Unknown,
    ] {
        rows.push(
            row(
                "Unmanaged",
                "upgrade",
                "a release of that name was made by a user",
            )
            .records([of_user(1, status)])
            .leads_to("foreign", "Refuse(Unmanaged)")
            .because(explicit),
        );
    }
    let other = annotations("other", None);
    rows.extend([
        row("Unmanaged", "upgrade", "takeOwnership is set")
            .records([of_user(1, Status::Deployed)])
            .spec(takes_over())
            .leads_to("unmanaged", "TakeOver { revision: 1 }")
            .because("it is only upgraded if anything differs"),
        row(
            "Unmanaged",
            "upgrade",
            "takeOwnership is set, and nothing was deployed",
        )
        .records([of_user(1, Status::Failed)])
        .spec(takes_over())
        .leads_to("failed", "install, replaces: true")
        .because("an upgrade would skip the hooks of the installation"),
        row(
            "Unmanaged",
            "upgrade",
            "a user has upgraded the release with another chart",
        )
        .records([good(1, Status::Superseded), of_user(2, Status::Deployed)])
        .leads_to("foreign", "Refuse(Unmanaged)")
        .because(explicit),
        row(
            "Unmanaged",
            "upgrade",
            "a user has rolled it back to what was wanted before",
        )
        .records([
            good(1, Status::Superseded),
            attempt(2, Status::Superseded, AttemptAction::Upgrade, ID, 1, ""),
            rollback(3, Status::Deployed),
        ])
        .leads_to("outdated", "upgrade"),
        row(
            "Unmanaged",
            "upgrade",
            "a record was rewritten, and names what is wanted",
        )
        .records([current()])
        .leads_to("current", "None")
        .because("records have no digest; drift compares the objects with the record"),
        row("Unmanaged", "upgrade", "the release is that of another object")
            .records([record(1, Status::Deployed, "", &other)])
            .spec(takes_over())
            .leads_to("foreign", "Refuse(BundleDeployment(\"other\"))")
            .because("in Flux, two objects with one release replace it in turn"),
        row("", "", "Fleet's agent has deployed what is wanted")
            .records([of_fleet(3, Status::Deployed)])
            .applied(ID, 3)
            .leads_to("current", "None"),
        row(
            "",
            "",
            "Fleet's agent has deployed it, and has corrected drift since",
        )
        .records([of_fleet(3, Status::Superseded), of_fleet(4, Status::Deployed)])
        .applied(ID, 3)
        .leads_to("current", "None"),
        row("", "", "Fleet's agent has deployed something else")
            .records([of_fleet(3, Status::Deployed)])
            .applied(OLD, 3)
            .leads_to("outdated", "upgrade"),
    ]);
    rows
}

fn deployed() -> Vec<Row> {
    let mut renamed = good(1, Status::Deployed);
    renamed.chart["metadata"]["name"] = json!("website");
    vec![
        row("InSync", "none", "what is wanted is deployed")
            .records([good(1, Status::Superseded), current()])
            .leads_to("current", "None"),
        row("InSync", "upgrade", "a deployment is forced")
            .records([current()])
            .requested(FORCE)
            .leads_to("current", "upgrade"),
        row(
            "InSync",
            "none",
            "an upgrade failed, and what runs is wanted again",
        )
        .records([
            good(1, Status::Superseded),
            failed(2, 1),
            rollback(3, Status::Deployed),
        ])
        .spec(json!({ "deploymentID": OLD, "lifecycle": policy("rollback") }))
        .leads_to("current", "None"),
        row(
            "InSync",
            "none",
            "what a rollback has restored is wanted again, and its record was marked as failed",
        )
        .records([
            good(1, Status::Superseded),
            failed(2, 1),
            attempt(
                3,
                Status::Failed,
                AttemptAction::Install,
                OLD,
                1,
                "Rollback: test failed: Pod shop/web-check",
            ),
        ])
        .spec(json!({ "deploymentID": OLD, "lifecycle": policy("uninstall") }))
        .leads_to("failed", "upgrade without 3")
        .because("it is repeated, and never remediated as the attempt that it restores"),
        row(
            "InSync",
            "none",
            "an attempt of the same deployment was forced, failed and was rolled back",
        )
        .lifecycle(&policy("rollback"))
        .records(restored_itself())
        .leads_to("current", "wait 60, RolledBack { revision: 3 }")
        .because("an attempt that failed is repeated, also if what runs is the same"),
        row("InSync", "none", "the same, and the interval is over")
            .lifecycle(&policy("rollback"))
            .records(restored_itself())
            .after(60)
            .leads_to("current", "upgrade")
            .because("an attempt that failed is repeated, also if what runs is the same"),
        row(
            "OutOfSync",
            "upgrade",
            "the chart, the values or other options have changed",
        )
        .records([good(1, Status::Deployed)])
        .leads_to("outdated", "upgrade"),
        row("OutOfSync", "upgrade", "the chart has another name")
            .records([renamed])
            .leads_to("outdated", "upgrade")
            .because("Flux uninstalls the release first, unless InPlaceUpdate is set"),
        row("OutOfSync", "none", "only the life cycle has changed")
            .records([current()])
            .lifecycle(&policy("rollback"))
            .leads_to("current", "None")
            .because("Flux compares no policy either, but forgets the failures; here, they still count"),
        row(
            "Unknown",
            "error",
            "no revision is deployed, and an old one is superseded",
        )
        .records([good(1, Status::Superseded)])
        .leads_to("outdated", "upgrade")
        .because("Helm upgrades from a superseded revision as well"),
        row("Unknown", "error", "the newest revision has an unknown status")
            .records([
                good(1, Status::Deployed),
                attempt(2, Status::Unknown, AttemptAction::Upgrade, ID, 1, ""),
            ])
            .leads_to("failed", "upgrade without 2")
            .because("Flux has no way out"),
    ]
}

fn tested_or_drifted() -> Vec<Row> {
    let tests = |parts: Value| {
        let mut test = json!({ "enable": true });
        test.as_object_mut()
            .unwrap()
            .extend(parts.as_object().unwrap().clone());
        json!({ "test": test })
    };
    let enabled = tests(json!({}));
    let drift = |mode: &str| json!({ "drift": { "mode": mode } });
    vec![
        row("Untested", "test", "tests are enabled, and have not run")
            .records([tested("")])
            .lifecycle(&enabled)
            .leads_to("current, not tested", "None"),
        row(
            "Untested",
            "test",
            "a test has started, and its end was not recorded",
        )
        .records([tested("Running")])
        .lifecycle(&enabled)
        .leads_to("current, not tested", "None"),
        row("InSync", "none", "the tests have succeeded")
            .records([tested("Succeeded")])
            .lifecycle(&enabled)
            .leads_to("current, tested", "None"),
        row("Untested", "test", "a rollback has restored what is wanted")
            .records([tested("Succeeded").with_status(Status::Deployed, "Rollback to 1".to_owned())])
            .lifecycle(&enabled)
            .leads_to("current, tested", "None")
            .because("its tests are those of the revision that it restores, and do not run again"),
        row("InSync", "none", "the chart has no tests")
            .records([current()])
            .lifecycle(&enabled)
            .leads_to("current, no tests", "None"),
        row(
            "Failed",
            "remediate",
            "a test has failed, and its record is to be marked",
        )
        .records([tested("Failed")])
        .lifecycle(&enabled)
        .leads_to("current, failed test", "None")
        .because("the agent marks the record as failed, so that a restart forgets nothing; see below"),
        row("InSync", "none", "a test has failed, and failures are ignored")
            .records([tested("Failed")])
            .lifecycle(&tests(json!({ "ignoreFailures": true })))
            .leads_to("current, failed test ignored", "None"),
        row("Drifted", "correct drift", "drift is corrected")
            .records([current()])
            .lifecycle(&drift("enabled"))
            .leads_to("current, drift reported and corrected", "None"),
        row("Drifted", "report drift", "drift is reported")
            .records([current()])
            .lifecycle(&drift("warn"))
            .leads_to("current, drift reported", "None"),
        row("InSync", "none", "drift detection is disabled")
            .records([current()])
            .lifecycle(&drift("disabled"))
            .leads_to("current, drift not looked for", "None"),
    ]
}

fn failed_attempts() -> Vec<Row> {
    let before = || good(1, Status::Superseded);
    let (rolls_back, retries) = (policy("rollback"), policy("none"));
    let mut keeps_last = policy("rollback");
    keeps_last["upgrade"]["remediateLastFailure"] = json!(false);
    vec![
        row("Failed", "upgrade", "RetryOnFailure, before the interval is over")
            .lifecycle(&retries)
            .records([before(), failed(2, 1)])
            .after(59)
            .leads_to("failed", "wait 60, None"),
        row("Failed", "upgrade", "RetryOnFailure, after the interval")
            .lifecycle(&retries)
            .records([before(), failed(2, 1)])
            .after(60)
            .leads_to("failed", "upgrade without 2")
            .because("attempts with the same input add no revisions"),
        row("Failed", "upgrade", "RetryOnFailure, after a failed installation")
            .lifecycle(&retries)
            .records([failed_install(Status::Failed, 1)])
            .after(60)
            .leads_to("failed", "install, replaces: true")
            .because("an upgrade would skip the hooks of the installation"),
        row("Failed", "upgrade", "RetryOnFailure, many times")
            .lifecycle(&retries)
            .records([before(), failed(2, 2)])
            .after(60)
            .leads_to("failed", "wait 3600, None")
            .because("Flux repeats it in the same interval forever; here, once an hour after the retries"),
        row("Failed", "upgrade", "it is not known what has failed")
            .lifecycle(&rolls_back)
            .records([of_fleet(1, Status::Superseded), of_fleet(2, Status::Failed)])
            .leads_to("failed", "upgrade"),
        row(
            "Failed",
            "upgrade",
            "something else has failed: the inputs have changed",
        )
        .lifecycle(&rolls_back)
        .records([
            before(),
            attempt(2, Status::Failed, AttemptAction::Upgrade, ":other", 5, "x"),
        ])
        .leads_to("failed", "upgrade"),
        row("Failed", "upgrade", "a deployment is forced")
            .lifecycle(&retries)
            .records([before(), failed(2, 2)])
            .requested(FORCE)
            .leads_to("failed", "upgrade without 2"),
        row(
            "Failed",
            "upgrade",
            "a deployment is forced before the remediation",
        )
        .lifecycle(&rolls_back)
        .records([before(), failed(2, 2)])
        .requested(FORCE)
        .leads_to("failed", "roll back to 1")
        .because("the upgrade follows immediately, from a good revision"),
        row(
            "Failed",
            "give up",
            "the retries are used up, and the last failure is not remediated",
        )
        .lifecycle(&keeps_last)
        .records([before(), failed(2, 2)])
        .leads_to("failed", "wait 3600, None")
        .because("nothing is given up: one attempt an hour"),
    ]
}

/// A revision that the agent has marked as failed.
fn marked(text: &str) -> Record {
    attempt(2, Status::Failed, AttemptAction::Upgrade, ID, 1, text)
}

/// A failed upgrade that was rolled back.
fn restored(number: u32) -> Vec<Record> {
    vec![
        good(1, Status::Superseded),
        failed(2, number),
        rollback(3, Status::Deployed),
    ]
}

/// The same, if the attempt was for the deployment that runs.
fn restored_itself() -> Vec<Record> {
    vec![
        attempt(
            1,
            Status::Superseded,
            AttemptAction::Install,
            ID,
            1,
            "Install complete",
        ),
        failed(2, 1),
        attempt(
            3,
            Status::Deployed,
            AttemptAction::Install,
            ID,
            1,
            "Rollback to 1",
        ),
    ]
}

fn remediations() -> Vec<Row> {
    let before = || good(1, Status::Superseded);
    let (rolls_back, uninstalls) = (policy("rollback"), policy("uninstall"));
    vec![
        row("Failed", "roll back", "a test has failed")
            .lifecycle(&rolls_back)
            .records([before(), marked("test failed: Pod shop/web-check")])
            .leads_to("failed", "roll back to 1"),
        row("Failed", "roll back", "a revision was deployed before")
            .lifecycle(&rolls_back)
            .records([before(), failed(2, 1)])
            .leads_to("failed", "roll back to 1"),
        row(
            "Failed",
            "roll back",
            "Helm failed before it marked the deployed revision",
        )
        .lifecycle(&rolls_back)
        .records([good(1, Status::Deployed), failed(2, 1)])
        .leads_to("failed", "roll back to 1"),
        row("Failed", "roll back", "a test of the revision before has failed")
            .lifecycle(&rolls_back)
            .records([before(), marked("test failed: Pod shop/web-check"), failed(3, 1)])
            .leads_to("failed", "roll back to 1"),
        row(
            "Failed",
            "missing rollback target",
            "no revision was deployed before",
        )
        .lifecycle(&rolls_back)
        .records([failed(2, 1)])
        .leads_to("failed", "wait 60, NoRevision")
        .because("Flux gives up; here, the message says it, and the next attempt follows"),
        row("Failed", "upgrade", "the record of the revision before is gone")
            .lifecycle(&rolls_back)
            .records([before(), failed(3, 1)])
            .leads_to("failed", "roll back to 1")
            .because("what can be restored follows from the records, so an earlier one is restored"),
        row("Failed", "roll back", "Helm has reached its deadline")
            .lifecycle(&rolls_back)
            .records([
                before(),
                marked(
                    "Upgrade \"web\" failed: pre-upgrade hooks failed: Helm did not end before its deadline",
                ),
            ])
            .leads_to("failed", "roll back to 1"),
        row("Failed", "uninstall", "an upgrade has failed")
            .lifecycle(&uninstalls)
            .records([before(), failed(2, 1)])
            .leads_to("failed", "uninstall, keeps record: true"),
        row("Failed", "uninstall", "an installation has failed")
            .lifecycle(&uninstalls)
            .records([failed_install(Status::Failed, 1)])
            .leads_to("failed", "uninstall, keeps record: true"),
        row(
            "OutOfSync",
            "upgrade",
            "it was rolled back, and is to be repeated",
        )
        .lifecycle(&rolls_back)
        .records(restored(1))
        .leads_to("outdated", "wait 60, RolledBack { revision: 3 }")
        .because("Flux repeats it with its backoff; here, the interval is that of the policy"),
        row(
            "OutOfSync",
            "upgrade",
            "it was rolled back, and the interval is over",
        )
        .lifecycle(&rolls_back)
        .records(restored(1))
        .after(60)
        .leads_to("outdated", "upgrade"),
        row(
            "OutOfSync",
            "give up",
            "it was rolled back, and the retries are used up",
        )
        .lifecycle(&rolls_back)
        .records(restored(2))
        .after(60)
        .leads_to("outdated", "wait 3600, RolledBack { revision: 3 }")
        .because("nothing is given up: one attempt an hour"),
        row(
            "OutOfSync",
            "upgrade",
            "the retries are used up, and a deployment is forced",
        )
        .lifecycle(&rolls_back)
        .records(restored(2))
        .requested(FORCE)
        .leads_to("outdated", "upgrade"),
        row("Failed", "upgrade", "the rollback has failed")
            .lifecycle(&rolls_back)
            .records([before(), failed(2, 1), rollback(3, Status::Failed)])
            .leads_to("failed", "roll back to 1")
            .because("it is repeated until the next attempt is due"),
    ]
}

fn beyond_flux() -> Vec<Row> {
    let before = || good(1, Status::Superseded);
    let (rolls_back, retries) = (policy("rollback"), policy("none"));
    vec![
        row(
            "",
            "",
            "not ready in time, and not remediated: it may become ready later",
        )
        .lifecycle(&retries)
        .records([before(), marked(NOT_READY)])
        .leads_to("failed, may recover", "wait 60, None"),
        row(
            "",
            "",
            "not ready in time, and rolled back: it cannot become ready",
        )
        .lifecycle(&rolls_back)
        .records([before(), marked(NOT_READY), rollback(3, Status::Deployed)])
        .leads_to("outdated", "wait 60, RolledBack { revision: 3 }"),
        row("", "", "a slow attempt is due")
            .lifecycle(&rolls_back)
            .records(restored(7))
            .after(3600)
            .leads_to("outdated", "upgrade"),
        row(
            "",
            "",
            "the installations before were replaced, so none was deployed",
        )
        .lifecycle(&rolls_back)
        .records([
            attempt(
                1,
                Status::Superseded,
                AttemptAction::Install,
                ID,
                1,
                "superseded by new release",
            ),
            attempt(2, Status::Failed, AttemptAction::Install, ID, 2, "x"),
        ])
        .after(3600)
        .leads_to("failed", "install, replaces: true"),
        row("", "", "a request makes the next attempt due")
            .lifecycle(&rolls_back)
            .records(restored(2))
            .requested(Requested {
                attempt: true,
                ..Requested::default()
            })
            .leads_to("outdated", "upgrade"),
        row("", "", "the failed attempts are to be forgotten")
            .lifecycle(&rolls_back)
            .records(restored(2))
            .requested(Requested {
                reset: true,
                ..Requested::default()
            })
            .leads_to("outdated", "upgrade"),
        row("", "", "helm.atomic without a life cycle, after the rollback")
            .spec(json!({ "deploymentID": ID, "options": { "helm": { "atomic": true } } }))
            .records(restored(1))
            .leads_to("outdated", "upgrade")
            .because("Fleet's policy: the backoff of the reconciliation decides when"),
    ]
}

fn held() -> Vec<Row> {
    [
        (json!({ "lifecycle": { "suspend": true } }), "held: Suspended"),
        (json!({ "paused": true }), "held: Paused"),
        (json!({ "offSchedule": true }), "held: OffSchedule"),
        (json!({ "waitingForValues": true }), "held: WaitingForValues"),
        (json!({ "deploymentID": "" }), "held: NotPromoted"),
    ]
    .map(|(parts, expected)| {
        let mut spec = spec(&json!({}));
        spec.as_object_mut()
            .unwrap()
            .extend(parts.as_object().unwrap().clone());
        row("", "", "it is held")
            .records([good(1, Status::Superseded), failed(2, 1)])
            .spec(spec)
            .requested(FORCE)
            .leads_to(expected, "")
    })
    .into()
}

fn table() -> Vec<Row> {
    [
        without_a_release(),
        pending(),
        of_other_owners(),
        deployed(),
        tested_or_drifted(),
        failed_attempts(),
        remediations(),
        beyond_flux(),
        held(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_state_and_action_of_flux_has_a_step_here() {
    let mut wrong = Vec::new();
    for row in table() {
        let ([state, action], found) = (row.flux, row.found());
        if found != row.expected {
            let label = format!("{state} -> {action}: {} {}", row.situation, row.why);
            wrong.push(format!("{label}\n    {found:?}, not {:?}", row.expected));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_state_is_left_out() {
    let table = table();
    let names = |name: &dyn Fn(&Row) -> String| table.iter().map(name).collect::<BTreeSet<_>>();
    let states = [
        "",
        "Absent",
        "Drifted",
        "Failed",
        "InSync",
        "Locked",
        "OutOfSync",
        "Unknown",
        "Unmanaged",
        "Untested",
    ];
    let actions = [
        "",
        "correct drift",
        "error",
        "give up",
        "install",
        "missing rollback target",
        "none",
        "remediate",
        "report drift",
        "roll back",
        "test",
        "uninstall",
        "unlock",
        "upgrade",
    ];
    let own = [
        "absent",
        "busy",
        "current",
        "failed",
        "foreign",
        "held: NotPromoted",
        "held: OffSchedule",
        "held: Paused",
        "held: Suspended",
        "held: WaitingForValues",
        "interrupted",
        "outdated",
        "uninstalled",
        "uninstalling",
        "unmanaged",
    ];
    assert_eq!(
        names(&|row| row.flux[0].to_owned()),
        states.map(ToOwned::to_owned).into()
    );
    assert_eq!(
        names(&|row| row.flux[1].to_owned()),
        actions.map(ToOwned::to_owned).into()
    );
    let own_state = |row: &Row| row.expected[0].split(", ").next().unwrap_or_default().to_owned();
    assert_eq!(names(&own_state), own.map(ToOwned::to_owned).into());
}
