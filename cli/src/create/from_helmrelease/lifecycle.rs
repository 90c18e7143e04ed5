//! The life cycle of a HelmRelease. Flux's defaults are written into `spec.lifecycle`: those of a HelmOp without it are Fleet's.

use std::time::Duration;

use helmops_api::lifecycle::{
    ActionPolicy, Dependency, DriftIgnore, DriftPolicy, ObjectSelector, ReadyExpression, TestFilter,
    TestPolicy, UninstallPolicy, WaitPolicy,
};
use serde_json::Value;

use super::{HELM, actions, post_render::selector};
use crate::create::{
    draft::Draft,
    note::{self, Gap, Note},
    objects::{
        Objects,
        fields::{Fields, of_both},
        pauses::{self, MAX_RETRIES, Pauses},
        timeout,
    },
};

/// What Flux does with the CRDs of a chart, in upgrades too.
const DEFAULT_CRDS: &str = "Create";

/// The pauses of Flux between attempts.
const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(750),
    factor: 2.0,
    longest: Duration::from_mins(15),
};

/// Converts everything that happens around an installation or upgrade.
pub fn convert(all: &Objects, spec: &mut Fields<'_>, draft: &mut Draft) {
    let own = draft.helmop.spec.bundle.options.lifecycle.take();
    let mut lifecycle = own.unwrap_or_default();
    lifecycle.suspend = spec.flag("suspend").filter(|suspend| *suspend);
    if lifecycle.suspend == Some(true) {
        draft.notes.push(spec.note("suspend", note::SUSPENDED));
    }
    let mut test = test(spec, &mut draft.notes);
    let mut install = spec.mapping("install");
    let mut upgrade = spec.mapping("upgrade");
    let (mut of_install, install_ignores) = action(&mut install, true, draft);
    let (mut of_upgrade, upgrade_ignores) = action(&mut upgrade, false, draft);
    actions::deployment(
        (&mut install, &mut of_install),
        (&mut upgrade, &mut of_upgrade),
        draft,
    );
    if let Some(test) = &mut test
        && test.enable
    {
        let own = test.ignore_failures;
        let ignores = [install_ignores, upgrade_ignores].map(|of_action| of_action.unwrap_or(own));
        let of_action = "remediation.ignoreTestFailures";
        // An action without the field has that of the tests.
        let places = [(install_ignores, &install), (upgrade_ignores, &upgrade)]
            .map(|(own, action)| own.map_or((&*spec, "test.ignoreFailures"), |_| (action, of_action)));
        let message = "lifecycle.test.ignoreFailures counts for installations and upgrades alike; it is not set, so a failed test fails both";
        test.ignore_failures = of_both(ignores, places, message, &mut draft.notes);
    }
    history(spec, &of_upgrade, draft);
    waits_for_jobs((&mut install, &of_install), (&mut upgrade, &of_upgrade), draft);
    let wait = waiting(spec, draft);
    let timeout = wait.timeout.as_deref();
    lifecycle.rollback = actions::rollback(spec.mapping("rollback"), &of_upgrade, timeout, &mut draft.notes);
    lifecycle.install = Some(of_install);
    lifecycle.upgrade = Some(of_upgrade);
    lifecycle.wait = Some(wait);
    install.finish(&mut draft.notes);
    upgrade.finish(&mut draft.notes);
    lifecycle.test = test;
    lifecycle.uninstall = uninstall(spec, &mut draft.notes);
    lifecycle.drift = drift(spec, &mut draft.notes);
    lifecycle.depends_on = dependencies(all, spec, &mut draft.notes);
    draft.helmop.spec.bundle.options.lifecycle = Some(lifecycle);
}

/// `install` or `upgrade`: retries, remediation and CRDs; and whether a failed test does not count.
fn action(fields: &mut Fields<'_>, is_install: bool, draft: &mut Draft) -> (ActionPolicy, Option<bool>) {
    let notes = &mut draft.notes;
    let mut policy = ActionPolicy {
        crds: fields.text("crds").unwrap_or_else(|| DEFAULT_CRDS.to_owned()),
        ..ActionPolicy::default()
    };
    let mut strategy = fields.mapping("strategy");
    let retries_on_failure = strategy.text("name").as_deref() == Some("RetryOnFailure");
    if retries_on_failure {
        policy.retries = MAX_RETRIES;
    }
    policy.retry_interval = strategy.text("retryInterval");
    strategy.finish(notes);
    let mut remediation = fields.mapping("remediation");
    let mut is_endless = retries_on_failure;
    if let Some(retries) = remediation.number("retries")
        && !retries_on_failure
    {
        is_endless = pauses::retry(&mut policy, retries, PAUSES);
    }
    if is_endless {
        let field = if retries_on_failure {
            "strategy"
        } else {
            "remediation.retries"
        };
        notes.push(fields.note(field, pauses::endless("Flux")));
    }
    let remediates_last = remediation.flag("remediateLastFailure");
    let strategy = remediation.text("strategy");
    // Without retries, Flux only remediates if the last failure is to be remediated.
    if !retries_on_failure && (policy.retries > 0 || remediates_last == Some(true)) {
        policy.remediation = match (is_install, strategy) {
            (true, _) => "uninstall".to_owned(),
            (false, strategy) => strategy.unwrap_or_else(|| "rollback".to_owned()),
        };
        let remediates_last = remediates_last.unwrap_or(!is_install);
        policy.remediate_last_failure = (!remediates_last).then_some(false);
    }
    let ignores_tests = remediation.flag("ignoreTestFailures");
    remediation.finish(notes);
    (policy, ignores_tests)
}

/// The number of revisions.
fn history(spec: &mut Fields<'_>, upgrade: &ActionPolicy, draft: &mut Draft) {
    let Some(mut history) = spec.number("maxHistory") else {
        return;
    };
    if history == 0 {
        let text = "0 keeps all revisions in Flux; here it is not set, which keeps 5";
        draft.notes.push(spec.note("maxHistory", text));
    }
    if history == 1 && upgrade.remediation == "rollback" {
        history = 2;
        let text = "1 keeps no revision for the rollback of upgrade.remediation, so it is 2; the agent keeps at least 3 then";
        draft.notes.push(spec.note("maxHistory", text));
    }
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    helm.max_history = history;
}

/// What is awaited, and for how long, also by hooks. Actions may have a time of their own.
fn waiting(spec: &mut Fields<'_>, draft: &mut Draft) -> WaitPolicy {
    let timeout = spec.text("timeout");
    // One that does not parse is reported with the HelmOp.
    let parsed = timeout.as_deref().map(go_formats::duration::parse);
    let hooks = parsed.and_then(Result::ok).unwrap_or(timeout::DEFAULT);
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    helm.timeout_seconds = timeout::of_hooks(hooks);
    WaitPolicy {
        timeout: Some(timeout.unwrap_or_else(|| "5m".to_owned())),
        expressions: expressions(spec, &mut draft.notes),
        ..WaitPolicy::default()
    }
}

/// Decides about Jobs: `helm.waitForJobs` counts for both actions.
fn waits_for_jobs<'d>(
    (install, of_install): (&mut Fields<'d>, &ActionPolicy),
    (upgrade, of_upgrade): (&mut Fields<'d>, &ActionPolicy),
    draft: &mut Draft,
) {
    let field = "disableWaitForJobs";
    let [no_install, no_upgrade] = [install.flag(field), upgrade.flag(field)].map(|flag| flag == Some(true));
    let one = "helm.waitForJobs counts for installations and upgrades alike; it is set";
    let waits_for_jobs = match (of_install.disable_wait, of_upgrade.disable_wait) {
        (false, false) => !of_both(
            [no_install, no_upgrade],
            [(&*install, field), (&*upgrade, field)],
            one,
            &mut draft.notes,
        ),
        // Without a wait there is none for Jobs.
        (true, false) => !no_upgrade,
        (false, true) => !no_install,
        (true, true) => false,
    };
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    helm.wait_for_jobs = waits_for_jobs;
}

fn test(spec: &mut Fields<'_>, notes: &mut Vec<Note>) -> Option<TestPolicy> {
    let mut test = spec.mapping("test");
    let mut filters = Vec::new();
    for mut filter in test.list("filters") {
        filters.push(TestFilter {
            name: filter.text("name").unwrap_or_default(),
            exclude: filter.flag("exclude").unwrap_or_default(),
            ..TestFilter::default()
        });
        filter.finish(notes);
    }
    let policy = TestPolicy {
        enable: test.flag("enable").unwrap_or_default(),
        ignore_failures: test.flag("ignoreFailures").unwrap_or_default(),
        timeout: test.text("timeout"),
        filters,
        ..TestPolicy::default()
    };
    test.finish(notes);
    (policy != TestPolicy::default()).then_some(policy)
}

fn uninstall(spec: &mut Fields<'_>, notes: &mut Vec<Note>) -> Option<UninstallPolicy> {
    let mut fields = spec.mapping("uninstall");
    let policy = UninstallPolicy {
        keep_history: fields.flag("keepHistory").unwrap_or_default(),
        timeout: fields.text("timeout"),
        disable_hooks: fields.flag("disableHooks").unwrap_or_default(),
        // The default needs no field.
        deletion_propagation: fields
            .text("deletionPropagation")
            .filter(|propagation| propagation != "background")
            .unwrap_or_default(),
        ..UninstallPolicy::default()
    };
    // The agent does not wait for the deletion of objects.
    if fields.flag("disableWait") == Some(false) {
        notes.push(fields.note(
            "disableWait",
            "an uninstallation does not wait until the objects are gone",
        ));
    }
    fields.finish(notes);
    (policy != UninstallPolicy::default()).then_some(policy)
}

fn drift(spec: &mut Fields<'_>, notes: &mut Vec<Note>) -> Option<DriftPolicy> {
    let mut fields = spec.mapping("driftDetection");
    if fields.is_empty() {
        return None;
    }
    let mut policy = DriftPolicy {
        mode: fields.text("mode").unwrap_or_default(),
        ..DriftPolicy::default()
    };
    for mut entry in fields.list("ignore") {
        let paths = match entry.take("paths") {
            Some(Value::Array(paths)) => paths,
            _ => Vec::new(),
        };
        let paths: Vec<_> = paths
            .iter()
            .filter_map(|path| Some(path.as_str()?.to_owned()))
            .collect();
        for selector in selectors(entry.mapping("target"), notes) {
            policy.ignore.push(DriftIgnore {
                paths: paths.clone(),
                target: (selector != ObjectSelector::default()).then_some(selector),
                ..DriftIgnore::default()
            });
        }
        entry.finish(notes);
    }
    fields.finish(notes);
    Some(policy)
}

/// The selectors of a target. Flux has regular expressions in all of its names, a HelmOp in `name` and `namespace`.
fn selectors(mut target: Fields<'_>, notes: &mut Vec<Note>) -> Vec<ObjectSelector> {
    let [groups, versions, kinds] =
        ["group", "version", "kind"].map(|field| alternatives(&mut target, field, notes));
    let others = selector(&mut target);
    target.finish(notes);
    let mut selectors = Vec::new();
    for group in &groups {
        for version in &versions {
            selectors.extend(kinds.iter().map(|kind| ObjectSelector {
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                ..others.clone()
            }));
        }
    }
    selectors
}

/// The texts that a regular expression such as `Role|RoleBinding` matches; an empty one for all.
fn alternatives(target: &mut Fields<'_>, field: &str, notes: &mut Vec<Note>) -> Vec<String> {
    let pattern = target.text(field).unwrap_or_default();
    if pattern.is_empty() || pattern == ".*" {
        return vec![String::new()];
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let texts: Vec<_> = pattern.split('|').map(str::to_owned).collect();
    if !texts
        .iter()
        .all(|text| !text.is_empty() && text.chars().all(is_plain))
    {
        let text = format!(
            "{pattern:?} is a regular expression, and a HelmOp has them in name and namespace only; list the texts, as in Role|RoleBinding"
        );
        notes.push(target.refusal(field, Gap::Valid, text));
    }
    texts
}

fn expressions(spec: &mut Fields<'_>, notes: &mut Vec<Note>) -> Vec<ReadyExpression> {
    let mut expressions = Vec::new();
    for mut entry in spec.list("healthCheckExprs") {
        let mut text = |name| entry.text(name).unwrap_or_default();
        expressions.push(ReadyExpression {
            api_version: text("apiVersion"),
            kind: text("kind"),
            failed: text("failed"),
            in_progress: text("inProgress"),
            current: text("current"),
            ..ReadyExpression::default()
        });
        entry.finish(notes);
    }
    expressions
}

fn dependencies(all: &Objects, spec: &mut Fields<'_>, notes: &mut Vec<Note>) -> Vec<Dependency> {
    let own = spec.document().text("/metadata/namespace");
    let mut dependencies = Vec::new();
    for mut entry in spec.list("dependsOn") {
        let name = entry.text("name").unwrap_or_default();
        let other = entry.text("namespace").filter(|namespace| namespace != own);
        if other.is_some_and(|namespace| !all.has((HELM, "HelmRelease"), (&namespace, &name))) {
            let text = format!(
                "HelmOp {name:?} has to be in the namespace of this HelmOp; if it is in another one, write lifecycle.dependsOn.namespace"
            );
            notes.push(entry.note("namespace", text));
        }
        entry.lost(
            "readyExpr",
            "an expression about a HelmRelease; write lifecycle.dependsOn.ready with the BundleDeployments dep and self",
            notes,
        );
        entry.finish(notes);
        dependencies.push(Dependency {
            name,
            ..Dependency::default()
        });
    }
    dependencies
}
