//! The release of a HelmOp on each cluster.

use helmops_api::{
    BundleDeployment, Condition, Decoded, HelmOptions,
    lifecycle::{LifecycleStatus, ReleaseAttempt},
    status::BundleSummary,
};
use helmops_core::status::{Deployment, ObservedDeployment, by_cluster};
use helmops_model::deployment_state::DeploymentState;
use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;

use super::{style, times::relative};
use crate::terminal::table::{Cell, Table};

/// The release on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The cluster, as `namespace/name`.
    pub cluster: String,
    /// The BundleDeployment, as `namespace/name`; empty if there is none yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment: String,
    pub state: String,
    /// The version that is to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The version that the roll-out brings later, if it is another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub staged_version: String,
    /// What runs, such as `web 1.0.0, revision 3`; empty if it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runs: String,
    /// The release, as `namespace/name:revision`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// How many attempts to deploy the version have failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// When the next attempt is made.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_attempt: String,
    /// Whether the agent does nothing with the release.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ClusterReport {
    fn of(deployment: &Deployment<'_>) -> Self {
        let report = Self {
            cluster: deployment.name.to_string(),
            state: deployment.state.as_str().to_owned(),
            message: deployment.message(),
            ..Self::default()
        };
        let ObservedDeployment::Decoded(object) = deployment.observed else {
            return report;
        };
        let version = |helm: Option<&HelmOptions>| helm.map(|helm| helm.version.clone()).unwrap_or_default();
        let lifecycle = object.status.lifecycle.as_deref();
        let message = match &*report.message {
            "" => waiting(object).unwrap_or_default(),
            _ => report.message,
        };
        let staged = version(object.spec.staged_options.helm.as_ref());
        let current = version(object.spec.options.helm.as_ref());
        Self {
            deployment: name(object),
            staged_version: if staged == current { String::new() } else { staged },
            version: current,
            runs: runs(object).unwrap_or_default(),
            release: object.status.release.clone(),
            failures: lifecycle.map_or(0, |lifecycle| lifecycle.failures),
            next_attempt: lifecycle
                .map(|lifecycle| lifecycle.next_attempt.clone())
                .unwrap_or_default(),
            suspended: lifecycle.is_some_and(|lifecycle| lifecycle.suspended),
            message,
            ..report
        }
    }

    /// Whether everything is as it should be.
    pub fn is_ready(&self) -> bool {
        self.state == DeploymentState::Ready.as_str() && !self.suspended
    }
}

/// Namespace and name of an object.
pub fn name(object: &impl Resource) -> String {
    let metadata = object.meta();
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

/// The objects that are late, or what the release waits for.
fn waiting(object: &BundleDeployment) -> Option<String> {
    if is_held_by_schedule(object) {
        return Some(
            "it waits for a window of its Schedules: kubectl helmop cluster list -o wide shows when"
                .to_owned(),
        );
    }
    let status = &object.status;
    let released = Condition::find(&status.conditions, "Released");
    if let Some(released) = released.filter(|released| released.status != "True") {
        return Some(released.message.clone());
    }
    let first = status.non_ready_status.first().map(ToString::to_string);
    first.or_else(|| status.modified_status.first().map(ToString::to_string))
}

/// Whether something is to be deployed, and the Schedules of the cluster do not allow it now.
fn is_held_by_schedule(object: &BundleDeployment) -> bool {
    object.spec.off_schedule && object.status.applied_deployment_id != object.spec.deployment_id
}

/// What runs on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running<'d> {
    /// Name of the chart; empty if it is not recorded.
    pub chart: &'d str,
    /// Version of the chart; empty if it is not known.
    pub version: &'d str,
    /// Revision of the release.
    pub revision: String,
}

/// What runs. A life cycle records it; otherwise its version is known only if it is what is desired.
pub fn running(object: &BundleDeployment) -> Option<Running<'_>> {
    let status = &object.status;
    let attempts = status
        .lifecycle
        .as_deref()
        .map(|LifecycleStatus { history, .. }| history);
    let deployed =
        attempts.and_then(|attempts| attempts.iter().find(|attempt| attempt.outcome == "deployed"));
    if let Some(ReleaseAttempt {
        chart,
        version,
        revision,
        ..
    }) = deployed
    {
        return Some(Running {
            chart,
            version,
            revision: revision.to_string(),
        });
    }
    let (_, revision) = status.release.rsplit_once(':')?;
    let is_desired = status.applied_deployment_id == object.spec.deployment_id;
    let helm = object.spec.options.helm.as_ref().filter(|_| is_desired);
    Some(Running {
        chart: "",
        version: helm.map(|helm| &*helm.version).unwrap_or_default(),
        revision: revision.to_owned(),
    })
}

/// What runs, such as `web 1.0.0, revision 3`.
fn runs(object: &BundleDeployment) -> Option<String> {
    let Running {
        chart,
        version,
        revision,
    } = running(object)?;
    Some(match (chart, version) {
        ("", "") => format!("revision {revision}"),
        ("", version) => format!("{version}, revision {revision}"),
        (chart, version) => format!("{chart} {version}, revision {revision}"),
    })
}

/// The clusters, in the order of their names: those with a BundleDeployment, and those that the status lists without one.
pub fn clusters(
    deployments: &[Decoded<BundleDeployment>],
    summary: Option<&BundleSummary>,
) -> Vec<ClusterReport> {
    let all: Vec<_> = deployments.iter().collect();
    let mut reports: Vec<_> = by_cluster(&all).iter().map(ClusterReport::of).collect();
    let listed = summary
        .into_iter()
        .flat_map(|summary| &summary.non_ready_resources);
    let without: Vec<_> = listed
        .filter(|one| reports.iter().all(|report| report.cluster != one.name))
        .map(|one| ClusterReport {
            cluster: one.name.clone(),
            state: one.bundle_state.clone(),
            message: one.message.clone(),
            ..ClusterReport::default()
        })
        .collect();
    reports.extend(without);
    reports.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    reports
}

#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn table<'c>(clusters: impl IntoIterator<Item = &'c ClusterReport>, now: Timestamp) -> Table {
    let mut table = Table::new(&[
        "CLUSTER",
        "STATE",
        "VERSION",
        "RUNS",
        "FAILED",
        "NEXT ATTEMPT",
        "MESSAGE",
    ]);
    for cluster in clusters {
        table.row([
            Cell::from(&*cluster.cluster),
            style::state(if cluster.suspended {
                "Suspended"
            } else {
                &cluster.state
            }),
            versions(cluster).into(),
            (&*cluster.runs).into(),
            attempts(cluster.failures).into(),
            relative(&cluster.next_attempt, now).into(),
            Cell::or_blank(&*cluster.message),
        ]);
    }
    table
}

fn versions(cluster: &ClusterReport) -> String {
    match (&*cluster.version, &*cluster.staged_version) {
        ("", staged) => staged.to_owned(),
        (version, "") => version.to_owned(),
        (version, staged) => format!("{version} (then {staged})"),
    }
}

fn attempts(failures: i64) -> String {
    match failures {
        0 => String::new(),
        1 => "1 attempt".to_owned(),
        several => format!("{several} attempts"),
    }
}
