//! The CRDs in the folders `crds` of a chart and of its enabled subcharts, if the agent applies them in place of Helm.
//!
//! Helm creates them with an installation only, and fails if one exists that another field manager has applied.
//!
//! ```text
//! archive, values ─► Helm prints them ─► documents ─► plan: one step per CRD, or a refusal ─► apply ─► wait until they are served
//! ```
//!
//! Nothing is written before the steps of all CRDs are known.

mod apply;
mod documents;
mod plan;

use std::{path::Path, time::Duration};

use helmops_helm::{
    Failure, FailureReason,
    request::{Action, Crds, Identity, Request},
    run_scope::RunScope,
};
use helmops_release::{lifecycle::CrdPolicy, names::ReleaseKey};
use helmops_runtime::client::{ApiError, bounded};
use kube::Client;

pub use self::{
    apply::Applied,
    plan::{Refusal, Step, step},
};
use crate::helm::HelmRuns;

/// Helm prints CRDs without templates or a cluster, so nothing of it takes long. This is no limit of its run.
const NO_HOOKS: Duration = Duration::ZERO;

/// The CRDs of the chart of a release.
#[derive(Clone, Copy)]
pub struct ChartCrds<'c> {
    /// Resolves which subcharts are enabled.
    pub helm: &'c HelmRuns,
    /// The cluster, as the account that deploys.
    pub client: &'c Client,
    /// The release.
    pub release: &'c ReleaseKey,
    /// What ends Helm early.
    pub stop: &'c RunScope,
}

impl ChartCrds<'_> {
    /// Applies the CRDs of an archive, and waits until the API server serves them.
    ///
    /// # Errors
    /// If the chart is invalid, a CRD is refused or cannot be written, or is not served in time. The text says which one.
    pub async fn apply(
        &self,
        policy: CrdPolicy,
        archive: &Path,
        values: &[Vec<u8>],
    ) -> Result<Applied, Failure> {
        if policy == CrdPolicy::Skip {
            return Ok(Applied::default());
        }
        let text = self.printed(archive, values).await?;
        let (crds, ignored) = documents::crds(&text)?;
        for document in ignored {
            tracing::warn!(release = %self.release, document, "ignoring a document in a folder crds that is no CRD");
        }
        apply::apply(self.client, policy, crds).await
    }

    async fn printed(&self, archive: &Path, values: &[Vec<u8>]) -> Result<String, Failure> {
        let version = bounded(self.client.apiserver_version()).await;
        let version = version.map_err(|error| failed("read the version of the cluster", &error))?;
        let request = Request {
            release: self.release.clone(),
            identity: Identity::Agent,
            action: Action::Crds(Crds {
                archive: archive.to_owned(),
                values: values.to_vec(),
                kube_version: version.git_version,
            }),
            hook_timeout: NO_HOOKS,
        };
        Ok(self.helm.run(request, Vec::new(), self.stop).await?.printed)
    }
}

fn failed(attempt: &str, error: &ApiError) -> Failure {
    let text = format!("could not {attempt}: {error}");
    if error.is_outage() {
        Failure::new(FailureReason::Unreachable, text)
    } else {
        Failure::of_text(&text, error.status())
    }
}
