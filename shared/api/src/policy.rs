//! What HelmOps and GitRepos of a namespace may use.

use super::{
    kind::{TypeMeta, kind},
    metadata::Metadata,
    wire_struct::wire,
};

wire! {
    /// A Policy restricts what HelmOps, GitRepos and Bundles of its namespace may use. Several Policies are merged.
    pub struct Policy: [type_meta: TypeMeta<Policy>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Reject HelmOps, GitRepos and Bundles that name no ServiceAccount.
        "requireServiceAccount" => require_service_account: bool,
        /// ServiceAccounts that may be named. Empty allows all.
        "allowedServiceAccounts" | nullable => allowed_service_accounts: Vec<String>,
        /// Secrets and ConfigMaps that `downstreamResources` may name, each as `Secret/name` or `ConfigMap/name`: regular
        /// expressions, one of which must match the whole text. Empty allows none if a ServiceAccount is required,
        /// and otherwise all ConfigMaps and the Secrets in `helmOp.allowedHelmSecretNames`.
        "allowedDownstreamResources" | nullable => allowed_downstream_resources: Vec<String>,
        /// Namespaces of HelmOps and Bundles that `lifecycle.dependsOn` may name, besides their own: regular expressions, one of which must
        /// match the whole name. Empty allows none if a Policy of the namespace restricts HelmOps in any other way, and otherwise all.
        "allowedDependencyNamespaces" | nullable => allowed_dependency_namespaces: Vec<String>,
        /// Labels that agents may request for new Clusters when they register themselves: regular expressions, one of which must match the
        /// whole key. Empty allows all but those of Fleet, Rancher and helmops.
        "allowedRegistrationLabels" | nullable => allowed_registration_labels: Vec<String>,
        /// Allow the creation of namespaces although a ServiceAccount is required.
        "allowNamespaceCreation" => allow_namespace_creation: bool,
        /// What GitRepos may use.
        "gitRepo" | nullable => git_repo: Option<GitRepoPolicy>,
        /// What HelmOps may use.
        "helmOp" | nullable => helm_op: Option<HelmOpPolicy>,
    }
}

kind!(Policy, "policies");

wire! {
    /// What GitRepos may use.
    pub struct GitRepoPolicy {
        /// ServiceAccount of GitRepos that name none.
        "defaultServiceAccount" | nullable => default_service_account: String,
        /// Secret of GitRepos that name none.
        "defaultClientSecretName" | nullable => default_client_secret_name: String,
        /// Secrets that may be named. Empty allows all.
        "allowedClientSecretNames" | nullable => allowed_client_secret_names: Vec<String>,
        /// Regular expressions, one of which must match the whole URL of the repository. Empty allows all.
        "allowedRepoPatterns" | nullable => allowed_repo_patterns: Vec<String>,
    }
}

wire! {
    /// What HelmOps may use.
    pub struct HelmOpPolicy {
        /// ServiceAccount of HelmOps that name none.
        "defaultServiceAccount" | nullable => default_service_account: String,
        /// Secret of HelmOps that name none.
        "defaultHelmSecretName" | nullable => default_helm_secret_name: String,
        /// Secrets that may be named. Empty allows all.
        "allowedHelmSecretNames" | nullable => allowed_helm_secret_names: Vec<String>,
        /// Regular expressions, one of which must match the whole URL of the repository. Empty allows all.
        "allowedHelmRepoPatterns" | nullable => allowed_helm_repo_patterns: Vec<String>,
        /// Regular expressions, one of which must match the whole name of the chart. Empty allows all.
        "allowedChartPatterns" | nullable => allowed_chart_patterns: Vec<String>,
        /// Values of `spec.chartSource.deliver` that may be used: `Direct`, `Content`. Empty allows both.
        "allowedDelivery" | nullable => allowed_delivery: Vec<String>,
        /// Bytes that the charts of this namespace may take in the management cluster, compressed, such as `64Mi`; `0` for none. By default half of
        /// `--content-size` of the controller. Of several Policies the largest counts.
        #[schemars(length(max = 24), regex(pattern = r"^([0-9]+(Ki|Mi|Gi)?)?$"))]
        "contentSize" | nullable => content_size: String,
    }
}
