//! The manifests create the Secrets that the processes fill. Applying them again changes no data.

use helmops_bed::{
    helmops::{NAMESPACE, manifests},
    kubectl::Kubectl,
    test_bed::TestBed,
};
use serde_json::{Value, json};

use super::{empty, manifests::apply, readme::shell};
use crate::harness::run;

const SECRETS: [&str; 2] = ["secret/helmops-webhook-tls", "secret/helmops-receivers"];

const UPGRADE: &str = "helm upgrade helmops manifests --namespace helmops-system --set notifier.enabled=true,receiver.enabled=true";

/// Fills the Secrets as the processes do: with an update of the whole object.
async fn fill(kubectl: &Kubectl) -> [Value; 2] {
    for secret in SECRETS {
        let mut object = kubectl.get(secret).await.unwrap().unwrap();
        assert_eq!(object["data"], Value::Null, "{secret} has no data");
        object["data"] = json!({ "key": "dmFsdWU=" });
        let replace = ["replace", "--field-manager=helmops", "--filename=-"];
        let replaced = kubectl
            .run_with_input(&replace, &object.to_string())
            .await
            .unwrap();
        replaced.ok().unwrap();
    }
    content(kubectl).await
}

/// Type and data of the Secrets.
async fn content(kubectl: &Kubectl) -> [Value; 2] {
    let content = async |secret| {
        let object = kubectl.get(secret).await.unwrap().unwrap();
        json!([object["type"], object["data"]])
    };
    [content(SECRETS[0]).await, content(SECRETS[1]).await]
}

async fn with_namespace() -> (TestBed, Kubectl) {
    let bed = empty().await;
    run(&bed.kubectl(), &["create", "namespace", NAMESPACE]).await;
    let kubectl = bed.kubectl().in_namespace(NAMESPACE);
    (bed, kubectl)
}

/// The Secrets as the processes of earlier versions have created them.
async fn create_as_before(kubectl: &Kubectl) {
    for (secret, r#type) in SECRETS.into_iter().zip(["kubernetes.io/tls", "Opaque"]) {
        let (_, name) = secret.split_once('/').unwrap();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": r#type,
            "metadata": { "name": name, "labels": { "app.kubernetes.io/part-of": "helmops" } },
            "data": { "tls.crt": "dmFsdWU=", "tls.key": "dmFsdWU=" },
        });
        let create = ["create", "--field-manager=helmops", "--filename=-"];
        let created = kubectl
            .run_with_input(&create, &object.to_string())
            .await
            .unwrap();
        created.ok().unwrap();
    }
}

#[tokio::test]
async fn kubectl_apply_keeps_the_data_of_secrets() {
    let bed = empty().await;
    let kubectl = bed.kubectl().in_namespace(NAMESPACE);
    let apply_all = async || {
        apply(&kubectl, ".", &[]).await;
        apply(&kubectl, "notifications", &[]).await;
    };
    apply_all().await;
    let filled = fill(&kubectl).await;
    apply_all().await;
    assert_eq!(content(&kubectl).await, filled);
    // Without --server-side, kubectl computes the change itself. It warns that it has not created these objects.
    for _ in 0..2 {
        let folder = manifests().join("notifications");
        run(&kubectl, &["apply", "-k", folder.to_str().unwrap()]).await;
        assert_eq!(content(&kubectl).await, filled);
    }
}

#[tokio::test]
async fn kubectl_apply_takes_over_secrets_that_processes_have_created() {
    let (_bed, kubectl) = with_namespace().await;
    create_as_before(&kubectl).await;
    let before = content(&kubectl).await;
    for folder in [".", "notifications"] {
        let folder = manifests().join(folder);
        // The API server warns that the certificate is none.
        run(
            &kubectl,
            &["apply", "--server-side", "-k", folder.to_str().unwrap()],
        )
        .await;
    }
    assert_eq!(content(&kubectl).await, before);
}

#[tokio::test]
async fn helm_upgrade_keeps_the_data_of_secrets() {
    let bed = empty().await;
    let kubectl = bed.kubectl().in_namespace(NAMESPACE);
    let install = UPGRADE.replace("upgrade", "install") + " --create-namespace";
    shell(&bed, &install).await;
    let filled = fill(&kubectl).await;
    for change in ["", " --set webhook.replicas=3"] {
        shell(&bed, &format!("{UPGRADE}{change}")).await;
        assert_eq!(content(&kubectl).await, filled, "{change}");
    }
}

/// Helm would refuse to take over objects that it has not created.
#[tokio::test]
async fn helm_upgrade_leaves_secrets_alone_that_processes_have_created() {
    let (bed, kubectl) = with_namespace().await;
    create_as_before(&kubectl).await;
    let before = content(&kubectl).await;
    shell(&bed, &UPGRADE.replace("upgrade", "install")).await;
    shell(&bed, UPGRADE).await;
    assert_eq!(content(&kubectl).await, before);
    // A Secret that is missing is created, and belongs to the release from then on.
    for secret in SECRETS {
        run(&kubectl, &["delete", secret]).await;
    }
    shell(&bed, UPGRADE).await;
    let filled = fill(&kubectl).await;
    shell(&bed, UPGRADE).await;
    assert_eq!(content(&kubectl).await, filled);
}
