//! A control plane, and what tests do with its objects.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::control_plane::Options;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::api_requests;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::service_account::service_account_kubeconfig;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

async fn bed() -> Result<InUse<TestBed>> {
    static BED: Shared<TestBed> = Shared::new();
    let widgets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bed/widget.yaml");
    let options = Options {
        audit_log: true,
        manifests: vec![widgets],
        ..Options::default()
    };
    BED.get(async || TestBed::start(&options).await).await
}

#[tokio::test]
async fn objects_are_applied_and_read_back() {
    let namespace = TestNamespace::create(&bed().await.unwrap(), "objects")
        .await
        .unwrap();
    let kubectl = namespace.kubectl();
    assert_eq!(kubectl.get("configmap/one").await.unwrap(), None);

    let one = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    kubectl.apply(&one.to_string()).await.unwrap().ok().unwrap();
    let found = kubectl.get("configmap/one").await.unwrap().unwrap();
    assert_eq!(found["metadata"]["namespace"], namespace.name());
    assert_eq!(
        found["metadata"].get("managedFields"),
        None,
        "as kubectl prints it"
    );
    let error = kubectl.get("helmop/one").await.unwrap_err();
    assert!(
        error.to_string().contains("404"),
        "the kind does not exist: {error:#}"
    );

    let bad = one.to_string().replace("one", "ONE");
    let refused = kubectl.apply(&bad).await.unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.stderr.contains("metadata.name: Invalid value"),
        "{refused:?}"
    );
}

/// What is applied without the program becomes the same object, down to the fields that its manager owns.
#[tokio::test]
async fn apply_writes_what_the_program_writes() {
    let namespace = TestNamespace::create(&bed().await.unwrap(), "apply")
        .await
        .unwrap();
    let kubectl = namespace.kubectl();
    let object = |name: &str, labels: Value, data: Value| {
        let metadata = json!({ "name": name, "labels": labels });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }).to_string()
    };
    for (labels, data) in [
        (json!({ "app": "web" }), json!({ "a": "1", "b": "2" })),
        (json!({ "app": "web" }), json!({ "a": "1", "b": "2" })),
        (json!({ "tier": "x" }), json!({ "a": "3", "c": "4" })),
    ] {
        let applied = kubectl
            .apply(&object("direct", labels.clone(), data.clone()))
            .await;
        applied.unwrap().ok().unwrap();
        let program = ["apply", "--filename=-"];
        let applied = kubectl
            .run_with_input(&program, &object("program", labels, data))
            .await;
        applied.unwrap().ok().unwrap();
        assert_eq!(
            written(kubectl, "direct").await.unwrap(),
            written(kubectl, "program").await.unwrap()
        );
    }
}

/// Everything of a ConfigMap that does not differ between two of the same content.
async fn written(kubectl: &Kubectl, name: &str) -> Result<Value> {
    let show = ["get", "configmap", name, "--show-managed-fields", "--output=json"];
    let text = kubectl.run(&show).await?.ok()?;
    let mut object: Value = serde_json::from_str(&text.replace(name, "NAME"))?;
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.context("no metadata")?;
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field).context(field)?;
    }
    let managed = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in managed.context("no managedFields")? {
        entry.as_object_mut().context("no entry")?.remove("time");
    }
    Ok(object)
}

#[tokio::test]
async fn the_namespace_is_deleted_when_the_test_ends() {
    let bed = bed().await.unwrap();
    let namespace = TestNamespace::create(&bed, "brief").await.unwrap();
    let object = format!("namespace/{}", namespace.name());
    assert!(bed.kubectl().get(&object).await.unwrap().is_some());
    drop(namespace);
    eventually("the end of the namespace", Duration::from_secs(30), async || {
        ensure!(
            bed.kubectl().get(&object).await?.is_none(),
            "{object} still exists"
        );
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_service_account_has_only_the_permissions_of_its_role() {
    let bed = bed().await.unwrap();
    let namespace = TestNamespace::create(&bed, "permissions").await.unwrap();
    let subject = format!("--serviceaccount={}:reader", namespace.name());
    for arguments in [
        ["create", "serviceaccount", "reader"].as_slice(),
        &["create", "role", "reader", "--verb=list", "--resource=configmaps"],
        &["create", "rolebinding", "reader", "--role=reader", &subject],
    ] {
        namespace.kubectl().run(arguments).await.unwrap().ok().unwrap();
    }
    let kubeconfig = service_account_kubeconfig(&bed, namespace.name(), "reader")
        .await
        .unwrap();
    let reader = namespace.kubectl().with_kubeconfig(&kubeconfig);

    reader.run(&["get", "configmaps"]).await.unwrap().ok().unwrap();
    for forbidden in [
        ["get", "secrets"],
        ["delete", "configmap/x"],
        ["get", "namespaces"],
    ] {
        let output = reader.run(&forbidden).await.unwrap();
        assert!(output.stderr.contains("(Forbidden)"), "{output:?}");
    }
}

#[tokio::test]
async fn dependents_are_garbage_collected_with_their_owner() {
    let namespace = TestNamespace::create(&bed().await.unwrap(), "owners")
        .await
        .unwrap();
    let kubectl = namespace.kubectl();
    for (version, kind) in [("v1", "ConfigMap"), ("test.helmops.dev/v1", "Widget")] {
        let object = |name, owners: Value| {
            let metadata = json!({"name": name, "ownerReferences": owners});
            json!({"apiVersion": version, "kind": kind, "metadata": metadata}).to_string()
        };
        kubectl
            .apply(&object("owner", json!([])))
            .await
            .unwrap()
            .ok()
            .unwrap();
        let owner = kubectl.get(&format!("{kind}/owner")).await.unwrap().unwrap();
        let uid = &owner["metadata"]["uid"];
        let reference = json!([{"apiVersion": version, "kind": kind, "name": "owner", "uid": uid}]);
        kubectl
            .apply(&object("owned", reference))
            .await
            .unwrap()
            .ok()
            .unwrap();
        kubectl
            .apply(&object("free", json!([])))
            .await
            .unwrap()
            .ok()
            .unwrap();

        kubectl
            .run(&["delete", kind, "owner"])
            .await
            .unwrap()
            .ok()
            .unwrap();
        // A kind that did not exist when the garbage collector started would take up to 30 seconds longer.
        eventually("garbage collection", Duration::from_secs(10), async || {
            let dependent = kubectl.get(&format!("{kind}/owned")).await?;
            ensure!(dependent.is_none(), "the owned {kind} still exists");
            Ok(())
        })
        .await
        .unwrap();
        assert!(kubectl.get(&format!("{kind}/free")).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn requests_to_the_api_server_are_counted_and_audited() {
    let bed = bed().await.unwrap();
    let before = api_requests(&bed, "ingressclasses", "GET").await.unwrap();
    bed.kubectl().get("ingressclass/none").await.unwrap();
    // The server counts a request shortly after its response.
    eventually("the count", Duration::from_secs(5), async || {
        let after = api_requests(&bed, "ingressclasses", "GET").await?;
        ensure!(after == before + 1, "{before} before, {after} after");
        Ok(())
    })
    .await
    .unwrap();

    let audit = std::fs::read_to_string(bed.audit_log()).unwrap();
    let mut events = audit.lines().filter(|line| line.contains("/ingressclasses/none"));
    let event: Value = serde_json::from_str(events.next().context("there is no event").unwrap()).unwrap();
    assert_eq!(
        (&event["verb"], &event["user"]["username"]),
        (&json!("get"), &json!("admin"))
    );
}

#[tokio::test]
async fn a_control_plane_beside_another_one_is_another_cluster() {
    let bed = bed().await.unwrap();
    let beside = bed.start_beside(&Options::default()).await.unwrap();
    let system = async |bed: &TestBed| {
        let found = bed.kubectl().get("namespace/kube-system").await.unwrap().unwrap();
        found["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    assert_ne!(system(&bed).await, system(&beside).await);
}
