//! The life cycle of a release: retries, remediation, tests, CRDs, waiting, drift, suspension.
//!
//! Fleet has nothing of this, and its CRDs drop the fields. Without them a release behaves as in Fleet. Only those that change what is
//! deployed are a part of the deployment ID: a change of the others deploys nothing.

use std::collections::BTreeMap;

use super::{unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// The life cycle of the release on each cluster. Without it releases behave as in Fleet. A change of it alone deploys nothing, except for
    /// `storageNamespace`, `valuesFrom`, `ignoreMissingValuesFiles`, `postRenderers`, `postRenderStrategy` and `commonMetadata`.
    pub struct Lifecycle: [unknown: UnknownFields] {
        /// How the chart is installed, and what happens when that fails.
        "install" | nullable => install: Option<ActionPolicy>,
        /// How the release is upgraded, and what happens when that fails.
        "upgrade" | nullable => upgrade: Option<ActionPolicy>,
        /// How a rollback of `upgrade.remediation` is done.
        "rollback" | nullable => rollback: Option<RollbackPolicy>,
        /// The Helm tests of the chart.
        "test" | nullable => test: Option<TestPolicy>,
        /// How the release is uninstalled.
        "uninstall" | nullable => uninstall: Option<UninstallPolicy>,
        /// When a release counts as ready.
        "wait" | nullable => wait: Option<WaitPolicy>,
        /// HelmOps, Bundles and objects on the same cluster that have to be ready first.
        "dependsOn" | nullable => depends_on: Vec<Dependency>,
        /// What happens when an object is changed on the cluster. It cannot be combined with `correctDrift`.
        "drift" | nullable => drift: Option<DriftPolicy>,
        /// Do nothing with the release: neither deploy, nor correct drift, nor report.
        "suspend" | nullable => suspend: Option<bool>,
        /// What happens with the release when the HelmOp or the target is removed: it is uninstalled (`Uninstall`, the default) or
        /// kept as it is, with its records (`Keep`).
        #[schemars(extend("enum" = ["", "Uninstall", "Keep"]))]
        "onDelete" | nullable => on_delete: String,
        /// Namespace of the records of the release (Secrets `sh.helm.release.v1.*`), as `storageNamespace` of a HelmRelease: 1 to 63 characters.
        /// By default that of the release. It must exist. A change installs the release again, as a change of its name does.
        "storageNamespace" | nullable => storage_namespace: String,
        /// ConfigMaps and Secrets on the target cluster with values, as `valuesFrom` of a HelmRelease: `helm.values` overrides them, and
        /// entries with a `targetPath` override both. Those of `helm.valuesFrom` override `helm.values` as well.
        "valuesFrom" | nullable => values_from: Vec<ValuesReference>,
        /// What happens when values of `valuesFrom` or `helm.valuesFrom` change: the release is upgraded (`Immediate`, the default), or
        /// they count from the next release on (`NextRelease`).
        #[schemars(extend("enum" = ["", "Immediate", "NextRelease"]))]
        "valuesFromPolicy" | nullable => values_from_policy: String,
        /// Leave out files of `helm.valuesFiles` that the chart does not have. By default they are an error.
        "ignoreMissingValuesFiles" => ignore_missing_values_files: bool,
        /// What is changed in the objects of the chart before they are deployed, in this order.
        "postRenderers" | nullable => post_renderers: Vec<PostRenderer>,
        /// Which objects `postRenderers` and `commonMetadata` change: objects and hooks together (`combined`, the default), both, each for
        /// themselves (`separate`), or no hooks (`nohooks`).
        #[schemars(extend("enum" = ["", "nohooks", "combined", "separate"]))]
        "postRenderStrategy" | nullable => post_render_strategy: String,
        /// Labels and annotations of all objects, after `postRenderers`.
        "commonMetadata" | nullable => common_metadata: Option<CommonMetadata>,
        /// Internal: what annotations of the HelmOp request.
        "requests" | nullable => requests: Option<Requests>,
    }
}

wire! {
    /// How an installation or an upgrade is done, and what happens when it fails: Helm reports an error, the release is not ready in time, or
    /// a test fails.
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
        /// How long each hook may take, and all objects to become ready. By default, `helm.timeoutSeconds` for hooks, and `wait.timeout` for
        /// objects.
        "timeout" | nullable => timeout: Option<String>,
        /// Do not wait for the objects: it has succeeded when Helm has.
        "disableWait" => disable_wait: bool,
        /// Do not run the hooks of the chart.
        "disableHooks" => disable_hooks: bool,
        /// Do not check the values with the schema of the chart. By default, `helm.skipSchemaValidation`.
        "disableSchemaValidation" | nullable => disable_schema_validation: Option<bool>,
        /// Take over objects that exist and belong to no release or to another one. By default, `helm.takeOwnership` for an installation, and
        /// `true` for an upgrade.
        "takeOwnership" | nullable => take_ownership: Option<bool>,
        /// How objects are applied: by the API server (`enabled`), by patches that Helm computes (`disabled`), or as in the revision before
        /// (`auto`, the default), where an installation is `enabled`.
        #[schemars(extend("enum" = ["", "auto", "enabled", "disabled"]))]
        "serverSideApply" | nullable => server_side_apply: String,
        /// Replace objects instead of patching them. By default, `helm.force`. It excludes server-side apply.
        "force" | nullable => force: Option<bool>,
        /// Delete the objects that a failed upgrade has created. Objects that are not ready in time stay, as they may become ready yet.
        "cleanupOnFail" => cleanup_on_fail: bool,
    }
}

wire! {
    /// How a rollback is done. It restores the last revision that was deployed after a failed upgrade, if `upgrade.remediation` is `rollback`, or
    /// with `helm.atomic`.
    pub struct RollbackPolicy: [unknown: UnknownFields] {
        /// How long each hook may take. By default, as in an upgrade.
        "timeout" | nullable => timeout: Option<String>,
        /// Do not run the hooks of the chart.
        "disableHooks" => disable_hooks: bool,
        /// How objects are applied, as in `upgrade.serverSideApply`. By default, as in an upgrade.
        #[schemars(extend("enum" = ["", "auto", "enabled", "disabled"]))]
        "serverSideApply" | nullable => server_side_apply: String,
        /// Replace objects instead of patching them. By default, as in an upgrade.
        "force" | nullable => force: Option<bool>,
        /// Delete the objects that a failed rollback has created.
        "cleanupOnFail" => cleanup_on_fail: bool,
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
        /// What happens with the dependents of deleted objects, such as the Pods of a Deployment: they are deleted after them (`background`,
        /// the default), before them (`foreground`), or they stay (`orphan`).
        #[schemars(extend("enum" = ["", "background", "foreground", "orphan"]))]
        "deletionPropagation" | nullable => deletion_propagation: String,
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
    /// A HelmOp or Bundle that has to be ready on the cluster before this one is deployed there; with `apiVersion` and `kind`, an object of
    /// the cluster.
    pub struct Dependency: [unknown: UnknownFields] {
        /// Name of the HelmOp, of the Bundle or of the object.
        "name" => name: String,
        /// Namespace of the HelmOp or Bundle, if it is another one than that of this one; `allowedDependencyNamespaces` of a Policy restricts
        /// it. For an object, its namespace on the cluster: by default, that of the release.
        "namespace" | nullable => namespace: String,
        /// API version of the object, such as `cert-manager.io/v1`.
        "apiVersion" | nullable => api_version: String,
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// When it is ready: a CEL expression. For a HelmOp or Bundle, its variables are `dep` and `self`, the BundleDeployments of the
        /// dependency and of this one; by default, it is ready when it is deployed and all its objects are ready. For an object, its
        /// variables are the fields of the object; by default, the rules of its kind apply.
        "ready" | nullable => ready: String,
    }
}

impl Dependency {
    /// Whether it is an object of the cluster, and no HelmOp or Bundle.
    pub const fn is_object(&self) -> bool {
        !self.api_version.is_empty() || !self.kind.is_empty()
    }

    /// What it names. `namespace` is that of those without one.
    pub fn key<'d>(&'d self, namespace: &'d str) -> [&'d str; 4] {
        let namespace = if self.namespace.is_empty() {
            namespace
        } else {
            &self.namespace
        };
        [&self.api_version, &self.kind, namespace, &self.name]
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
    /// A ConfigMap or a Secret on the target cluster with values.
    pub struct ValuesReference: [unknown: UnknownFields] {
        /// `ConfigMap` or `Secret`.
        "kind" => kind: String,
        /// Name of the object.
        "name" => name: String,
        /// Namespace of the object. By default the namespace of the release.
        "namespace" | nullable => namespace: String,
        /// Key in the object's data. By default `values.yaml`.
        "valuesKey" | nullable => values_key: String,
        /// Where the value is set, as in `helm upgrade --set`, such as `image.tag` or `ports[0].name`. By default the key has values as in
        /// a values.yaml.
        "targetPath" | nullable => target_path: String,
        /// The value is a text as it is. By default its type is guessed, and commas and braces have a meaning, as in `--set`. Only with
        /// `targetPath`.
        "literal" => literal: bool,
        /// The object or the key may be missing.
        "optional" => optional: bool,
    }
}

wire! {
    /// A change of the objects of the chart.
    pub struct PostRenderer: [unknown: UnknownFields] {
        /// Patches and images, as in a kustomization.
        "kustomize" | nullable => kustomize: Option<KustomizeChanges>,
    }
}

wire! {
    /// What Kustomize changes: first the patches, then the images.
    pub struct KustomizeChanges: [unknown: UnknownFields] {
        /// Patches, in this order.
        "patches" | nullable => patches: Vec<KustomizePatch>,
        /// Images of containers.
        "images" | nullable => images: Vec<KustomizeImage>,
    }
}

wire! {
    /// A patch of Kustomize.
    pub struct KustomizePatch: [unknown: UnknownFields] {
        /// A strategic merge patch, or a list of operations (JSON Patch, RFC 6902), as YAML or JSON.
        "patch" => patch: String,
        /// The objects. By default that of the same API version, kind, name and namespace as the patch.
        "target" | nullable => target: Option<ObjectSelector>,
    }
}

wire! {
    /// Another image for containers.
    pub struct KustomizeImage: [unknown: UnknownFields] {
        /// The image in the chart, without tag and digest, such as `docker.io/library/nginx`.
        "name" => name: String,
        /// The other image, without tag and digest. By default, it stays.
        "newName" | nullable => new_name: String,
        /// The other tag. By default, it stays.
        "newTag" | nullable => new_tag: String,
        /// The digest, such as `sha256:…`. It replaces the tag, unless `newTag` is set as well.
        "digest" | nullable => digest: String,
    }
}

wire! {
    /// Labels and annotations of all objects of the chart. They override those of the chart.
    pub struct CommonMetadata: [unknown: UnknownFields] {
        /// Labels. Selectors and templates of Pods do not get them.
        "labels" | nullable => labels: BTreeMap<String, String>,
        /// Annotations.
        "annotations" | nullable => annotations: BTreeMap<String, String>,
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

impl Lifecycle {
    /// What of it is a part of the deployment ID; `None` if nothing is: then the ID is that of Fleet.
    /// What has no effect is none: `has_values_files` is whether there are files of which some may be missing.
    pub fn deployed_part(&self, has_values_files: bool) -> Option<Self> {
        let changes_objects = !self.post_renderers.is_empty() || self.common_metadata.is_some();
        let strategy = if changes_objects {
            &*self.post_render_strategy
        } else {
            ""
        };
        let deployed = Self {
            storage_namespace: self.storage_namespace.clone(),
            values_from: self.values_from.clone(),
            ignore_missing_values_files: self.ignore_missing_values_files && has_values_files,
            post_renderers: self.post_renderers.clone(),
            post_render_strategy: strategy.to_owned(),
            common_metadata: self.common_metadata.clone(),
            ..Self::default()
        };
        (deployed != Self::default()).then_some(deployed)
    }

    /// What of it is a part of the key of the release, as its name is: `None` if nothing is. It stays in the options of a BundleDeployment,
    /// which a rollout stages.
    pub fn key_part(&self) -> Option<Self> {
        let key = Self {
            storage_namespace: self.storage_namespace.clone(),
            ..Self::default()
        };
        (key != Self::default()).then_some(key)
    }
}
