//! Which chart, which version, and how Helm installs it.

use std::collections::BTreeMap;

use super::{free_form::FreeForm, unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// Which chart to deploy and how Helm installs it.
    ///
    /// A chart is named in one of three ways: `repo` (http or https) with `chart` names a chart of a Helm repository;
    /// `repo` with `oci://` and no `chart` names a chart in an OCI registry; `chart` alone, ending in `.tgz`, is the
    /// URL of a chart archive.
    ///
    /// The order of the fields is Fleet's: the deployment ID is a hash of them in this order.
    pub struct HelmOptions: [unknown: UnknownFields] {
        /// Name of the chart in the repository that `repo` names, or the URL of a chart archive ending in `.tgz`.
        /// Must be empty if `repo` starts with `oci://`.
        "chart" | nullable => chart: String,
        /// URL of the Helm repository (https://, http://), or of the chart in an OCI registry (oci://). Must be empty
        /// for a chart archive.
        "repo" | nullable => repo: String,
        /// Name of the Helm release, at most 53 characters. By default it is derived from the object's name.
        #[schemars(length(max = 53), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
        "releaseName" | nullable => release_name: String,
        /// Version of the chart: exact (`1.2.3`), a range (`1.2.x`, `~1.2`, `^1`, `>=1.2 <2`, `1.2 - 1.4`, alternatives
        /// joined by `||`) or empty for the latest release. A range is resolved to one version for all clusters. It
        /// must be empty for a chart archive.
        "version" | nullable => version: String,
        /// Time in seconds that Helm waits for the release's objects to become ready. 0 does not wait.
        "timeoutSeconds" => timeout_seconds: i64,
        /// Values of the chart, as in its values.yaml. Strings may hold templates between `${` and `}` that are
        /// rendered for each cluster.
        "values" | nullable => values: Option<FreeForm>,
        /// Values as templates: the text of each entry is rendered for each cluster, parsed as YAML and set as the
        /// top-level key of `values` that the entry is named after.
        "templateValues" | nullable => template_values: BTreeMap<String, String>,
        /// ConfigMaps and Secrets on the target cluster whose content overrides `values`; later ones override earlier
        /// ones.
        "valuesFrom" | nullable => values_from: Vec<ValuesFrom>,
        /// Replace each object in place of applying it, which overwrites fields of other managers. It cannot change immutable fields.
        "force" => force: bool,
        /// Take ownership of existing objects that belong to no release or to another one.
        "takeOwnership" => take_ownership: bool,
        /// Number of revisions that Helm keeps of the release. 0 uses the agent's default.
        "maxHistory" => max_history: i64,
        /// Files of the chart with values, by their paths in it: they override the chart's values.yaml in this order, and `values` overrides
        /// them. Of a bundle that is made from a Git repository, files of the repository.
        "valuesFiles" | nullable => values_files: Vec<String>,
        /// Wait for Jobs to complete too, within `timeoutSeconds`.
        "waitForJobs" => wait_for_jobs: bool,
        /// Roll back (or uninstall, on the first install) when the release does not become ready in time.
        "atomic" => atomic: bool,
        /// Leave templates in `values` as they are.
        "disablePreProcess" => disable_pre_process: bool,
        /// Disable DNS lookups in template functions of the chart.
        "disableDNS" => disable_dns: bool,
        /// Do not check the values against the chart's values.schema.json.
        "skipSchemaValidation" => skip_schema_validation: bool,
        /// Do not update the chart's dependencies.
        "disableDependencyUpdate" => disable_dependency_update: bool,
    }
}

wire! {
    /// A ConfigMap or a Secret on the target cluster that holds values.
    pub struct ValuesFrom: [unknown: UnknownFields] {
        /// A key of a ConfigMap.
        "configMapKeyRef" | nullable => config_map_key_ref: Option<KeySelector>,
        /// A key of a Secret.
        "secretKeyRef" | nullable => secret_key_ref: Option<KeySelector>,
    }
}

wire! {
    /// A key of a ConfigMap or Secret.
    pub struct KeySelector: [unknown: UnknownFields] {
        /// Name of the object.
        "name" | nullable => name: String,
        /// Namespace of the object, on the target cluster. By default the namespace of the release.
        "namespace" | nullable => namespace: String,
        /// Key in the object's data. By default `values.yaml`.
        "key" | nullable => key: String,
    }
}
