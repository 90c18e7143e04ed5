//! HelmOps as users write them and as the API server stores them.

use serde_json::{Map, Value, json};

use super::{REPO, Source, source};

/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "fleet-default";

/// A change by a user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub number: usize,
    /// The requested chart.
    pub source: Source,
    /// Whether a polling interval is set.
    pub polling: bool,
    /// Whether the object exists already.
    pub update: bool,
}

impl Change {
    /// Name of the object.
    pub(super) fn name(&self) -> String {
        format!("orders-{:04}", self.number)
    }
}

/// The object after the change.
pub(super) fn submitted(change: &Change) -> Value {
    let spec = spec(change.number, change.source, change.polling);
    if change.update {
        existing(&change.name(), &spec)
    } else {
        new(&change.name(), &spec)
    }
}

/// The object before the change; valid, and with another spec than any that is submitted.
pub(super) fn stored(change: &Change) -> Value {
    let spec = spec(change.number + 1, source(REPO, "orders", "2.10.3"), true);
    existing(&change.name(), &spec)
}

fn new(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": { "app.kubernetes.io/managed-by": "kubectl", "team": "commerce" },
            "annotations": { "example.com/change": "CHG-48213" },
            "managedFields": [managed_fields(spec)],
        },
        "spec": spec,
    })
}

fn existing(name: &str, spec: &Value) -> Value {
    let mut object = new(name, spec);
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!("d0b5c1c8-5f0a-4c7a-9d54-6f2b8f3f1c77"));
        metadata.insert("creationTimestamp".to_owned(), json!("2026-03-02T08:41:17Z"));
        metadata.insert("generation".to_owned(), json!(2));
        metadata.insert("resourceVersion".to_owned(), json!("48213377"));
    }
    object
}

fn spec(number: usize, source: Source, polling: bool) -> Value {
    let mut helm = Map::new();
    for (field, text) in [
        ("repo", source.repo),
        ("chart", source.chart),
        ("version", source.version),
    ] {
        if !text.is_empty() {
            helm.insert(field.to_owned(), json!(text));
        }
    }
    helm.insert("releaseName".to_owned(), json!(format!("orders-{number}")));
    helm.insert("timeoutSeconds".to_owned(), json!(300));
    helm.insert("values".to_owned(), values(number));
    let mut spec = json!({
        "helm": helm,
        "helmSecretName": "charts-login",
        "defaultNamespace": "orders",
        "correctDrift": { "enabled": true },
        "labels": { "team": "commerce", "tier": "backend" },
        "targetCustomizationMode": "FirstMatch",
        "targets": [
            {
                "name": "canary",
                "clusterSelector": { "matchLabels": { "env": "production", "wave": "canary" } },
                "helm": { "values": { "replicas": 1, "featureFlags": { "newCheckout": true } } },
            },
            {
                "name": "others",
                "clusterSelector": {
                    "matchExpressions": [{ "key": "env", "operator": "In", "values": ["production", "staging"] }],
                },
            },
        ],
    });
    if let Some(spec) = spec.as_object_mut().filter(|_| polling) {
        spec.insert("pollingInterval".to_owned(), json!("30m0s"));
    }
    spec
}

/// Realistic values of a service behind an ingress, with a database and a queue.
fn values(number: usize) -> Value {
    json!({
        "replicas": 2 + number % 5,
        "image": {
            "repository": "registry.example.com/commerce/orders",
            "tag": format!("2.11.{}", number % 40),
            "pullPolicy": "IfNotPresent",
        },
        "resources": {
            "requests": { "cpu": "200m", "memory": "256Mi" },
            "limits": { "memory": "512Mi" },
        },
        "ingress": {
            "enabled": true,
            "className": "nginx",
            "annotations": {
                "cert-manager.io/cluster-issuer": "internal",
                "nginx.ingress.kubernetes.io/proxy-read-timeout": "30",
            },
            "hosts": [{ "host": "orders.example.com", "paths": [{ "path": "/", "pathType": "Prefix" }] }],
            "tls": [{ "hosts": ["orders.example.com"], "secretName": "orders-tls" }],
        },
        "database": {
            "host": "orders-rw.databases.svc",
            "passwordSecret": { "name": "orders-db", "key": "password" },
            "port": 5432,
        },
        "queue": { "brokers": ["kafka-0.kafka:9092", "kafka-1.kafka:9092", "kafka-2.kafka:9092"], "topic": "orders" },
        "env": [
            { "name": "LOG_LEVEL", "value": "info" },
            { "name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.observability:4317" },
        ],
        "tolerations": [{ "effect": "NoSchedule", "key": "dedicated", "operator": "Equal", "value": "commerce" }],
    })
}

fn managed_fields(spec: &Value) -> Value {
    json!({
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "time": "2026-03-02T08:41:17Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:annotations": { ".": {}, "f:example.com/change": {} },
                "f:labels": { ".": {}, "f:app.kubernetes.io/managed-by": {}, "f:team": {} },
            },
            "f:spec": owned_fields(spec),
        },
    })
}

/// All fields in the format of `managedFields`. Lists are owned as a whole.
fn owned_fields(value: &Value) -> Value {
    let mut fields = Map::new();
    if let Value::Object(children) = value {
        fields.insert(".".to_owned(), json!({}));
        fields.extend(
            children
                .iter()
                .map(|(name, value)| (format!("f:{name}"), owned_fields(value))),
        );
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_list_all_fields() {
        let spec =
            json!({ "helm": { "chart": "web", "values": { "a": [1] } }, "targets": [{ "name": "x" }] });
        let expected = json!({
            ".": {},
            "f:helm": { ".": {}, "f:chart": {}, "f:values": { ".": {}, "f:a": {} } },
            "f:targets": {},
        });
        assert_eq!(owned_fields(&spec), expected);
    }

    #[test]
    fn only_an_existing_object_has_the_fields_set_by_the_api_server() {
        for update in [false, true] {
            let change = Change {
                number: 3,
                source: source(REPO, "orders", ""),
                polling: true,
                update,
            };
            let object = submitted(&change);
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                assert_eq!(object["metadata"].get(field).is_some(), update, "{field}");
            }
        }
    }
}
