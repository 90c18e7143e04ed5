use helmops_api::BundleDeploymentOptions;
use serde_json::{Value, json};

use super::*;

fn deployment() -> BundleDeployment {
    let labels = json!({ labels::BUNDLE_NAME: "web", labels::BUNDLE_NAMESPACE: "fleet", "app": "web" });
    let metadata = json!({ "name": "web", "namespace": "cluster-c1", "uid": "u-1", "labels": labels });
    serde_json::from_str(&json!({ "metadata": metadata }).to_string()).unwrap()
}

const fn to(bundle_namespace: &str) -> Destination<'_> {
    Destination {
        namespace: "cluster-c1",
        bundle_namespace,
        bundle: "web",
    }
}

fn secret() -> Secret {
    let object = json!({
        "metadata": { "name": "access", "namespace": "fleet", "resourceVersion": "7", "labels": { "mine": "" } },
        "type": "Opaque",
        "data": { "username": "dQ==", "password": "cA==" }
    });
    serde_json::from_value(object).unwrap()
}

fn json(copy: &Copy) -> Value {
    match &copy.object {
        Object::Secret(secret) => json!(secret),
        Object::ConfigMap(map) => json!(map),
    }
}

#[test]
fn values_are_in_a_secret_with_the_name_of_the_deployment() {
    let values = SecretValues {
        values: r#"{"a":1}"#.to_owned(),
        staged: "null".to_owned(),
        ids: Some([":a".to_owned(), ":b".to_owned()]),
    };
    let copy = Copy::of_values(to("fleet"), &values);
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "fleet.cattle.io/bundle-deployment/v1alpha1",
        "metadata": {
            "name": "web", "namespace": "cluster-c1",
            "annotations": {
                labels::COPIED_FROM: values_hash(b"{\"a\":1}", b"null"), labels::VALUES_FOR: ":a :b"
            },
            "labels": { labels::COPY_TYPE: "values", labels::BUNDLE_NAME: "web", labels::BUNDLE_NAMESPACE: "fleet" }
        },
        "data": { "values": "eyJhIjoxfQ==", "stagedValues": "bnVsbA==" }
    });
    assert_eq!(json(&copy), expected);
    assert_eq!(copy.object.keys(), 2);
    let Object::Secret(secret) = &copy.object else {
        panic!("{copy:?}");
    };
    assert_eq!(Copy::values_of(secret), Some(values));
}

#[test]
fn the_copy_of_an_access_secret_has_only_its_data() {
    let copy = Copy::of_access(to("fleet"), "access-1".to_owned(), &secret());
    let stored = json(&copy);
    assert_eq!(stored["type"], "fleet.cattle.io/bundle-helmops-access/v1alpha1");
    assert_eq!(stored["data"], json!({ "username": "dQ==", "password": "cA==" }));
    assert_eq!(stored["metadata"]["name"], "access-1");
    assert_eq!(stored["metadata"]["labels"][labels::INTERNAL_SECRET], "true");
    assert_eq!(stored["metadata"]["labels"].get("mine"), None);
    assert_eq!(copy.copied_from, "fleet/access@7");
}

#[test]
fn downstream_resources_keep_name_and_type() {
    let map = json!({
        "metadata": { "name": "settings", "namespace": "fleet", "resourceVersion": "8" },
        "data": { "a": "1" }, "binaryData": { "b": "Yg==" }
    });
    let map = Object::ConfigMap(serde_json::from_value(map).unwrap());
    let copy = Copy::of_downstream(to("fleet"), &map);
    assert_eq!((copy.object.keys(), &*copy.copied_from), (2, "fleet/settings@8"));
    let stored = json(&copy);
    assert_eq!(
        [&stored["kind"], &stored["metadata"]["namespace"]],
        ["ConfigMap", "cluster-c1"]
    );
    assert_eq!(
        stored["metadata"]["labels"].get(labels::BUNDLE_NAME),
        None,
        "other Bundles may share it"
    );
    let copy = Copy::of_downstream(to("fleet"), &Object::Secret(secret()));
    assert_eq!(json(&copy)["type"], "Opaque");
}

#[test]
fn credentials_for_a_cluster_are_never_copied() {
    for type_ in [
        "bootstrap.kubernetes.io/token",
        "kubernetes.io/service-account-token",
    ] {
        let credential = Secret {
            type_: Some(type_.to_owned()),
            ..secret()
        };
        let message = check_type(&Object::Secret(credential)).unwrap_err().to_string();
        assert!(
            message.contains("Secret fleet/access") && message.contains(type_),
            "{message}"
        );
    }
    assert_eq!(check_type(&Object::Secret(secret())), Ok(()));
}

/// A downstream copy of a Secret, shared by the Bundles of a namespace.
fn shared(namespace: &str) -> (Copy, BundleDeployment) {
    let mut deployment = deployment();
    let own = deployment.metadata.labels.get_or_insert_default();
    own.insert(labels::BUNDLE_NAMESPACE.to_owned(), namespace.to_owned());
    let mut source = secret();
    source.metadata.namespace = Some(namespace.to_owned());
    let copy = Copy::of_downstream(to(namespace), &Object::Secret(source));
    (copy, deployment)
}

fn found(copy: &Copy) -> ExistingObject<'_> {
    ExistingObject {
        metadata: copy.object.metadata(),
        type_: Some("Opaque"),
    }
}

/// Fleet does not label the Secret with the values of a deployment, which has the name of its Bundle.
#[test]
fn the_values_of_another_bundle_are_not_a_downstream_copy() {
    let (copy, mut other) = shared("fleet");
    other.metadata.name = copy.object.metadata().name.clone();
    let owner = owner(&other, CopyRole::Values).unwrap();
    let metadata = ObjectMeta {
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    for (type_, expected) in [("Opaque", true), (VALUES_TYPE, false), (ACCESS_TYPE, false)] {
        let found = ExistingObject {
            metadata: &metadata,
            type_: Some(type_),
        };
        assert_eq!(copy.is_same(found, &[&other]), expected, "{type_}");
    }
}

#[test]
fn a_copy_for_another_namespace_belongs_to_another_owner() {
    let ((copy, deployment), (other, _)) = (shared("fleet"), shared("other"));
    assert!(copy.is_same(found(&copy), &[&deployment]));
    assert!(!copy.is_same(found(&other), &[&deployment]));
    let mut forged = copy.clone();
    let Object::Secret(secret) = &mut forged.object else {
        panic!("{forged:?}");
    };
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::COPIED_FROM.to_owned(), "fleet/other@1".to_owned());
    assert!(
        !copy.is_same(found(&forged), &[&deployment]),
        "copied from another source"
    );
}

#[test]
fn a_copy_created_by_fleet_is_adopted() {
    let (copy, deployment) = shared("fleet");
    let metadata = |uid: &str| {
        let owner = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "name": "web", "uid": uid,
            "controller": true, "blockOwnerDeletion": true
        });
        serde_json::from_value::<ObjectMeta>(json!({ "name": "access", "ownerReferences": [owner] })).unwrap()
    };
    let is_same = |copy: &Copy, metadata: &ObjectMeta, type_: &str, of: &[&BundleDeployment]| {
        let type_ = Some(type_);
        copy.is_same(ExistingObject { metadata, type_ }, of)
    };
    assert!(is_same(&copy, &metadata("u-1"), "Opaque", &[&deployment]));
    assert!(
        !is_same(&copy, &metadata("u-2"), "Opaque", &[&deployment]),
        "no deployment with this UID"
    );
    let (_, other) = shared("other");
    assert!(
        !is_same(&copy, &metadata("u-1"), "Opaque", &[&other]),
        "of another namespace"
    );
    let bare = ObjectMeta::default();
    assert!(!is_same(&copy, &bare, VALUES_TYPE, &[&deployment]));
    let values = Copy::of_values(to("fleet"), &SecretValues::default());
    assert!(is_same(&values, &bare, VALUES_TYPE, &[&deployment]));
    assert!(is_same(&values, &metadata("u-1"), VALUES_TYPE, &[&deployment]));
    assert!(!is_same(&values, &metadata("u-2"), VALUES_TYPE, &[&deployment]));
    assert!(
        !is_same(&values, &bare, "Opaque", &[&deployment]),
        "created by another client"
    );
}

#[test]
fn kinds_are_case_insensitive() {
    let options = |kind: &str| -> BundleDeploymentOptions {
        let options = json!({ "downstreamResources": [{ "kind": kind, "name": "a" }] });
        serde_json::from_str(&options.to_string()).unwrap()
    };
    let kind = |text: &str| downstream(&options(text)).map(|sources| sources[0].kind);
    assert_eq!(kind("secret"), Ok(CopyKind::Secret));
    assert_eq!(kind("CONFIGMAP"), Ok(CopyKind::ConfigMap));
    assert_eq!(kind("Pod"), Err(UnsupportedKind("Pod".to_owned())));
}

#[test]
fn a_copy_is_owned_by_its_deployment() {
    let owner_of = |role| owner(&deployment(), role).unwrap();
    assert_eq!(
        (
            owner_of(CopyRole::Access).controller,
            &*owner_of(CopyRole::Access).uid
        ),
        (Some(true), "u-1")
    );
    assert_eq!(owner_of(CopyRole::Downstream).controller, None);
    assert_eq!(owner(&BundleDeployment::default(), CopyRole::Values), None);
    for role in CopyRole::ALL {
        assert_eq!(CopyRole::parse(role.as_str()), Some(role));
    }
}
