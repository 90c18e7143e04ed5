//! The CustomResourceDefinitions of our kinds, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{
    bundle::Bundle,
    bundle_deployment::BundleDeployment,
    bundle_namespace_mapping::BundleNamespaceMapping,
    cluster::Cluster,
    cluster_group::ClusterGroup,
    helmop::HelmOp,
    kind::{GROUP, VERSION},
    limits,
    policy::Policy,
    schema::structural,
};

/// A column of `kubectl get`.
type Column = (&'static str, &'static str, &'static str);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
const READY_MESSAGE: Column = (
    "Status",
    "string",
    r#".status.conditions[?(@.type=="Ready")].message"#,
);

/// The definitions of what is installed, by the name of their file.
pub fn all() -> Result<Vec<(&'static str, CustomResourceDefinition)>, serde_json::Error> {
    Ok(vec![
        ("bundles.yaml", serde_json::from_value(bundle())?),
        ("helmops.yaml", serde_json::from_value(helmop())?),
        ("policies.yaml", serde_json::from_value(policy())?),
    ])
}

/// Definitions of the kinds that only whoever brings Bundles to clusters needs, by the name of their file. Beside Fleet
/// they are Fleet's.
pub fn of_clusters() -> Result<Vec<(&'static str, CustomResourceDefinition)>, serde_json::Error> {
    Ok(vec![
        (
            "bundledeployments.yaml",
            serde_json::from_value(bundle_deployment())?,
        ),
        ("bundlenamespacemappings.yaml", serde_json::from_value(mapping())?),
        ("clustergroups.yaml", serde_json::from_value(cluster_group())?),
        ("clusters.yaml", serde_json::from_value(cluster())?),
    ])
}

fn helmop() -> Value {
    let mut schema = structural::<HelmOp>();
    default_customization_mode(&mut schema);
    limits::add_to(&mut schema);
    let columns = [
        ("Repo", "string", ".spec.helm.repo"),
        ("Chart", "string", ".spec.helm.chart"),
        ("Version", "string", ".status.version"),
        (
            "BundleDeployments-Ready",
            "string",
            ".status.display.readyBundleDeployments",
        ),
        READY_MESSAGE,
        AGE,
    ];
    definition::<HelmOp>(schema, Some("fleet"), &columns, true)
}

fn bundle() -> Value {
    let mut schema = structural::<Bundle>();
    default_customization_mode(&mut schema);
    let columns = [
        (
            "BundleDeployments-Ready",
            "string",
            ".status.display.readyClusters",
        ),
        READY_MESSAGE,
        AGE,
    ];
    definition::<Bundle>(schema, None, &columns, true)
}

fn bundle_deployment() -> Value {
    let columns = [
        // Straight from the agent: Fleet has its controller copy them to `.status.display`, one more write each time.
        (
            "Deployed",
            "string",
            ".status.conditions[?(@.type==\"Deployed\")].status",
        ),
        (
            "Monitored",
            "string",
            ".status.conditions[?(@.type==\"Monitored\")].status",
        ),
        READY_MESSAGE,
        AGE,
    ];
    definition::<BundleDeployment>(structural::<BundleDeployment>(), None, &columns, true)
}

fn cluster() -> Value {
    let columns = [
        ("Bundles-Ready", "string", ".status.display.readyBundles"),
        ("Last-Seen", "string", ".status.agent.lastSeen"),
        READY_MESSAGE,
        AGE,
    ];
    definition::<Cluster>(structural::<Cluster>(), None, &columns, true)
}

fn cluster_group() -> Value {
    let columns = [
        ("Clusters-Ready", "string", ".status.display.readyClusters"),
        ("Bundles-Ready", "string", ".status.display.readyBundles"),
        READY_MESSAGE,
        AGE,
    ];
    definition::<ClusterGroup>(structural::<ClusterGroup>(), Some("fleet"), &columns, true)
}

fn mapping() -> Value {
    definition::<BundleNamespaceMapping>(structural::<BundleNamespaceMapping>(), None, &[AGE], false)
}

fn policy() -> Value {
    definition::<Policy>(structural::<Policy>(), None, &[AGE], false)
}

/// Fleet stores this default in every object, so that a reader need not know it.
fn default_customization_mode(schema: &mut Value) {
    if let Some(mode) = schema.pointer_mut("/properties/spec/properties/targetCustomizationMode") {
        mode["default"] = json!("FirstMatch");
    }
}

fn definition<K>(mut schema: Value, category: Option<&str>, columns: &[Column], has_status: bool) -> Value
where
    K: Resource<DynamicType = ()> + JsonSchema,
{
    let (kind, plural) = (K::kind(&()), K::plural(&()));
    // The API server knows metadata itself and refuses a schema for it.
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({ "type": "object" });
    }
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, r#type, path)| json!({ "name": name, "type": r#type, "jsonPath": path }))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "categories": category.map(|category| [category]),
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns,
                "subresources": has_status.then(|| json!({ "status": {} })),
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}
