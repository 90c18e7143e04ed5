//! The HelmOp: this chart, this version or range, on these clusters.

use std::{collections::BTreeMap, ops::Deref};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer, de::MapAccess};

use super::{
    bundle::{BundleSpec, RolloutStatus},
    kind::{TypeMeta, kind},
    lifecycle::LifecycleSummary,
    metadata::Metadata,
    notifications::LocalReference,
    same_resource::same_resource_as,
    status::StatusBase,
    unknown_fields::UnknownFields,
    wire::{self, FieldSet},
    wire_struct::wire,
};

wire! {
    /// A HelmOp deploys a Helm chart, in one version or the newest of a range of versions, to a set of clusters.
    pub struct HelmOp: [type_meta: TypeMeta<HelmOp>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Which chart to deploy, in which version, and to which clusters.
        "spec" => spec: HelmOpSpec,
        /// The observed state.
        "status" => status: Option<HelmOpStatus>,
    }
}

kind!(HelmOp, "helmops");

/// An object that is decoded without its status, for decisions that depend only on what the user wrote. A status lists objects
/// of all clusters, and can be many times as large as the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithoutStatus<K = HelmOp>(pub K);

impl<K: FieldSet> FieldSet for WithoutStatus<K> {
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        Ok(key != "status" && self.0.read_field(key, map)?)
    }
}

impl<'de, K: FieldSet> Deserialize<'de> for WithoutStatus<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::deserialize(deserializer)
    }
}

impl<K> Deref for WithoutStatus<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

/// A HelmOp that is decoded without the objects and the counts of each cluster in its status, for lists of many HelmOps: these are
/// most of a status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithoutObjects(pub HelmOp);

impl FieldSet for WithoutObjects {
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        if key != "status" {
            return self.0.read_field(key, map);
        }
        let status = wire::value::<Option<StatusWithoutObjects>, _>(map, key)?;
        self.0.status = status.map(|StatusWithoutObjects(status)| status);
        Ok(true)
    }
}

impl<'de> Deserialize<'de> for WithoutObjects {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::deserialize(deserializer)
    }
}

impl Deref for WithoutObjects {
    type Target = HelmOp;

    fn deref(&self) -> &HelmOp {
        &self.0
    }
}

impl Resource for WithoutObjects {
    same_resource_as!(HelmOp);

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[derive(Default)]
struct StatusWithoutObjects(HelmOpStatus);

impl FieldSet for StatusWithoutObjects {
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let is_left_out = matches!(key, "resources" | "perClusterResourceCounts");
        Ok(!is_left_out && self.0.read_field(key, map)?)
    }
}

impl<'de> Deserialize<'de> for StatusWithoutObjects {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::deserialize(deserializer)
    }
}

wire! {
    /// Which chart to deploy, in which version, and to which clusters.
    pub struct HelmOpSpec: [bundle: BundleSpec] {
        /// Labels of the Bundle that is made from this HelmOp.
        "labels" => labels: BTreeMap<String, String>,
        /// How often to poll for a newer version in the range that `helm.version` gives, as a duration such as `15m` or
        /// `1h30m`. Polling is off by default, with `0s`, and for an exact version.
        #[schemars(length(min = 1, max = 32))]
        "pollingInterval" | duration => polling_interval: Option<String>,
        /// How long a version has to be known before a poll takes it, as a duration such as `72h`: since a poll first saw it. Not at all by
        /// default. The first version of a chart does not wait, nor does an exact one.
        #[schemars(length(min = 1, max = 32))]
        "minAge" | nullable => min_age: Option<String>,
        /// Only versions in which this regular expression (Go, RE2) matches count for a range, such as `-rc\.\d+$`. `+` of build metadata is
        /// `+` in it, also in a registry. It also applies to charts of targets.
        "semverFilter" | nullable => semver_filter: String,
        /// What happens when a version or a tag of the chart has another digest than the one that is deployed, because it was published
        /// again: the deployed one stays, and the condition `DigestChanged` names the new one (`Hold`), or the new one is released
        /// (`Follow`). If it is set, an exact version and a tag are polled too. By default, a tag of `helm.repo` that is no version, such
        /// as `latest`, is followed, and everything else is held.
        #[schemars(extend("enum" = ["", "Hold", "Follow"]))]
        "onDigestChange" | nullable => on_digest_change: String,
        /// Secret in the same namespace with the credentials for the repository or registry: `username` and `password`,
        /// `cacerts` with certificates to trust (PEM), `proxyAddress`, `basicHTTP`. It is copied to the target clusters for the agent.
        "helmSecretName" | nullable => helm_secret_name: String,
        /// Do not verify the certificate of the repository or registry. Prefer `caBundle`, or `cacerts` in the Secret.
        "insecureSkipTLSVerify" => insecure_skip_tls_verify: bool,
        /// Certificates to trust in addition to those of the system, PEM in base64. `cacerts` of the Secret counts in place of it.
        #[schemars(extend("format" = "byte"))]
        "caBundle" | nullable => ca_bundle: String,
        /// How the charts get to the clusters.
        "chartSource" | nullable => chart_source: Option<ChartSource>,
    }
}

impl HelmOpSpec {
    /// `spec.chartSource.deliver`; empty for the default.
    pub fn deliver(&self) -> &str {
        self.chart_source.as_ref().map_or("", |source| &source.deliver)
    }

    /// The source in `spec.chartSource` of a chart that the controller packs; `None` for one in a repository or a registry.
    pub fn packed(&self) -> Option<PackedChartSource<'_>> {
        self.packed_sources().next()
    }

    /// All sources in `spec.chartSource`, of which only the first counts.
    pub fn packed_sources(&self) -> impl Iterator<Item = PackedChartSource<'_>> {
        let all = self.chart_source.iter().flat_map(|source| {
            [
                source.git.as_deref().map(PackedChartSource::Git),
                source.bucket.as_deref().map(PackedChartSource::Bucket),
                source.oci.as_deref().map(PackedChartSource::Artifact),
                Some(&*source.config_maps)
                    .filter(|config_maps| !config_maps.is_empty())
                    .map(PackedChartSource::ConfigMaps),
            ]
        });
        all.flatten()
    }

    /// Whether `spec.chartSource.manifests` is set.
    pub fn has_manifests(&self) -> bool {
        self.chart_source
            .as_ref()
            .is_some_and(|source| source.manifests.is_some())
    }

    /// `spec.chartSource.git`.
    pub fn git(&self) -> Option<&GitSource> {
        self.chart_source.as_ref()?.git.as_deref()
    }
}

/// Where the files of a chart are that the controller packs.
#[derive(Clone, Copy, Debug)]
pub enum PackedChartSource<'a> {
    /// `spec.chartSource.git`.
    Git(&'a GitSource),
    /// `spec.chartSource.bucket`.
    Bucket(&'a BucketSource),
    /// `spec.chartSource.oci`.
    Artifact(&'a ArtifactSource),
    /// `spec.chartSource.configMaps`, at least one.
    ConfigMaps(&'a [LocalReference]),
}

impl<'a> PackedChartSource<'a> {
    /// The name of the Secret with the access; empty for none.
    pub fn secret_name(self) -> &'a str {
        match self {
            Self::Git(source) => source.secret_name(),
            Self::Bucket(source) => source.secret_name(),
            Self::Artifact(source) => source.secret_name(),
            Self::ConfigMaps(_) => "",
        }
    }

    /// The field of `spec.chartSource` that names it.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Git(_) => "git",
            Self::Bucket(_) => "bucket",
            Self::Artifact(_) => "oci",
            Self::ConfigMaps(_) => "configMaps",
        }
    }
}

wire! {
    /// Where the charts of a HelmOp come from besides repositories and registries, and how they get to the clusters.
    pub struct ChartSource: [unknown: UnknownFields] {
        /// How an agent gets a chart: it downloads it from the repository or registry itself (`Direct`, the default), or the controller
        /// downloads it once, and agents read it from the management cluster (`Content`).
        #[schemars(extend("enum" = ["", "Direct", "Content"]))]
        "deliver" | nullable => deliver: String,
        /// The Git repository that the chart is in, in place of `helm.repo`, `helm.chart` and `helm.version`. The controller reads it, packs the
        /// chart, and delivers it as `Content`.
        "git" | nullable => git: Option<Box<GitSource>>,
        /// The bucket that the chart is in, in place of `helm.repo`, `helm.chart` and `helm.version`. The controller reads it, packs the chart, and
        /// delivers it as `Content`.
        "bucket" | nullable => bucket: Option<Box<BucketSource>>,
        /// The artifact in a registry that the chart is in, such as `flux push artifact` writes it, in place of `helm.repo`, `helm.chart` and
        /// `helm.version`. The controller reads it, packs the chart, and delivers it as `Content`. A chart that was published with `helm push` is
        /// named in `helm.repo`.
        "oci" | nullable => oci: Option<Box<ArtifactSource>>,
        /// ConfigMaps in the same namespace with manifests: each key is the name of a file. They go with `manifests`. The controller reads them,
        /// and releases each change of them.
        "configMaps" | nullable => config_maps: Vec<LocalReference>,
        /// If it is set, also as `{}`, the files in the folder of `git`, `bucket` or `oci` are no chart, but manifests of objects or a kustomization, as those of a
        /// GitRepo: `kustomize` and `yaml` of the HelmOp and of its targets apply to them.
        "manifests" | nullable => manifests: Option<ManifestsSource>,
    }
}

wire! {
    /// Manifests in place of a chart.
    pub struct ManifestsSource: [unknown: UnknownFields] {}
}

wire! {
    /// A chart in a Git repository.
    pub struct GitSource: [unknown: UnknownFields] {
        /// URL of the repository, as `git clone` takes it: `https://…`, `ssh://user@…` or `user@host:path`.
        "url" => url: String,
        /// Which commit counts. The default branch of the repository by default.
        "ref" | nullable => reference: Option<GitReference>,
        /// Folder of the chart in the repository, such as `charts/web`. The top by default.
        "path" | nullable => path: String,
        /// Secret in the same namespace with the access: `username` and `password`, or `bearerToken`, or for SSH `identity` (a private key) and
        /// `known_hosts`; `ca.crt` with certificates to trust. It stays in the management cluster.
        "secretRef" | nullable => secret_ref: Option<LocalReference>,
        /// What is released: each change of the folder of the chart and of the folders that it includes, with a version such as
        /// `1.2.3+0123456789ab` (`Revision`, the default), or only another version in `Chart.yaml` (`ChartVersion`).
        #[schemars(extend("enum" = ["", "Revision", "ChartVersion"]))]
        "reconcileStrategy" | nullable => reconcile_strategy: String,
    }
}

impl GitSource {
    /// The name in `secretRef`; empty for none.
    pub fn secret_name(&self) -> &str {
        self.secret_ref.as_ref().map_or("", |reference| &reference.name)
    }
}

wire! {
    /// A chart in a bucket of S3, Google Cloud Storage or Azure Blob Storage.
    pub struct BucketSource: [unknown: UnknownFields] {
        /// The protocol and the keys of the Secret: `generic` for S3 of any server (the default), `aws`, `gcp` or `azure`.
        #[schemars(extend("enum" = ["", "generic", "aws", "azure", "gcp"]))]
        "provider" | nullable => provider: String,
        /// Name of the bucket, or of the container of Azure.
        "bucketName" => bucket_name: String,
        /// The server, such as `minio.example.com:9000`; for `azure`, `https://ACCOUNT.blob.core.windows.net`. Not needed for `aws` and `gcp`.
        "endpoint" | nullable => endpoint: String,
        /// Region of the bucket, for S3. `us-east-1` by default.
        "region" | nullable => region: String,
        /// Folder that is listed; everything else is in it. The whole bucket by default.
        "prefix" | nullable => prefix: String,
        /// The chart below the prefix: its folder, such as `charts/web`, or its archive, such as `web-1.2.3.tgz`. The prefix itself by default.
        "path" | nullable => path: String,
        /// Allow requests without TLS.
        "insecure" => insecure: bool,
        /// Secret in the same namespace with the access: `accesskey` and `secretkey` for S3, `serviceaccount` for `gcp`, and for `azure`
        /// `accountKey`, `sasKey`, or `tenantId`, `clientId` and `clientSecret`; `ca.crt` with certificates to trust. It stays in the
        /// management cluster. Requests are not signed without it.
        "secretRef" | nullable => secret_ref: Option<LocalReference>,
        /// What is released: each change of the folder of the chart, with a version such as `1.2.3+0123456789ab` (`Revision`, the default for a
        /// folder), or only another version in `Chart.yaml` (`ChartVersion`, the only one for an archive).
        #[schemars(extend("enum" = ["", "Revision", "ChartVersion"]))]
        "reconcileStrategy" | nullable => reconcile_strategy: String,
    }
}

impl BucketSource {
    /// The name in `secretRef`; empty for none.
    pub fn secret_name(&self) -> &str {
        self.secret_ref.as_ref().map_or("", |reference| &reference.name)
    }
}

wire! {
    /// A chart in an artifact of a registry.
    pub struct ArtifactSource: [unknown: UnknownFields] {
        /// Repository of the artifact in the registry, without a tag, such as `oci://registry.example.com/team/web`.
        "url" => url: String,
        /// Which artifact counts. That of the tag `latest` by default.
        "ref" | nullable => reference: Option<ArtifactReference>,
        /// Folder of the chart in the artifact, such as `charts/web`. The top by default.
        "path" | nullable => path: String,
        /// Allow requests without TLS.
        "insecure" => insecure: bool,
        /// Secret in the same namespace with the access, as for charts in registries: `username` and `password`, or `.dockerconfigjson`; `cacerts`
        /// with certificates to trust. It stays in the management cluster.
        "secretRef" | nullable => secret_ref: Option<LocalReference>,
        /// What is released: each change of the folder of the chart and of the folders that it includes, with a version such as
        /// `1.2.3+0123456789ab` (`Revision`, the default), or only another version in `Chart.yaml` (`ChartVersion`).
        #[schemars(extend("enum" = ["", "Revision", "ChartVersion"]))]
        "reconcileStrategy" | nullable => reconcile_strategy: String,
    }
}

impl ArtifactSource {
    /// The name in `secretRef`; empty for none.
    pub fn secret_name(&self) -> &str {
        self.secret_ref.as_ref().map_or("", |reference| &reference.name)
    }
}

wire! {
    /// Which artifact of a repository counts. Of several fields the first of this order: `digest`, `semver`, `tag`.
    pub struct ArtifactReference: [unknown: UnknownFields] {
        /// The artifact of this tag.
        "tag" | nullable => tag: String,
        /// The artifact of the tag with the highest version in this range.
        "semver" | nullable => semver: String,
        /// The artifact whose manifest has this digest, such as `sha256:0123…`.
        "digest" | nullable => digest: String,
    }
}

wire! {
    /// Which commit of a Git repository counts. Of several fields the first of this order: `commit`, `semver`, `tag`, `branch`.
    pub struct GitReference: [unknown: UnknownFields] {
        /// The newest commit of this branch.
        "branch" | nullable => branch: String,
        /// The commit of this tag.
        "tag" | nullable => tag: String,
        /// The commit of the tag with the highest version in this range.
        "semver" | nullable => semver: String,
        /// This commit: 40 or 64 hexadecimal digits.
        "commit" | nullable => commit: String,
    }
}

wire! {
    /// The observed state of a HelmOp.
    pub struct HelmOpStatus: [base: StatusBase] {
        /// When the last poll for a newer version started, whether it succeeded or not.
        #[schemars(extend("format" = "date-time"))]
        "lastPollingTriggered" | nullable => last_polling_triggered: String,
        /// The version of the chart that is deployed.
        "version" => version: String,
        /// The `metadata.generation` that the status is for.
        "observedGeneration" => observed_generation: Option<i64>,
        /// The charts that were resolved, each with its version: the HelmOp's own chart and those of targets that name
        /// another chart or version.
        "resolved" => resolved: Vec<ResolvedChart>,
        /// The life cycle of the releases, if `spec.lifecycle` is set.
        "lifecycle" => lifecycle: Option<LifecycleSummary>,
        /// What is rolled out and what it waits for, if a partition of `spec.rolloutStrategy` has to wait for something.
        "rollout" => rollout: Option<Box<RolloutStatus>>,
        /// Newer versions that wait for `spec.minAge`.
        "seen" => seen: Vec<SeenVersion>,
    }
}

wire! {
    /// A version that a poll has seen.
    pub struct SeenVersion {
        /// URL of the repository, without credentials.
        "repo" => repo: String,
        /// Name of the chart.
        "chart" => chart: String,
        /// The version.
        "version" => version: String,
        /// Its digest. Empty if it is not known.
        "digest" => digest: String,
        /// When a poll saw it with this digest for the first time.
        "firstSeen" => first_seen: String,
    }
}

wire! {
    /// A resolved chart with its version. The version is kept until repository, chart or version change in the spec, or
    /// a poll finds a newer version.
    pub struct ResolvedChart {
        /// URL of the repository, without credentials; with `git+` before it for a Git repository.
        "repo" => repo: String,
        /// Name of the chart, or its folder in a Git repository.
        "chart" => chart: String,
        /// The requested version or range, or which commit of a Git repository counts.
        "constraint" => constraint: String,
        /// The `semverFilter` that the range was resolved with. Empty for none.
        "semverFilter" | nullable => semver_filter: String,
        /// The resolved version.
        "version" => version: String,
        /// Digest of the version's archive (SHA-256 in hex, as the index lists it) or of its manifest (`sha256:…`, in a
        /// registry), at the time of the resolution; for Git, the IDs of the folders that the chart consists of. Empty if it is not known.
        "digest" => digest: String,
        /// URL of the version's archive or manifest, without credentials; for Git, the repository with the commit in which this chart was found.
        /// Empty if it is not known.
        "url" => url: String,
        /// `Follow` if another digest of the same version is released, see `spec.onDigestChange`. Otherwise empty.
        "onDigestChange" | nullable => on_digest_change: String,
        /// The digest that the version has now, if it is another one than `digest`, which is held. Otherwise empty.
        "changedDigest" | nullable => changed_digest: String,
        /// The ID of the Content with the files of the chart, with `spec.chartSource.deliver: Content`. Otherwise empty.
        "content" | nullable => content: String,
        /// Whether the files are manifests, and no chart: see `spec.chartSource.manifests`.
        "manifests" => manifests: bool,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_helmop_without_objects_lacks_nothing_else() {
        let mut object = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "HelmOp",
            "metadata": { "name": "web" },
            "spec": { "helm": { "chart": "web" } },
            "status": { "version": "1.0.0", "conditions": [{ "type": "Ready", "status": "True" }], "resources": [{ "kind": "Pod" }] }
        });
        let decoded: WithoutObjects = serde_json::from_str(&object.to_string()).unwrap();
        object["status"].as_object_mut().unwrap().remove("resources");
        assert_eq!(serde_json::to_value(&decoded.0).unwrap(), object);
        let none: WithoutObjects = serde_json::from_str(r#"{"status":null}"#).unwrap();
        assert_eq!(none.0.status, None);
    }
}
