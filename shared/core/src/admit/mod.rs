//! Validation of HelmOps.
//!
//! The webhook denies a HelmOp that is invalid here, and the controller does not act on it. The webhook checks `templates` too,
//! which the controller renders for each cluster. A HelmOp that could work is never rejected; questionable settings get a
//! warning.

mod artifact;
mod bucket;
mod config_maps;
mod ca_bundle;
mod chart;
pub mod cycle;
pub mod default;
mod depth;
mod git;
mod lifecycle;
mod limits;
pub mod nulls;
mod options;
mod packed;
mod rollout;
pub(crate) mod templates;
pub(crate) mod warning;

use std::time::Duration;

use helmops_api::{HelmOp, HelmOptions, target::BundleRef};
use helmops_model::{
    chart::{delivery::Delivery, request::ChartRequest},
    deployment_state::DeploymentState,
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, names, selector},
};

pub use self::warning::warnings;
use crate::poll;

/// The longest time that a run of Helm may take, with all its hooks, whatever the timeout of a hook is: until then it occupies a process.
pub const MAX_HELM_RUN: Duration = Duration::from_hours(6);

/// A valid HelmOp, and its parsed fields.
#[derive(Clone, Debug)]
pub struct ValidHelmOp<'a> {
    /// The HelmOp, as it is stored or with the defaults of Policies.
    pub helmop: &'a HelmOp,
    /// Its `spec.helm`.
    pub helm: &'a HelmOptions,
    /// The chart and version that it requests.
    pub chart: ChartRequest<'a>,
    /// For each target, what its own `helm` block requests, after inheritance; `None` for a target without one.
    pub targets: Vec<Option<ChartRequest<'a>>>,
    /// How often to poll for a newer version; `None` if polling is off or could never find one.
    pub polling: Option<Duration>,
    /// How long a version has to be known before a poll takes it.
    pub min_age: Option<Duration>,
    /// How its charts get to the clusters.
    pub delivery: Delivery,
}

impl<'a> TryFrom<&'a HelmOp> for ValidHelmOp<'a> {
    type Error = FieldErrors;

    fn try_from(helmop: &'a HelmOp) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let spec = &helmop.spec;
        let root = Path::root("spec");
        limits::check(&mut errors, &root, helmop);
        if !errors.is_empty() {
            return Err(errors);
        }
        check_own_name(&mut errors, helmop);
        let chart = check_charts(&mut errors, &root, helmop);
        let interval = poll::interval(spec.polling_interval.as_deref()).unwrap_or_else(|error| {
            let text = spec.polling_interval.as_deref().unwrap_or_default();
            errors.invalid(
                &root.field("pollingInterval"),
                Reason::InvalidPollingInterval,
                text,
                error.to_string(),
            );
            None
        });
        let min_age = check_min_age(&mut errors, &root, spec.min_age.as_deref());
        let requests = chart
            .iter()
            .flat_map(|(_, main, targets)| std::iter::once(main).chain(targets.iter().flatten()));
        let delivery = chart::check_delivery(&mut errors, &root.field("chartSource"), spec, requests);
        let secret = root.field("helmSecretName");
        options::check_name(&mut errors, &secret, &spec.helm_secret_name, names::subdomain);
        ca_bundle::check(&mut errors, &root.field("caBundle"), &spec.ca_bundle);
        selector::check_labels(
            &mut errors,
            &root.field("labels"),
            Reason::InvalidLabel,
            &spec.labels,
        );
        options::check(&mut errors, &root, &spec.bundle.options);
        check_placement(&mut errors, &root, helmop);
        lifecycle::check(&mut errors, &root, helmop);
        if let Some((_, chart, targets)) = &chart {
            limits::check_charts(&mut errors, &root, chart, targets);
        }
        match chart {
            Some((helm, chart, targets)) if errors.is_empty() => {
                let is_polled = std::iter::once(&chart)
                    .chain(targets.iter().flatten())
                    .any(ChartRequest::is_polled);
                let polling = interval.filter(|_| is_polled);
                Ok(Self {
                    helmop,
                    helm,
                    chart,
                    targets,
                    polling,
                    min_age,
                    delivery,
                })
            }
            _ => Err(errors),
        }
    }
}

/// The shortest age of a version; `None` if every version is taken.
fn check_min_age(errors: &mut FieldErrors, root: &Path<'_>, text: Option<&str>) -> Option<Duration> {
    let text = text?;
    match go_formats::duration::parse(text) {
        Ok(age) => Some(age).filter(|age| !age.is_zero()),
        Err(error) => {
            let detail = format!("{error}; use a Go duration such as 24h or 72h");
            errors.invalid(&root.field("minAge"), Reason::InvalidMinAge, text, detail);
            None
        }
    }
}

/// The name becomes the value of a label on the Bundle and on everything that is made from it.
fn check_own_name(errors: &mut FieldErrors, helmop: &HelmOp) {
    // A generated name is not known yet, and is short enough.
    let Some(name) = helmop.metadata.name.as_deref() else {
        return;
    };
    if name.len() > helmops_api::limits::LABEL {
        let metadata = Path::root("metadata");
        let detail = "longer than 63 characters, so that it cannot be the value of a label on the Bundle";
        errors.add(
            &metadata.field("name"),
            Reason::InvalidName,
            ErrorType::TooLong,
            name,
            detail,
        );
    }
}

/// The charts that a HelmOp requests: `spec.helm`, its request, and that of each target with a `helm` block of its own.
type Charts<'a> = (&'a HelmOptions, ChartRequest<'a>, Vec<Option<ChartRequest<'a>>>);

/// The requested charts; `None` if any of them is invalid.
fn check_charts<'a>(errors: &mut FieldErrors, root: &Path<'_>, helmop: &'a HelmOp) -> Option<Charts<'a>> {
    if let Some(source) = helmop.spec.packed() {
        return packed::check(errors, root, helmop, source);
    }
    if helmop.spec.has_manifests() {
        packed::require_files(errors, root);
        return None;
    }
    let path = root.field("helm");
    let Some(helm) = &helmop.spec.bundle.options.helm else {
        errors.required(
            &path,
            Reason::HelmRequired,
            "helm options are empty; set the chart to deploy: repo, chart and version (a chart in Git, a bucket or an artifact, spec.chartSource, needs the CRD of HelmOps \
             of this release: another one drops the field)",
        );
        return None;
    };
    let main = chart::check(errors, &path, helm);
    let targets_path = root.field("targets");
    let mut targets = Vec::with_capacity(helmop.spec.bundle.targets.len());
    for (index, target) in helmop.spec.bundle.targets.iter().enumerate() {
        let path = targets_path.index(index);
        targets.push(
            target
                .options
                .helm
                .as_ref()
                .map(|own| chart::check_target(errors, &path.field("helm"), helm, own)),
        );
    }
    let path = root.field("semverFilter");
    let filter = chart::check_filter(errors, &path, &helmop.spec.semver_filter);
    let path = root.field("onDigestChange");
    let policy = chart::check_digest_policy(errors, &path, &helmop.spec.on_digest_change);
    let completed = |mut request: ChartRequest<'a>| {
        if request.is_floating() {
            request.version = request.version.filtered(filter.clone());
        }
        request.on_digest_change = policy;
        request
    };
    let targets = targets.into_iter().map(|target| match target {
        None => Some(None),
        Some(request) => request.map(|request| Some(completed(request))),
    });
    Some((helm, completed(main?), targets.collect::<Option<_>>()?))
}

/// Targets, restrictions, dependencies and rollout.
fn check_placement(errors: &mut FieldErrors, root: &Path<'_>, helmop: &HelmOp) {
    let bundle = &helmop.spec.bundle;
    let path = root.field("targets");
    for (index, target) in bundle.targets.iter().enumerate() {
        let path = path.index(index);
        options::check(errors, &path, &target.options);
        selector::check_criteria(errors, &path, &target.criteria);
    }
    let path = root.field("targetRestrictions");
    for (index, restriction) in bundle.target_restrictions.iter().enumerate() {
        let path = path.index(index);
        selector::check_criteria(errors, &path, &restriction.criteria);
    }
    let path = root.field("dependsOn");
    for (index, dependency) in bundle.depends_on.iter().enumerate() {
        check_dependency(errors, &path.index(index), helmop, dependency);
    }
    if let Some(rollout) = &bundle.rollout_strategy {
        rollout::check(errors, &root.field("rolloutStrategy"), rollout);
    }
}

/// The Bundle has the name of the HelmOp. In another state than `Ready` it may be before it is deployed, so that one is no mistake.
fn check_dependency(errors: &mut FieldErrors, path: &Path<'_>, helmop: &HelmOp, dependency: &BundleRef) {
    selector::check(errors, &path.field("selector"), dependency.selector.as_ref());
    let rejected = DeploymentState::WaitingForDependency.as_str();
    let mut states = dependency.accepted_states.iter();
    if let Some(index) = states.position(|state| state == rejected) {
        errors.invalid(
            &path.field("acceptedStates").index(index),
            Reason::InvalidDependency,
            rejected,
            "the HelmOp would be deployed just when the other one itself waits for others; remove the state",
        );
    }
    let name = &*dependency.name;
    if !name.is_empty() && helmop.metadata.name.as_deref() == Some(name) && waits_until_ready(dependency) {
        errors.invalid(
            &path.field("name"),
            Reason::InvalidDependency,
            name,
            "the HelmOp depends on itself, so it would never be deployed; remove the entry",
        );
    }
}

/// Whether a dependency counts only once it is ready.
fn waits_until_ready(dependency: &BundleRef) -> bool {
    dependency.accepted_states.iter().all(|state| state == "Ready")
}

#[cfg(test)]
mod tests;
