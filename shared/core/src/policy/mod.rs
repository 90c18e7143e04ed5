//! The Policies of a namespace: defaults, and what they allow.
//!
//! All Policies of a namespace apply together, in the order of their names: what one of them requires is required, what
//! one of them allows is allowed, and the first default wins. Without Policies everything is allowed.
//!
//! The webhook and the controller process a HelmOp in the same way:
//!
//! ```text
//! Policies::apply_defaults ─► ValidHelmOp::try_from ─► Policies::check ─► resolution, poll, Bundle
//! defaults, in memory         is it valid?             is it allowed?     only if both are true
//! ```
//!
//! Defaults are applied first, so that they are validated like names that users set, and so that all later steps, including
//! the Bundle, use the same HelmOp. The stored HelmOp keeps what the user wrote.
//!
//! # What is compared
//!
//! | field of the Policy | a chart of a repository | a chart in a registry | a chart archive | a chart in Git |
//! |---|---|---|---|---|
//! | `helmOp.allowedHelmRepoPatterns` | `repo` | `repo`, the whole reference | `chart`, the whole URL | `git+` and the URL |
//! | `helmOp.allowedChartPatterns` | `chart`, the name | `repo`, or the name of the chart at its end | `chart`, the whole URL | `path` |
//!
//! - So a pattern for repositories that also allows archives must match the file in the folder:
//!   `https://charts\.example\.com/stable(/.*)?`.
//! - An entry allows the text that is equal to it, and every text that it fully matches as a regular expression of Go (module
//!   `go_formats::regexp`).
//! - URLs are matched as they are fetched, by the parser of the HTTP client, without their user info (module
//!   `chart::location`). A URL that clients interpret differently than it is written, such as one with `..` in its path, must
//!   be listed literally. A URL with an encoded slash in its path must be allowed both as written and with the slash decoded,
//!   or be listed literally.
//! - The `helm` block of a target is checked like `spec.helm`, after inheritance; so is its `serviceAccount`.
//! - The Secret for a Git repository is compared like `helmSecretName`, whose default it does not get.
//! - The URL of a gate is compared like a repository, and its Secret like `helmSecretName`.
//! - `chartSource.deliver` is compared with `helmOp.allowedDelivery`; a HelmOp without it has `Direct`. So are the records of a Bundle.
//! - `downstreamResources` of the HelmOp and of each target have their own rules (module `downstream`), and so have the namespaces in
//!   `lifecycle.dependsOn` (module `dependencies`).
//! - A [`ValidHelmOp`] names a source and a chart in one of the three forms, so all of them are checked. An empty name is
//!   allowed: without a Secret none is used, and a ServiceAccount is required only by `requireServiceAccount`. It is then
//!   required for the whole HelmOp, even if each of its targets names one, and `-`, by which a target clears it, counts as
//!   none.
//!
//! The URLs of the archives in the index of a repository are not compared with patterns.
//!
//! # A Policy that does not decode
//!
//! It may forbid anything, so it forbids everything: no HelmOp of its namespace is allowed until it is fixed or deleted.

mod chart;
mod content_size;
mod dependencies;
mod downstream;
mod invalid;
mod list;
mod names;
mod pattern_errors;
mod patterns;
mod registration;
mod review;

pub use self::{pattern_errors::pattern_errors, review::Decision};
use std::borrow::Cow;

use helmops_api::{
    Bundle, BundleDeploymentOptions, BundleTarget, Decoded, HelmOp, HelmOpSpec, Policy, labels,
    rollout::RolloutStrategy,
};
use helmops_model::{
    chart::{delivery::Delivery, request::ChartRequest, source::ChartSource, url},
    reason::Reason,
    validation::{FieldErrors, Path},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::{
    chart::PolicySubject,
    dependencies::{Dependencies, restricts},
    downstream::Rules,
    invalid::InvalidPolicy,
    list::List,
    names::Names,
    patterns::Patterns,
};
use crate::{
    admit::ValidHelmOp,
    targeting::chart_record::{has_content, recorded_in},
};

/// Every violation has the same reason, as in Fleet.
const REASON: Reason = Reason::PolicyViolation;

/// The value by which a target clears the ServiceAccount of its HelmOp or Bundle: agents then deploy with their own permissions.
const CLEARED_ACCOUNT: &[&str] = &["-"];

/// The values that name no ServiceAccount for a whole HelmOp or Bundle.
const NO_ACCOUNT: &[&str] = &["", "-"];

/// Extracts the text of a chart that a list of patterns is about.
type SubjectOf = for<'a> fn(ChartSource<'a>) -> PolicySubject<'a>;

/// The Policies of a namespace, merged and compiled.
#[derive(Clone, Debug)]
pub struct Policies {
    /// The Policy that requires a ServiceAccount.
    requires_service_account: Option<String>,
    allow_namespace_creation: bool,
    service_accounts: Names,
    helm_secrets: Names,
    repos: Patterns,
    charts: Patterns,
    delivery: Names,
    content_size: Option<u64>,
    downstream: Patterns,
    dependencies: Dependencies,
    registration_labels: Patterns,
    invalid: Option<InvalidPolicy>,
}

impl Default for Policies {
    /// No Policy: everything is allowed.
    fn default() -> Self {
        Self::of([])
    }
}

impl Policies {
    /// Merges Policies. They must be all Policies of one namespace: a missing one is not enforced.
    #[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
    pub fn of<'p>(policies: impl IntoIterator<Item = &'p Policy>) -> Self {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by_key(|policy| name(policy));
        let mut requires_service_account = None;
        let mut service_accounts = Names::new("serviceAccount", "allowedServiceAccounts");
        let mut helm_secrets = Names::new("helmSecretName", "helmOp.allowedHelmSecretNames");
        let mut repos = List::new("helmOp.allowedHelmRepoPatterns");
        let mut charts = List::new("helmOp.allowedChartPatterns");
        let mut delivery = Names::new("chartSource.deliver", "helmOp.allowedDelivery");
        let mut content_size = None;
        let mut downstream = List::new("allowedDownstreamResources");
        let mut dependencies = List::new("allowedDependencyNamespaces");
        let mut registration_labels = List::new("allowedRegistrationLabels");
        for policy in &policies {
            let name = name(policy);
            if policy.require_service_account {
                requires_service_account.get_or_insert_with(|| name.to_owned());
            }
            service_accounts
                .allowed
                .extend(&policy.allowed_service_accounts, name);
            downstream.extend(&policy.allowed_downstream_resources, name);
            dependencies.extend(&policy.allowed_dependency_namespaces, name);
            registration_labels.extend(&policy.allowed_registration_labels, name);
            let Some(helm_op) = &policy.helm_op else {
                continue;
            };
            service_accounts.add_default(&helm_op.default_service_account, name);
            helm_secrets.add_default(&helm_op.default_helm_secret_name, name);
            helm_secrets
                .allowed
                .extend(&helm_op.allowed_helm_secret_names, name);
            repos.extend(&helm_op.allowed_helm_repo_patterns, name);
            charts.extend(&helm_op.allowed_chart_patterns, name);
            delivery.allowed.extend(&helm_op.allowed_delivery, name);
            content_size = content_size.max(content_size::of(helm_op));
        }
        Self {
            requires_service_account,
            allow_namespace_creation: policies.iter().any(|policy| policy.allow_namespace_creation),
            service_accounts,
            helm_secrets,
            repos: Patterns::new("helm repo", repos),
            charts: Patterns::new("helm chart", charts),
            delivery,
            content_size,
            downstream: Patterns::new("downstream resource", downstream),
            registration_labels: Patterns::new("registration label", registration_labels),
            dependencies: Dependencies {
                allowed: Patterns::new("dependency namespace", dependencies),
                restricted_by: policies
                    .iter()
                    .copied()
                    .find(|policy| restricts(policy))
                    .map(|policy| name(policy).to_owned()),
            },
            invalid: None,
        }
    }

    /// Like [`of`](Self::of), for watched Policies: some of them may not decode.
    #[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
    pub fn of_watched<'p>(policies: impl IntoIterator<Item = &'p Decoded<Policy>>) -> Self {
        let (mut valid, mut invalid) = (Vec::new(), Vec::new());
        for policy in policies {
            match policy {
                Decoded::Valid(policy) => valid.push(&**policy),
                Decoded::Invalid { metadata, error } => invalid.push(InvalidPolicy::new(metadata, error)),
            }
        }
        Self {
            // The first by name, so that the message stays the same.
            invalid: invalid.into_iter().min(),
            ..Self::of(valid)
        }
    }

    /// Applies the defaults of the Policies for empty fields: `serviceAccount` and `helmSecretName`.
    ///
    /// They are never written back to the HelmOp, so that a changed Policy applies to existing HelmOps.
    pub fn apply_defaults<'h>(&self, helmop: &'h HelmOp) -> Cow<'h, HelmOp> {
        let account = self
            .service_accounts
            .default_for(&helmop.spec.bundle.options.service_account);
        let named = &helmop.spec.helm_secret_name;
        // It is for repositories and registries, and would be copied to the clusters.
        let secret = self
            .helm_secrets
            .default_for(named)
            .filter(|_| helmop.spec.packed().is_none());
        if account.is_none() && secret.is_none() {
            return Cow::Borrowed(helmop);
        }
        let mut completed = helmop.clone();
        if let Some(account) = account {
            account.clone_into(&mut completed.spec.bundle.options.service_account);
        }
        if let Some(secret) = secret {
            secret.clone_into(&mut completed.spec.helm_secret_name);
        }
        Cow::Owned(completed)
    }

    /// The Secret with the access to the chart of a HelmOp: that of its packed chart, or the one that it names, or the default. Empty for none.
    pub fn access_secret<'a>(&'a self, spec: &'a HelmOpSpec) -> &'a str {
        match spec.packed() {
            Some(source) => source.secret_name(),
            None => self
                .helm_secrets
                .default_for(&spec.helm_secret_name)
                .unwrap_or(&spec.helm_secret_name),
        }
    }

    /// Checks whether a valid HelmOp, with [defaults](Self::apply_defaults) applied, is allowed.
    ///
    /// # Errors
    /// All violations, with the reason `PolicyViolation`: first those of the HelmOp itself, then those of each target.
    pub fn check(&self, valid: &ValidHelmOp<'_>) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        self.check_decoded(&mut errors, &valid.helmop.metadata);
        if !errors.is_empty() {
            return Err(errors);
        }
        let spec = &valid.helmop.spec;
        let root = Path::root("spec");
        let namespace = valid.helmop.metadata.namespace.as_deref().unwrap_or_default();
        self.check_options(&mut errors, &root, namespace, &spec.bundle.options, NO_ACCOUNT);
        check_name(&mut errors, &root, &self.helm_secrets, &spec.helm_secret_name);
        // The default counts as if it were written: one that a CRD has dropped, too.
        check_name(&mut errors, &root, &self.delivery, valid.delivery.as_str());
        self.check_gates(&mut errors, &root, spec.bundle.rollout_strategy.as_ref());
        let main = valid.chart.source();
        if let Some(packed) = &valid.chart.packed {
            let source = root.field("chartSource");
            let source = source.field(packed.source.field());
            self.check_chart(&mut errors, &source, main, None);
            if let Err(detail) = self.helm_secrets.check(&packed.secret) {
                let reference = source.field("secretRef");
                errors.forbidden(&reference.field("name"), REASON, &packed.secret, detail);
            }
        } else {
            self.check_chart(&mut errors, &root.field("helm"), main, None);
        }
        let targets = root.field("targets");
        for (index, target) in spec.bundle.targets.iter().enumerate() {
            let own = valid.targets.get(index).and_then(Option::as_ref);
            let own = own.map(ChartRequest::source);
            self.check_target(&mut errors, &targets.index(index), namespace, target, main, own);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Checks whether a Bundle may be deployed: Bundles without a HelmOp also name ServiceAccounts, downstream resources and an
    /// access Secret.
    ///
    /// # Errors
    /// All violations, with the reason `PolicyViolation`.
    pub fn check_bundle(&self, bundle: &Bundle) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        self.check_decoded(&mut errors, &bundle.metadata);
        let (root, spec) = (Path::root("spec"), &bundle.spec);
        let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
        self.check_options(&mut errors, &root, namespace, &spec.options, NO_ACCOUNT);
        if let Some(options) = &spec.helm_op_options
            && let Err(detail) = self.helm_secrets.check(&options.secret_name)
        {
            let path = root.field("helmOpOptions");
            let path = path.field("helmOpSecretName");
            errors.forbidden(&path, REASON, &options.secret_name, detail);
        }
        self.check_delivery(&mut errors, bundle);
        self.check_gates(&mut errors, &root, spec.rollout_strategy.as_ref());
        let targets = root.field("targets");
        for (index, target) in spec.targets.iter().enumerate() {
            let path = targets.index(index);
            self.check_options(&mut errors, &path, namespace, &target.options, CLEARED_ACCOUNT);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Checks whether a HelmOp with [defaults](Self::apply_defaults) applied is valid, and then whether it is allowed.
    ///
    /// # Errors
    /// All validation errors, or, if it is valid, all violations.
    pub fn accept<'h>(&self, helmop: &'h HelmOp) -> Result<ValidHelmOp<'h>, FieldErrors> {
        let valid = ValidHelmOp::try_from(helmop)?;
        self.check(&valid)?;
        Ok(valid)
    }

    /// All errors and violations of a HelmOp without defaults, except those in its templates.
    pub fn validate(&self, helmop: &HelmOp) -> FieldErrors {
        self.accept(&self.apply_defaults(helmop))
            .err()
            .unwrap_or_default()
    }

    /// Whether the agent must not create the namespaces of releases, whatever Bundles request: every BundleDeployment of the
    /// namespace then gets `createNamespace: false`.
    ///
    /// Agents create namespaces with their own permissions, which would bypass a required ServiceAccount.
    pub const fn forbid_namespace_creation(&self) -> bool {
        self.requires_service_account.is_some() && !self.allow_namespace_creation
    }

    /// The bytes that charts of the namespace may take in the management cluster; `None` if no Policy says so.
    pub const fn content_size(&self) -> Option<u64> {
        self.content_size
    }

    fn check_decoded(&self, errors: &mut FieldErrors, metadata: &ObjectMeta) {
        if let Some(invalid) = &self.invalid {
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let path = Path::root("metadata");
            errors.forbidden(&path.field("namespace"), REASON, namespace, invalid.to_string());
        }
    }

    fn check_required(&self, errors: &mut FieldErrors, spec: &Path<'_>) {
        let Some(policy) = &self.requires_service_account else {
            return;
        };
        let allowed = &self.service_accounts.allowed;
        let which = if allowed.entries.is_empty() {
            String::new()
        } else {
            format!(" of {}", allowed.allowed_set())
        };
        let detail = format!(
            "serviceAccount is required by Policy but is not set; name one{which}, for requireServiceAccount of Policy \
             {policy:?}"
        );
        errors.required(&spec.field("serviceAccount"), REASON, detail);
    }

    /// Checks the options of a HelmOp, a Bundle or a target, except its chart. `namespace` is that of the HelmOp or Bundle, and `missing`
    /// are the values that name no ServiceAccount.
    fn check_options(
        &self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        namespace: &str,
        options: &BundleDeploymentOptions,
        missing: &[&str],
    ) {
        let account = options.service_account.as_str();
        if self.requires_service_account.is_some() && missing.contains(&account) {
            self.check_required(errors, path);
        } else {
            check_name(errors, path, &self.service_accounts, account);
        }
        let rules = Rules {
            allowed: &self.downstream,
            requires_service_account: self.requires_service_account.as_deref(),
            secrets: &self.helm_secrets,
        };
        let resources = path.field("downstreamResources");
        for (index, resource) in options.downstream_resources.iter().enumerate() {
            if let Err(detail) = rules.check(resource) {
                let path = resources.index(index);
                errors.forbidden(&path.field("name"), REASON, &resource.name, detail);
            }
        }
        let lifecycle = path.field("lifecycle");
        let dependencies = lifecycle.field("dependsOn");
        let entries = options
            .lifecycle
            .iter()
            .flat_map(|lifecycle| &lifecycle.depends_on);
        for (index, dependency) in entries.enumerate() {
            let other = &*dependency.namespace;
            if dependency.is_object() || other.is_empty() || other == namespace {
                continue;
            }
            if let Err(detail) = self.dependencies.check(other) {
                let path = dependencies.index(index);
                errors.forbidden(&path.field("namespace"), REASON, other, detail);
            }
        }
    }

    fn check_target(
        &self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        namespace: &str,
        target: &BundleTarget,
        main: ChartSource<'_>,
        own: Option<ChartSource<'_>>,
    ) {
        self.check_options(errors, path, namespace, &target.options, CLEARED_ACCOUNT);
        if let Some(own) = own {
            self.check_chart(errors, &path.field("helm"), own, Some(main));
        }
    }

    /// Checks how a Bundle has its charts delivered: a record may name a Content that the HelmOp of another tenant has stored.
    fn check_delivery(&self, errors: &mut FieldErrors, bundle: &Bundle) {
        let metadata = Path::root("metadata");
        let annotations = metadata.field("annotations");
        let spec = Path::root("spec");
        let records = recorded_in(bundle).unwrap_or_default();
        let (path, delivery) = if records.iter().any(has_content) {
            (annotations.field(labels::RESOLVED), Delivery::Content)
        } else if bundle.spec.helm_op_options.is_some() {
            (spec.field("helmOpOptions"), Delivery::Direct)
        } else {
            return;
        };
        if let Err(detail) = self.delivery.check(delivery.as_str()) {
            errors.forbidden(&path, REASON, delivery.as_str(), detail);
        }
    }

    /// Checks the endpoints of gates and their Secrets, as if they were repositories: both get what is in the Secret, and requests of the
    /// controller.
    fn check_gates(&self, errors: &mut FieldErrors, root: &Path<'_>, strategy: Option<&RolloutStrategy>) {
        let strategy_path = root.field("rolloutStrategy");
        let partitions = strategy_path.field("partitions");
        for (index, gate) in strategy.into_iter().flat_map(RolloutStrategy::gates) {
            let path = partitions.index(index);
            let path = path.field("gate");
            if let Err(detail) = self.helm_secrets.check(&gate.secret_name) {
                errors.forbidden(&path.field("secretName"), REASON, &gate.secret_name, detail);
            }
            if gate.url.is_empty() {
                continue;
            }
            if let Err(detail) = self.repos.check(&chart::endpoint(&gate.url)) {
                errors.forbidden(&path.field("url"), REASON, &url::redacted(&gate.url), detail);
            }
        }
    }

    /// Checks a chart. Texts that are the same in `inherited` are reported there.
    fn check_chart(
        &self,
        errors: &mut FieldErrors,
        helm: &Path<'_>,
        source: ChartSource<'_>,
        inherited: Option<ChartSource<'_>>,
    ) {
        let checks: [(_, SubjectOf); 2] = [(&self.repos, chart::origin), (&self.charts, chart::chart)];
        for (patterns, subject_of) in checks {
            let subject = subject_of(source);
            if inherited
                .map(subject_of)
                .is_some_and(|inherited| inherited == subject)
            {
                continue;
            }
            if let Err(detail) = patterns.check(&subject) {
                let value = url::redacted(subject.text);
                errors.forbidden(&helm.field(subject.field), REASON, &value, detail);
            }
        }
    }
}

fn check_name(errors: &mut FieldErrors, path: &Path<'_>, names: &Names, name: &str) {
    if let Err(detail) = names.check(name) {
        errors.forbidden(&path.field(names.field), REASON, name, detail);
    }
}

fn name(policy: &Policy) -> &str {
    policy.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
