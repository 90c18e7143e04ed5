//! The HelmOp: this chart, this version or range, on these clusters.

use std::{collections::BTreeMap, ops::Deref};

use serde::{Deserialize, Deserializer, de::MapAccess};

use super::{
    bundle::BundleSpec,
    kind::{Types, kind},
    metadata::Metadata,
    status::StatusBase,
    wire::{self, Part, wire},
};

wire! {
    /// A HelmOp deploys a Helm chart, in one version or the newest of a range of versions, to a set of clusters.
    pub struct HelmOp: [types: Types<HelmOp>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Which chart to deploy, in which version, and to which clusters.
        "spec" => spec: HelmOpSpec,
        /// What came of it.
        "status" => status: Option<HelmOpStatus>,
    }
}

kind!(HelmOp, "helmops");

/// A HelmOp that is decoded without its status, for those who decide on what its user wrote. A status lists objects of all
/// clusters, and can be many times as large as the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithoutStatus(pub HelmOp);

impl Part for WithoutStatus {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        Ok(key != "status" && self.0.take(key, map)?)
    }
}

impl<'de> Deserialize<'de> for WithoutStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::deserialize(deserializer)
    }
}

impl Deref for WithoutStatus {
    type Target = HelmOp;

    fn deref(&self) -> &HelmOp {
        &self.0
    }
}

wire! {
    /// Which chart to deploy, in which version, and to which clusters.
    pub struct HelmOpSpec: [bundle: BundleSpec] {
        /// Labels of the Bundle that is made of this HelmOp.
        "labels" => labels: BTreeMap<String, String>,
        /// How often to look for a newer version in the range that `helm.version` gives, as a duration such as `15m` or
        /// `1h30m`. Looking is off by default, with `0s`, and for an exact version.
        #[schemars(length(min = 1, max = 32))]
        "pollingInterval" | polling_interval => polling_interval: Option<String>,
        /// Secret in the same namespace with the credentials for the repository or registry: `username` and `password`,
        /// `cacerts` with certificates to trust (PEM), `basicHTTP`. It is copied to the target clusters for the agent.
        "helmSecretName" | nullable => helm_secret_name: String,
        /// Do not verify the certificate of the repository or registry. Prefer `cacerts` in the Secret.
        "insecureSkipTLSVerify" => insecure_skip_tls_verify: bool,
    }
}

wire! {
    /// What came of a HelmOp.
    pub struct HelmOpStatus: [base: StatusBase] {
        /// When the last look for a newer version began, whatever came of it.
        #[schemars(extend("format" = "date-time"))]
        "lastPollingTriggered" | nullable => last_polling_triggered: String,
        /// The version of the chart that is deployed.
        "version" => version: String,
        /// The `metadata.generation` that the status speaks of.
        "observedGeneration" => observed_generation: Option<i64>,
        /// The charts that were looked up, and the version that each came to: the HelmOp's own and those of targets
        /// that name another chart or version.
        "resolved" => resolved: Vec<ResolvedChart>,
    }
}

wire! {
    /// A chart that was looked up, and the version that was chosen. It stays until repository, chart or version change
    /// in the spec, or a newer version is asked for.
    pub struct ResolvedChart {
        /// URL of the repository, without credentials.
        "repo" => repo: String,
        /// Name of the chart.
        "chart" => chart: String,
        /// The version or range that was asked for.
        "constraint" => constraint: String,
        /// The version that was chosen.
        "version" => version: String,
        /// Digest of the version's archive (SHA-256 in hex, as the index lists it) or of its manifest (`sha256:…`, in a
        /// registry), when it was chosen. Empty where it is not known.
        "digest" => digest: String,
        /// Where the version's archive or manifest was, without credentials. Empty where it is not known.
        "url" => url: String,
    }
}
