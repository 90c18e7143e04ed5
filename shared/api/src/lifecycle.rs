//! The life cycle of a release: retries, remediation, tests, CRDs, waiting, drift, suspension.
//!
//! Fleet has nothing of this, and its CRDs drop the fields. Without them a release behaves as in Fleet. They are not a part of the
//! deployment ID, so a change of them deploys nothing.

use super::{unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// The life cycle of the release on each cluster. Without it releases behave as in Fleet. A change of it alone deploys nothing.
    pub struct Lifecycle: [unknown: UnknownFields] {
        /// What happens when an installation fails.
        "install" | nullable => install: Option<ActionPolicy>,
        /// What happens when an upgrade fails.
        "upgrade" | nullable => upgrade: Option<ActionPolicy>,
        /// The Helm tests of the chart.
        "test" | nullable => test: Option<TestPolicy>,
        /// How the release is uninstalled.
        "uninstall" | nullable => uninstall: Option<UninstallPolicy>,
        /// When a release counts as ready.
        "wait" | nullable => wait: Option<WaitPolicy>,
        /// HelmOps and Bundles on the same cluster that have to be ready first.
        "dependsOn" | nullable => depends_on: Vec<Dependency>,
        /// What happens when an object is changed on the cluster. It cannot be combined with `correctDrift`.
        "drift" | nullable => drift: Option<DriftPolicy>,
        /// Do nothing with the release: neither deploy, nor correct drift, nor report.
        "suspend" | nullable => suspend: Option<bool>,
        /// What happens with the release when the HelmOp or the target is removed: it is uninstalled (`Uninstall`, the default) or
        /// kept as it is, with its records (`Keep`).
        #[schemars(extend("enum" = ["", "Uninstall", "Keep"]))]
        "onDelete" | nullable => on_delete: String,
        /// Internal: what annotations of the HelmOp request.
        "requests" | nullable => requests: Option<Requests>,
    }
}

wire! {
    /// What happens when an installation or an upgrade fails: Helm reports an error, the release is not ready in time, or a test fails.
    pub struct ActionPolicy: [unknown: UnknownFields] {
        /// How often it is tried again after `retryInterval`. After that it is tried once an hour.
        "retries" => retries: i64,
        /// The time between two attempts. 5 minutes by default.
        "retryInterval" | nullable => retry_interval: Option<String>,
        /// What is done after a failed attempt: nothing (`none`, the default), a rollback to the last good revision (`rollback`, only
        /// for upgrades), or an uninstallation (`uninstall`).
        #[schemars(extend("enum" = ["", "none", "rollback", "uninstall"]))]
        "remediation" | nullable => remediation: String,
        /// Whether the last one of the retries is remediated too. `true` by default; `false` leaves its result for inspection.
        "remediateLastFailure" | nullable => remediate_last_failure: Option<bool>,
        /// What happens with the CRDs in the folder `crds` of the chart: nothing (`Skip`), those that are missing are created
        /// (`Create`), or they are created and updated (`CreateReplace`). By default, Helm's rule: an installation creates them, an
        /// upgrade does nothing.
        #[schemars(extend("enum" = ["", "Skip", "Create", "CreateReplace"]))]
        "crds" | nullable => crds: String,
    }
}

wire! {
    /// The Helm tests of the chart, which run after an installation or an upgrade.
    pub struct TestPolicy: [unknown: UnknownFields] {
        /// Run the tests.
        "enable" => enable: bool,
        /// Report a failed test, but do not count it as a failure of the installation or upgrade.
        "ignoreFailures" => ignore_failures: bool,
        /// How long a test may take. By default, `helm.timeoutSeconds`, or 5 minutes.
        "timeout" | nullable => timeout: Option<String>,
        /// Which tests run. By default, all.
        "filters" | nullable => filters: Vec<TestFilter>,
    }
}

wire! {
    /// A test that runs, or does not run. If any filter includes a test, only included tests run.
    pub struct TestFilter: [unknown: UnknownFields] {
        /// Name of the test: of its object, usually a Pod or a Job.
        "name" => name: String,
        /// The test does not run.
        "exclude" => exclude: bool,
    }
}

wire! {
    /// How a release is uninstalled.
    pub struct UninstallPolicy: [unknown: UnknownFields] {
        /// Keep the records of the release, so that `helm history` still shows them.
        "keepHistory" => keep_history: bool,
        /// How long a hook may take. By default, `helm.timeoutSeconds`, or 5 minutes.
        "timeout" | nullable => timeout: Option<String>,
        /// Do not run the hooks of the chart.
        "disableHooks" => disable_hooks: bool,
    }
}

wire! {
    /// When an installation or an upgrade has succeeded.
    pub struct WaitPolicy: [unknown: UnknownFields] {
        /// It has succeeded when Helm has. By default, it has succeeded when all objects are ready, if `lifecycle` has any of
        /// `install`, `upgrade`, `test` and `wait`.
        "disable" => disable: bool,
        /// How long objects may take to become ready. By default, `helm.timeoutSeconds`, or 5 minutes.
        "timeout" | nullable => timeout: Option<String>,
        /// When objects of a kind are ready. Without an expression, the rules of the kind apply.
        "expressions" | nullable => expressions: Vec<ReadyExpression>,
    }
}

wire! {
    /// When objects of a kind are ready. `inProgress`, `failed` and `current` are evaluated in this order, and the first one that is
    /// true applies; if none is, the object is in progress.
    pub struct ReadyExpression: [unknown: UnknownFields] {
        /// API version of the objects, such as `apps/v1`. All versions of the group are meant.
        "apiVersion" => api_version: String,
        /// Kind of the objects.
        "kind" => kind: String,
        /// True if the object will never become ready: a CEL expression with the fields of the object as variables, such as
        /// `status.phase == 'Failed'`.
        "failed" | nullable => failed: String,
        /// True if the object is not ready yet.
        "inProgress" | nullable => in_progress: String,
        /// True if the object is ready.
        "current" => current: String,
    }
}

wire! {
    /// A HelmOp or Bundle of the same namespace that has to be ready on the cluster before this one is deployed there.
    pub struct Dependency: [unknown: UnknownFields] {
        /// Name of the HelmOp or Bundle.
        "name" => name: String,
        /// When it is ready: a CEL expression with the variables `dep` and `self`, the BundleDeployments of the dependency and of
        /// this one. By default, when it is deployed and all its objects are ready.
        "ready" | nullable => ready: String,
    }
}

wire! {
    /// What happens when an object is changed on the cluster.
    pub struct DriftPolicy: [unknown: UnknownFields] {
        /// `enabled` reports and corrects drift, `warn` (the default) reports it, `disabled` does neither.
        #[schemars(extend("enum" = ["", "enabled", "warn", "disabled"]))]
        "mode" | nullable => mode: String,
        /// Fields that are no drift.
        "ignore" | nullable => ignore: Vec<DriftIgnore>,
    }
}

wire! {
    /// Fields that are no drift.
    pub struct DriftIgnore: [unknown: UnknownFields] {
        /// The fields, as JSON pointers (RFC 6901) such as `/spec/replicas`. An empty pointer is the whole object.
        "paths" => paths: Vec<String>,
        /// The objects. By default, all objects of the release.
        "target" | nullable => target: Option<ObjectSelector>,
    }
}

wire! {
    /// Selects objects that fulfil every criterion that is set.
    pub struct ObjectSelector: [unknown: UnknownFields] {
        /// Group of the API, such as `apps`.
        "group" | nullable => group: String,
        /// Version of the API, such as `v1`.
        "version" | nullable => version: String,
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// Name of the object, as a regular expression that matches the whole name.
        "name" | nullable => name: String,
        /// Namespace of the object, as a regular expression that matches the whole namespace.
        "namespace" | nullable => namespace: String,
        /// Labels of the object, as in `kubectl get --selector`.
        "labelSelector" | nullable => label_selector: String,
        /// Annotations of the object, in the same form.
        "annotationSelector" | nullable => annotation_selector: String,
    }
}

wire! {
    /// Internal: what annotations of the HelmOp request. Each value is a token; each new one has an effect once.
    pub struct Requests: [unknown: UnknownFields] {
        /// Reconcile now: the next attempt is made immediately.
        "reconcile" | nullable => reconcile: String,
        /// Deploy again, although nothing has changed.
        "force" | nullable => force: String,
        /// Forget the failed attempts.
        "reset" | nullable => reset: String,
    }
}

wire! {
    /// The life cycle of the release on a cluster, as the agent observes it.
    pub struct LifecycleStatus {
        /// The release is suspended.
        "suspended" => suspended: bool,
        /// Number of failed attempts of the desired deployment.
        "failures" => failures: i64,
        /// When the next attempt is made.
        "nextAttempt" | nullable => next_attempt: String,
        /// The last attempts, newest first.
        "history" | nullable => history: Vec<ReleaseAttempt>,
        /// The requests that were handled.
        "handled" | nullable => handled: Option<Requests>,
    }
}

wire! {
    /// An attempt to change a release, and its outcome.
    pub struct ReleaseAttempt {
        /// Revision of the release.
        "revision" => revision: i64,
        /// `install`, `upgrade` or `rollback`.
        "action" => action: String,
        /// Name of the chart.
        "chart" => chart: String,
        /// Version of the chart.
        "version" => version: String,
        /// What was to be deployed.
        "deploymentID" => deployment_id: String,
        /// The status as in `helm history`, such as `deployed`, `superseded`, `failed` or `uninstalled`.
        "outcome" => outcome: String,
        /// When it was made.
        "time" => time: String,
        /// Why it failed.
        "message" | nullable => message: String,
    }
}

wire! {
    /// The life cycle of the releases on all clusters: numbers of clusters.
    pub struct LifecycleSummary {
        /// The last attempt succeeded.
        "released" => released: i64,
        /// The last attempt failed, and the next one is to come.
        "failed" => failed: i64,
        /// A failed attempt was rolled back or uninstalled.
        "remediated" => remediated: i64,
        /// A Helm test failed.
        "testFailed" => test_failed: i64,
        /// The release is suspended.
        "suspended" => suspended: i64,
    }
}
