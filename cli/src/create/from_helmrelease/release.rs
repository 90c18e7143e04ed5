//! The names and the life cycle of a HelmRelease, and all of its other fields.

use std::{collections::BTreeMap, time::Duration};

use helmops_api::{
    Lifecycle,
    lifecycle::{
        ActionPolicy, Dependency, DriftIgnore, DriftPolicy, ObjectSelector, ReadyExpression, TestFilter,
        TestPolicy, UninstallPolicy, WaitPolicy,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::{Document, Fields, FromHelmRelease, Used, documents::is_of_user, source, values};
use crate::create::{Draft, Note};

/// The longest name of a release, and what Flux keeps of a longer one before its hash.
const MAX_RELEASE: usize = 53;
const KEPT: usize = 40;
const HASH: usize = 12;
/// As often as a HelmOp can have it.
const MAX_RETRIES: i64 = 1_000;

/// That of Flux and of Helm.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

const SUSPENDED: &str =
    "the HelmOp is suspended too, and deploys nothing until it is resumed: kubectl helmop resume NAME";
const HOOKS: &str = "hooks always run; remove them from the chart";
const APPLY: &str =
    "objects are applied as in the revision before, server-side first; helm.force replaces objects";
const NAMESPACE: &str = "this has to be in the namespace of the HelmOp";
const POST_RENDER: &str = "there are no post-renderers: move the change into the values or the chart, or keep Flux for this release";

/// The HelmOp of a HelmRelease.
pub fn draft(all: &FromHelmRelease, document: &Document, used: &mut Used) -> Draft {
    let mut draft = Draft::named(document.text("/metadata/name"));
    let mut fields = Fields::of(document);
    for name in ["apiVersion", "kind", "status"] {
        fields.drop(name);
    }
    metadata(&mut fields, &mut draft);
    let own = match document.text("/metadata/namespace") {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    };
    let mut spec = fields.mapping("spec");
    names(&mut spec, document.text("/metadata/name"), &own, &mut draft);
    source::convert(all, &mut spec, &own, &mut draft, used);
    values::convert(all, &mut spec, &own, &mut draft, used);
    let lifecycle = lifecycle(&mut spec, &own, &mut draft);
    let options = &mut draft.helmop.spec.bundle.options;
    if lifecycle != Lifecycle::default() {
        options.lifecycle = Some(Box::new(lifecycle));
    }
    account(&mut spec, &mut draft);
    rest(&mut spec, &mut draft.notes);
    spec.finish(&mut draft.notes);
    fields.finish(&mut draft.notes);
    draft
}

/// Labels and annotations, without those of Flux and of kubectl.
fn metadata(fields: &mut Fields<'_>, draft: &mut Draft) {
    let mut metadata = fields.mapping("metadata");
    let own: &mut ObjectMeta = &mut draft.helmop.metadata;
    for (name, into) in [("labels", &mut own.labels), ("annotations", &mut own.annotations)] {
        let Some(Value::Object(entries)) = metadata.take(name) else {
            continue;
        };
        let kept: BTreeMap<_, _> = entries
            .iter()
            .filter(|(key, _)| is_of_user(key))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        if !kept.is_empty() {
            *into = Some(kept);
        }
        for request in ["requestedAt", "forceAt", "resetAt"] {
            let key = format!("reconcile.fluxcd.io/{request}");
            if entries.contains_key(&key) {
                let text = format!(
                    "the request {key} was for Flux; request the same with: kubectl helmop reconcile"
                );
                draft.notes.push(metadata.note("annotations", text));
            }
        }
    }
}

/// Where the release is, and under which name.
fn names(spec: &mut Fields<'_>, name: &str, own: &str, draft: &mut Draft) {
    let target = spec.text("targetNamespace");
    let storage = spec.text("storageNamespace").unwrap_or_else(|| own.to_owned());
    let release = spec.text("releaseName").unwrap_or_else(|| match &target {
        Some(target) => format!("{target}-{name}"),
        None => name.to_owned(),
    });
    let namespace = target.unwrap_or_else(|| own.to_owned());
    if storage != namespace {
        draft.notes.push(spec.note(
            "storageNamespace",
            format!(
                "Flux keeps the records of the release in namespace {storage:?}, helmops in that of the release, {namespace:?}: \
                 the agent installs the release there, and takes its objects over; then delete the old records (kubectl -n {storage} \
                 delete secret -l owner=helm,name=RELEASE)"
            ),
        ));
    }
    let options = &mut draft.helmop.spec.bundle.options;
    options.default_namespace = namespace;
    let helm = options.helm.get_or_insert_default();
    helm.release_name = shortened(&release);
    // The release of Flux belongs to no agent yet.
    helm.take_ownership = true;
    helm.max_history = spec.number("maxHistory").unwrap_or_default();
}

/// The name of a release, as Flux shortens it.
fn shortened(name: &str) -> String {
    if name.len() <= MAX_RELEASE {
        return name.to_owned();
    }
    let hash = bounded_text::hex(digest(&SHA256, name.as_bytes()).as_ref());
    let kept = name.get(..KEPT).unwrap_or(name);
    format!("{kept}-{}", hash.get(..HASH).unwrap_or(&hash))
}

fn lifecycle(spec: &mut Fields<'_>, own: &str, draft: &mut Draft) -> Lifecycle {
    let mut lifecycle = Lifecycle {
        suspend: spec.flag("suspend").filter(|suspend| *suspend),
        ..Lifecycle::default()
    };
    if lifecycle.suspend == Some(true) {
        draft.notes.push(spec.note("suspend", SUSPENDED));
    }
    let timeout = spec.text("timeout");
    let mut wait = WaitPolicy {
        timeout,
        expressions: expressions(spec, &mut draft.notes),
        ..WaitPolicy::default()
    };
    let mut test = test(spec, &mut draft.notes);
    let mut install = spec.mapping("install");
    let mut upgrade = spec.mapping("upgrade");
    lifecycle.install = action(&mut install, true, &mut test, draft);
    lifecycle.upgrade = action(&mut upgrade, false, &mut test, draft);
    let longest = waiting(&mut install, &mut upgrade, &mut wait, draft);
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    helm.timeout_seconds = hook_timeout(longest);
    deployment(&mut install, &mut upgrade, draft);
    install.finish(&mut draft.notes);
    upgrade.finish(&mut draft.notes);
    lifecycle.test = test;
    lifecycle.wait = (wait != WaitPolicy::default()).then_some(wait);
    lifecycle.uninstall = uninstall(spec, &mut draft.notes);
    lifecycle.drift = drift(spec, &mut draft.notes);
    lifecycle.depends_on = dependencies(spec, own, &mut draft.notes);
    lifecycle
}

/// `install` or `upgrade`: retries, remediation and CRDs.
fn action(
    fields: &mut Fields<'_>,
    is_install: bool,
    test: &mut Option<TestPolicy>,
    draft: &mut Draft,
) -> Option<ActionPolicy> {
    let notes = &mut draft.notes;
    let mut policy = ActionPolicy {
        crds: fields.text("crds").unwrap_or_default(),
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
    if let Some(retries) = remediation.number("retries") {
        policy.retries = if retries < 0 { MAX_RETRIES } else { retries };
    }
    if policy.retries == MAX_RETRIES {
        let field = if retries_on_failure {
            "strategy"
        } else {
            "remediation.retries"
        };
        let endless = format!(
            "Flux retries without end: these are {MAX_RETRIES} retries, and then one attempt an hour"
        );
        notes.push(fields.note(field, endless));
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
    if remediation.flag("ignoreTestFailures") == Some(true) {
        let test = test.get_or_insert_default();
        if !test.ignore_failures {
            test.ignore_failures = true;
            let counts = "test.ignoreFailures counts for installations and upgrades alike";
            notes.push(remediation.note("ignoreTestFailures", counts));
        }
    }
    remediation.finish(notes);
    (policy != ActionPolicy::default()).then_some(policy)
}

/// The seconds of `helm.timeoutSeconds`, which is about hooks if there is a `lifecycle.wait.timeout`; 0 for its default.
fn hook_timeout(timeout: Duration) -> i64 {
    let started = u64::from(timeout.subsec_nanos() > 0);
    let seconds = timeout.as_secs().saturating_add(started);
    if timeout == DEFAULT_TIMEOUT {
        return 0;
    }
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// What is awaited, and for how long. Returns the longest time that Flux gives an installation or an upgrade.
fn waiting<'d>(
    install: &mut Fields<'d>,
    upgrade: &mut Fields<'d>,
    wait: &mut WaitPolicy,
    draft: &mut Draft,
) -> Duration {
    // One that does not parse is reported with the HelmOp.
    let parsed = |text: &str| go_duration::parse(text).ok();
    let own = wait
        .timeout
        .as_deref()
        .and_then(parsed)
        .unwrap_or(DEFAULT_TIMEOUT);
    let mut longest = Duration::ZERO;
    let disabled = [install.flag("disableWait"), upgrade.flag("disableWait")].map(|flag| flag == Some(true));
    match disabled {
        [true, true] => wait.disable = true,
        [true, false] => draft.notes.push(install.note(
            "disableWait",
            "lifecycle.wait.disable counts for installations and upgrades alike; it is not set",
        )),
        [false, true] => draft.notes.push(upgrade.note(
            "disableWait",
            "lifecycle.wait.disable counts for installations and upgrades alike; it is not set",
        )),
        [false, false] => {}
    }
    let jobs = [
        install.flag("disableWaitForJobs"),
        upgrade.flag("disableWaitForJobs"),
    ];
    let waits_for_jobs = !disabled.contains(&true) && !jobs.contains(&Some(true));
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    helm.wait_for_jobs = waits_for_jobs;
    for fields in [install, upgrade] {
        let timeout = fields.text("timeout");
        longest = longest.max(timeout.as_deref().and_then(parsed).unwrap_or(own));
        if let Some(timeout) = timeout
            && wait.timeout.as_ref() != Some(&timeout)
        {
            if wait.timeout.is_none() {
                wait.timeout = Some(timeout);
            } else {
                draft.notes.push(fields.note("timeout", "lifecycle.wait.timeout counts for installations and upgrades alike; it has the value of spec.timeout"));
            }
        }
    }
    longest
}

/// How Helm deploys.
fn deployment<'d>(install: &mut Fields<'d>, upgrade: &mut Fields<'d>, draft: &mut Draft) {
    let notes = &mut draft.notes;
    let options = &mut draft.helmop.spec.bundle.options;
    let helm = options.helm.get_or_insert_default();
    if install.flag("createNamespace") == Some(false) {
        options.create_namespace = Some(false);
    }
    for fields in [&mut *install, &mut *upgrade] {
        if fields.flag("disableSchemaValidation") == Some(true) {
            helm.skip_schema_validation = true;
        }
        // It is always disabled: the API server validates more.
        fields.drop("disableOpenAPIValidation");
        if fields.flag("disableHooks") == Some(true) {
            notes.push(fields.note("disableHooks", HOOKS));
        }
        if fields.flag("disableTakeOwnership") == Some(true) {
            let text = "an upgrade takes over objects that belong to another release; helm.takeOwnership is needed to take over the release of Flux, and can be removed then";
            notes.push(fields.note("disableTakeOwnership", text));
        }
        fields.lost("serverSideApply", APPLY, notes);
    }
    // An uninstalled name is always used again.
    install.drop("replace");
    if upgrade.flag("force") == Some(true) {
        helm.force = true;
        let text = "helm.force replaces objects; Flux ignores this field with server-side apply, its default";
        notes.push(upgrade.note("force", text));
    }
    if upgrade.flag("cleanupOnFail") == Some(true) {
        let text = "new objects of a failed upgrade stay until the next attempt, or until the rollback of lifecycle.upgrade.remediation";
        notes.push(upgrade.note("cleanupOnFail", text));
    }
    if upgrade.flag("preserveValues") == Some(true) {
        let text = "values of the revision before are never kept; write all of them into helm.values (helm get values)";
        notes.push(upgrade.note("preserveValues", text));
    }
    upgrade.lost(
        "chartNameChangeStrategy",
        "a chart with another name is always an upgrade of the release",
        notes,
    );
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
        ..UninstallPolicy::default()
    };
    // The agent does not wait for the deletion of objects.
    if fields.flag("disableWait") == Some(false) {
        notes.push(fields.note(
            "disableWait",
            "an uninstallation does not wait until the objects are gone",
        ));
    }
    let propagation = fields.text("deletionPropagation");
    if let Some(propagation) = propagation.filter(|propagation| propagation != "background") {
        let text = format!(
            "objects are deleted in the background, not with {propagation}; to keep them, set keepResources or lifecycle.onDelete"
        );
        notes.push(fields.note("deletionPropagation", text));
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
        let mut target = entry.mapping("target");
        let mut text = |name| target.text(name).unwrap_or_default();
        let selector = ObjectSelector {
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
            name: text("name"),
            namespace: text("namespace"),
            label_selector: text("labelSelector"),
            annotation_selector: text("annotationSelector"),
            ..ObjectSelector::default()
        };
        target.finish(notes);
        policy.ignore.push(DriftIgnore {
            paths: paths
                .iter()
                .filter_map(|path| Some(path.as_str()?.to_owned()))
                .collect(),
            target: (selector != ObjectSelector::default()).then_some(selector),
            ..DriftIgnore::default()
        });
        entry.finish(notes);
    }
    fields.finish(notes);
    Some(policy)
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

fn dependencies(spec: &mut Fields<'_>, own: &str, notes: &mut Vec<Note>) -> Vec<Dependency> {
    let mut dependencies = Vec::new();
    for mut entry in spec.list("dependsOn") {
        let name = entry.text("name").unwrap_or_default();
        if entry.text("namespace").is_some_and(|namespace| namespace != own) {
            notes.push(entry.note("namespace", format!("HelmOp {name:?}: {NAMESPACE}")));
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

fn account(spec: &mut Fields<'_>, draft: &mut Draft) {
    if let Some(account) = spec.text("serviceAccountName") {
        let text = format!(
            "ServiceAccount {account:?} has to be in the namespace of the agent on each cluster, in Flux it is in that of the HelmRelease"
        );
        draft.notes.push(spec.note("serviceAccountName", text));
        draft.helmop.spec.bundle.options.service_account = account;
    }
}

/// Fields without an equivalent.
fn rest(spec: &mut Fields<'_>, notes: &mut Vec<Note>) {
    spec.drop("persistentClient");
    spec.lost("postRenderers", POST_RENDER, notes);
    spec.lost("postRenderStrategy", POST_RENDER, notes);
    spec.lost("commonMetadata", POST_RENDER, notes);
    spec.lost(
        "kubeConfig",
        "create a Cluster for it and install an agent there (kubectl helmop cluster join), and select it with --cluster or --target-selector",
        notes,
    );
    let mut strategy = spec.mapping("waitStrategy");
    if strategy.text("name").is_some_and(|name| name != "poller") {
        notes.push(strategy.note(
            "name",
            "objects are always observed with the rules of kstatus and of Fleet",
        ));
    }
    strategy.finish(notes);
    let mut rollback = spec.mapping("rollback");
    rollback.lost(
        "timeout",
        "the timeout of a rollback is that of the hooks, helm.timeoutSeconds",
        notes,
    );
    for name in ["disableWait", "disableWaitForJobs", "recreate"] {
        rollback.drop(name);
    }
    for name in ["cleanupOnFail", "disableHooks", "force", "serverSideApply"] {
        rollback.lost(name, "a rollback has no options of its own: it runs without hooks, and applies objects as an upgrade does", notes);
    }
    rollback.finish(notes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_releases_are_shortened_as_in_flux() {
        assert_eq!(shortened("shop-web"), "shop-web");
        let long = shortened(&"a".repeat(60));
        assert_eq!(long.len(), MAX_RELEASE);
        assert!(long.starts_with(&format!("{}-", "a".repeat(KEPT))));
    }
}
