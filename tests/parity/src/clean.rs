//! What is not compared of an object: fields that the API server and controllers choose, and the marks of the agent.

use serde_json::{Map, Value};

/// Fields of metadata that differ between two clusters.
const METADATA: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "generation",
    "selfLink",
];
/// Fields of specs that the API server or a controller chooses.
const CHOSEN: [&str; 6] = [
    "/spec/clusterIP",
    "/spec/clusterIPs",
    "/spec/healthCheckNodePort",
    "/spec/volumeName",
    "/spec/template/metadata/labels/controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
];
/// The marks of Fleet's agent and of ours.
const MARKS: &str = "objectset.rio.cattle.io/";
/// Labels that the API server copies from the template of a Job to a Job without any; with a mark it has one.
const OF_JOBS: [&str; 4] = [
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];
/// The number of a workload's revision: attempts count.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// An object of the cluster, without what is not compared.
pub fn live(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    for path in CHOSEN {
        remove(&mut object, path);
    }
    remove(
        &mut object,
        "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    );
    if object.get("type").and_then(Value::as_str) == Some("kubernetes.io/service-account-token") {
        // The CA and the token of the cluster, and the account that has it.
        remove(&mut object, "/data");
        remove(
            &mut object,
            "/metadata/annotations/kubernetes.io~1service-account.uid",
        );
    }
    if let Some(ports) = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if let Some(owners) = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut)
    {
        for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
            owner.remove("uid");
        }
    }
    manifest(object)
}

/// An object of a manifest, without what is not compared.
pub fn manifest(mut object: Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    for field in METADATA {
        metadata.remove(field);
    }
    for field in ["labels", "annotations"] {
        let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
            // An empty field of a template, such as `annotations:`, is the same as none.
            if metadata.get(field).is_some_and(Value::is_null) {
                metadata.remove(field);
            }
            continue;
        };
        entries.retain(|key, _| !(key.starts_with(MARKS) || key == REVISION || OF_JOBS.contains(&&**key)));
        if entries.is_empty() {
            metadata.remove(field);
        }
    }
    object
}

/// Whether a cleaned object is a ClusterRole without rules, labels and selectors. Kubernetes creates it: its
/// `clusterrole-aggregation-controller` applies a ClusterRole with an `aggregationRule` again that was deleted a moment before.
/// Whether that happens depends on its queue alone.
pub fn is_empty_cluster_role(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("ClusterRole")
        && object.get("rules").is_none_or(Value::is_null)
        && object.get("aggregationRule").is_none()
        && object
            .get("metadata")
            .and_then(Value::as_object)
            .is_some_and(|metadata| metadata.keys().eq(["name"]))
}

/// Removes what is at a JSON pointer, and the mapping around it if nothing else is in it.
pub fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&key)),
        Some(Value::Array(items)) => {
            if let Some(item) = key.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                *item = Value::Object(Map::new());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_cluster_role_that_kubernetes_creates_again_is_empty() {
        let role = |fields: Value| {
            let mut role = json!({ "kind": "ClusterRole", "metadata": { "name": "a", "uid": "1", "managedFields": [] }, "rules": null });
            role.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            is_empty_cluster_role(&live(role))
        };
        assert!(role(json!({})));
        for other in [
            json!({ "kind": "Role" }),
            json!({ "rules": [{ "verbs": ["get"] }] }),
            json!({ "aggregationRule": { "clusterRoleSelectors": [] } }),
            json!({ "metadata": { "name": "a", "labels": { "app": "a" } } }),
        ] {
            assert!(!role(other.clone()), "{other}");
        }
    }

    #[test]
    fn marks_and_chosen_fields_are_removed() {
        let object = json!({
            "kind": "Service",
            "metadata": { "name": "a", "uid": "1", "labels": { "objectset.rio.cattle.io/hash": "1" }, "annotations": { "x": "y" } },
            "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 80, "nodePort": 30000 }] },
            "status": {},
        });
        let expected = json!({
            "kind": "Service",
            "metadata": { "name": "a", "annotations": { "x": "y" } },
            "spec": { "ports": [{ "port": 80 }] },
        });
        assert_eq!(live(object), expected);
    }
}
