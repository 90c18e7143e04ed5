//! The CRDs, generated from the types.

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
    cluster_registration::{self, ClusterRegistration, ClusterRegistrationToken},
    content::Content,
    helmop::HelmOp,
    kind::VERSION,
    lifecycle_rules, limits,
    notifications::{Alert, AlertProvider, Receiver, limits as notification_limits},
    policy::Policy,
    schedule::{self, Schedule},
    schema::structural,
};

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    data_type: &'static str,
    path: &'static str,
    /// Shown only with `-o wide`: long texts, so that the table fits into 120 characters.
    is_wide: bool,
}

/// A column with a text.
const fn text(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        data_type: "string",
        path,
        is_wide: false,
    }
}

/// A column with a long text.
const fn wide(name: &'static str, path: &'static str) -> Column {
    Column {
        is_wide: true,
        ..text(name, path)
    }
}

/// A column with a count.
const fn number(name: &'static str, path: &'static str) -> Column {
    Column {
        data_type: "integer",
        ..text(name, path)
    }
}

/// A column with the time since.
const fn date(name: &'static str, path: &'static str) -> Column {
    Column {
        data_type: "date",
        ..text(name, path)
    }
}

const AGE: Column = date("Age", ".metadata.creationTimestamp");
/// The reason, which docs/reasons.md explains.
const STATUS: Column = text("Status", r#".status.conditions[?(@.type=="Ready")].reason"#);
const GRANTED: &str = r#".status.conditions[?(@.type=="Granted")].reason"#;
const GRANTED_MESSAGE: &str = r#".status.conditions[?(@.type=="Granted")].message"#;
const MESSAGE: Column = wide("Message", r#".status.conditions[?(@.type=="Ready")].message"#);

/// The CRDs of HelmOps, by the name of their file. Beside Fleet, Fleet's own CRDs are used.
pub fn all() -> Result<Vec<(&'static str, CustomResourceDefinition)>, serde_json::Error> {
    Ok(vec![
        ("bundles.yaml", serde_json::from_value(bundle())?),
        ("helmops.yaml", serde_json::from_value(helmop())?),
        ("policies.yaml", serde_json::from_value(policy())?),
    ])
}

/// The CRDs that only the bundle controller needs, by the name of their file. Beside Fleet, Fleet's own CRDs are used.
pub fn of_clusters() -> Result<Vec<(&'static str, CustomResourceDefinition)>, serde_json::Error> {
    Ok(vec![
        (
            "bundledeployments.yaml",
            serde_json::from_value(bundle_deployment())?,
        ),
        ("bundlenamespacemappings.yaml", serde_json::from_value(mapping())?),
        ("clustergroups.yaml", serde_json::from_value(cluster_group())?),
        (
            "clusterregistrations.yaml",
            serde_json::from_value(cluster_registration())?,
        ),
        (
            "clusterregistrationtokens.yaml",
            serde_json::from_value(cluster_registration_token())?,
        ),
        ("clusters.yaml", serde_json::from_value(cluster())?),
        ("contents.yaml", serde_json::from_value(content())?),
        ("schedules.yaml", serde_json::from_value(schedule())?),
    ])
}

/// The CRDs of notifications, by the name of their file. Fleet has none of them.
pub fn of_notifications() -> Result<Vec<(&'static str, CustomResourceDefinition)>, serde_json::Error> {
    Ok(vec![
        ("alertproviders.yaml", serde_json::from_value(alert_provider())?),
        ("alerts.yaml", serde_json::from_value(alert())?),
        ("receivers.yaml", serde_json::from_value(receiver())?),
    ])
}

fn helmop() -> Value {
    let mut schema = structural::<HelmOp>();
    default_customization_mode(&mut schema);
    default_status(&mut schema);
    limits::add_to(&mut schema);
    lifecycle_rules::add_to(&mut schema);
    leave_to_admission(&mut schema, "releaseName");
    let columns = [
        text("Chart", ".spec.helm.chart"),
        text("Version", ".status.version"),
        text("Ready", ".status.display.readyBundleDeployments"),
        STATUS,
        AGE,
        wide("Repo", ".spec.helm.repo"),
        MESSAGE,
    ];
    crd::<HelmOp>(schema, Some("fleet"), &columns, true)
}

fn bundle() -> Value {
    let mut schema = structural::<Bundle>();
    default_customization_mode(&mut schema);
    let columns = [
        text("Ready", ".status.display.readyClusters"),
        STATUS,
        AGE,
        MESSAGE,
    ];
    crd::<Bundle>(schema, None, &columns, true)
}

fn bundle_deployment() -> Value {
    let columns = [
        // From the conditions of the agent: Fleet's controller copies them to `.status.display`, with one more write each time.
        text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
        text("Deployed", r#".status.conditions[?(@.type=="Deployed")].status"#),
        text(
            "Monitored",
            r#".status.conditions[?(@.type=="Monitored")].status"#,
        ),
        AGE,
        wide("Message", r#".status.conditions[?(@.status!="True")].message"#),
    ];
    crd::<BundleDeployment>(structural::<BundleDeployment>(), None, &columns, true)
}

fn cluster() -> Value {
    let columns = [
        text("Bundles-Ready", ".status.display.readyBundles"),
        STATUS,
        date("Last-Seen", ".status.agent.lastSeen"),
        AGE,
        MESSAGE,
    ];
    crd::<Cluster>(structural::<Cluster>(), None, &columns, true)
}

fn cluster_group() -> Value {
    let columns = [
        text("Clusters-Ready", ".status.display.readyClusters"),
        text("Bundles-Ready", ".status.display.readyBundles"),
        STATUS,
        AGE,
        MESSAGE,
    ];
    crd::<ClusterGroup>(structural::<ClusterGroup>(), Some("fleet"), &columns, true)
}

fn cluster_registration() -> Value {
    let mut schema = structural::<ClusterRegistration>();
    cluster_registration::add_limits(&mut schema, cluster_registration::OF_REGISTRATION);
    let columns = [
        text("Cluster-Name", ".status.clusterName"),
        text("Granted", ".status.granted"),
        text("Status", GRANTED),
        AGE,
        wide("Labels", ".spec.clusterLabels"),
        wide("Message", GRANTED_MESSAGE),
    ];
    crd::<ClusterRegistration>(schema, None, &columns, true)
}

fn cluster_registration_token() -> Value {
    let mut schema = structural::<ClusterRegistrationToken>();
    cluster_registration::add_limits(&mut schema, cluster_registration::OF_TOKEN);
    let columns = [
        text("Secret-Name", ".status.secretName"),
        text("Expires", ".status.expires"),
        AGE,
    ];
    crd::<ClusterRegistrationToken>(schema, None, &columns, true)
}

fn schedule() -> Value {
    let mut schema = structural::<Schedule>();
    schedule::add_limits(&mut schema);
    let columns = [
        text("Schedule", ".spec.schedule"),
        text("Duration", ".spec.duration"),
        text("Active", ".status.active"),
        text("NextStart", ".status.nextStartTime"),
        STATUS,
        AGE,
        wide("Location", ".spec.location"),
        MESSAGE,
    ];
    crd::<Schedule>(schema, None, &columns, true)
}

fn content() -> Value {
    let mut crd = crd::<Content>(structural::<Content>(), None, &[AGE], true);
    if let Some(scope) = crd.pointer_mut("/spec/scope") {
        *scope = json!("Cluster");
    }
    crd
}

fn mapping() -> Value {
    crd::<BundleNamespaceMapping>(structural::<BundleNamespaceMapping>(), None, &[AGE], false)
}

fn policy() -> Value {
    crd::<Policy>(structural::<Policy>(), None, &[AGE], false)
}

fn alert_provider() -> Value {
    let columns = [text("Type", ".spec.type"), STATUS, AGE, MESSAGE];
    let mut schema = structural::<AlertProvider>();
    notification_limits::add_to(&mut schema, notification_limits::OF_ALERT_PROVIDER);
    crd::<AlertProvider>(schema, None, &columns, true)
}

fn alert() -> Value {
    let columns = [
        text("Provider", ".spec.providerRef.name"),
        number("Failing", ".status.failing"),
        number("Undelivered", ".status.undelivered"),
        STATUS,
        date("Last-Delivered", ".status.lastDelivered"),
        AGE,
        MESSAGE,
    ];
    let mut schema = structural::<Alert>();
    notification_limits::add_to(&mut schema, notification_limits::OF_ALERT);
    crd::<Alert>(schema, None, &columns, true)
}

fn receiver() -> Value {
    let mut schema = structural::<Receiver>();
    notification_limits::add_to(&mut schema, notification_limits::OF_RECEIVER);
    let columns = [
        text("Type", ".spec.type"),
        STATUS,
        date("Last-Push", ".status.lastPush"),
        AGE,
        wide("Path", ".status.webhookPath"),
        MESSAGE,
    ];
    crd::<Receiver>(schema, None, &columns, true)
}

/// Fleet's CRDs have this default too, so that it is explicit in every stored object.
fn default_customization_mode(schema: &mut Value) {
    if let Some(mode) = schema.pointer_mut("/properties/spec/properties/targetCustomizationMode") {
        mode["default"] = json!("FirstMatch");
    }
}

/// A HelmOp that no controller has observed is in progress for tools that follow kstatus: without a status, they take it for ready.
fn default_status(schema: &mut Value) {
    if let Some(status) = schema.pointer_mut("/properties/status") {
        status["default"] = json!({ "observedGeneration": -1 });
    }
}

/// Removes the bounds of a string field. The API server checks a schema before it calls the webhook, whose message names the fix.
fn leave_to_admission(schema: &mut Value, field: &str) {
    if let Some(field) = schema
        .pointer_mut(&format!("/properties/{field}"))
        .and_then(Value::as_object_mut)
    {
        field.remove("pattern");
        field.remove("maxLength");
    }
    match schema {
        Value::Object(schema) => schema
            .values_mut()
            .for_each(|value| leave_to_admission(value, field)),
        Value::Array(list) => list.iter_mut().for_each(|value| leave_to_admission(value, field)),
        _ => {}
    }
}

fn crd<K>(mut schema: Value, category: Option<&str>, columns: &[Column], has_status: bool) -> Value
where
    K: Resource<DynamicType = ()> + JsonSchema,
{
    let (group, kind, plural) = (K::group(&()), K::kind(&()), K::plural(&()));
    // The API server validates metadata itself and rejects a schema for it.
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({ "type": "object" });
    }
    let columns: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.data_type, "jsonPath": column.path,
                "priority": column.is_wide.then_some(1),
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
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
