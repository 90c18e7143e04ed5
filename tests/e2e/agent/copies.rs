//! Copies of downstream resources that other clients change too, and what becomes of them in the end.

use anyhow::ensure;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::safety::user_helm;
use crate::harness::SOON;
use crate::harness::agent::{Agent, Fixture, POD, bed};
use crate::harness::denial::{Denial, Rule};
use crate::harness::{condition, run, until};

const COPY: &str = "secret/login";

/// The source of [`COPY`], with a type.
async fn write_source(fixture: &Fixture, r#type: &str, password: &str) {
    let source = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login", "annotations": { "of-source": "1" } },
        "type": r#type, "stringData": { "username": "a", "password": password },
    });
    let applied = fixture.upstream.kubectl().apply(&source.to_string()).await;
    applied.unwrap().ok().unwrap();
}

/// An agent that has deployed `web` with the first copy.
async fn deployed(prefix: &str) -> (Fixture, Agent) {
    let fixture = Fixture::new(prefix).await;
    let agent = fixture.start().await;
    write_source(&fixture, "Opaque", "one").await;
    fixture.deploy("web", "1.0.0", &copied(1, &json!({}))).await;
    fixture.until_ready("web").await;
    (fixture, agent)
}

/// A deployment with the copy.
fn copied(generation: u32, over: &Value) -> Value {
    let mut spec = json!({
        "options": { "downstreamResources": [{ "kind": "Secret", "name": "login" }] },
        "downstreamResourcesGeneration": generation, "deploymentID": ":same", "stagedDeploymentID": ":same",
    });
    json_patch::merge(&mut spec, over);
    spec
}

async fn until_password(fixture: &Fixture, password: &str) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let expected = json!(STANDARD.encode(password));
    until(&fixture.apps, COPY, |copy| {
        ensure!(copy["data"]["password"] == expected, "it is {copy}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn what_others_add_to_a_copy_stays_and_deploys_nothing() {
    let (fixture, _agent) = deployed("copies-others").await;
    let others = json!({ "metadata": { "annotations": { "tool": "x" }, "labels": { "tool": "x" }, "finalizers": ["tool.test/x"] } });
    let patch = ["patch", COPY, "--type=merge", "-p", &others.to_string()];
    fixture.kubectl(&patch).await;
    let before = fixture.object(COPY).await;
    // A reconciliation that compares the copies.
    fixture
        .deploy(
            "web",
            "1.0.0",
            &copied(1, &json!({ "correctDrift": { "enabled": true } })),
        )
        .await;
    fixture.barrier().await;
    assert_eq!(fixture.object(COPY).await, before);
    let release = fixture.name("web");
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);

    // A new content keeps them too.
    write_source(&fixture, "Opaque", "two").await;
    fixture.deploy("web", "1.0.0", &copied(2, &json!({}))).await;
    fixture.until_revision("web", 2).await;
    until_password(&fixture, "two").await;
    let after = fixture.object(COPY).await.unwrap();
    let metadata = &after["metadata"];
    assert_eq!(metadata["finalizers"], json!(["tool.test/x"]));
    assert_eq!(metadata["annotations"]["tool"], "x");
    assert_eq!(metadata["annotations"]["of-source"], "1");

    // The type of a Secret cannot be changed.
    let no_finalizer = [
        "patch",
        COPY,
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    fixture.kubectl(&no_finalizer).await;
    run(&fixture.upstream, &["delete", COPY]).await;
    write_source(&fixture, "kubernetes.io/basic-auth", "three").await;
    fixture.deploy("web", "1.0.0", &copied(3, &json!({}))).await;
    fixture.until_revision("web", 3).await;
    until_password(&fixture, "three").await;
    assert_eq!(
        fixture.object(COPY).await.unwrap()["type"],
        "kubernetes.io/basic-auth"
    );
}

/// The controller writes the sources first. A reconciliation in between copies the new content.
#[tokio::test]
async fn copies_that_change_before_their_generation_are_deployed_once() {
    let (fixture, _agent) = deployed("copies-early").await;
    write_source(&fixture, "Opaque", "two").await;
    let reconciled = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("web", "1.0.0", &copied(1, &reconciled)).await;
    until_password(&fixture, "two").await;
    fixture.barrier().await;
    let release = fixture.name("web");
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
    fixture.deploy("web", "1.0.0", &copied(2, &reconciled)).await;
    fixture.until_revision("web", 2).await;
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade"]);
}

/// The copy shows its new content, and no record shows that nothing was deployed with it.
#[tokio::test]
async fn a_changed_copy_is_deployed_although_the_first_attempt_does_not_begin() {
    let (fixture, _agent) = deployed("copies-later").await;
    fixture.until_revision("web", 1).await;
    write_source(&fixture, "Opaque", "two").await;
    let depends = json!({ "dependsOn": [{ "name": "missing" }] });
    fixture.deploy("web", "1.0.0", &copied(2, &depends)).await;
    until_password(&fixture, "two").await;
    fixture.until_error("web", "Deployed", &["missing"]).await;
    fixture.deploy("web", "1.0.0", &copied(2, &json!({}))).await;
    fixture.until_revision("web", 2).await;
    let ready = fixture.until_ready("web").await;
    assert_eq!(ready["status"]["downstreamResourcesGeneration"], 2);
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&fixture.name("web")), ["install", "upgrade"]);
}

/// The status has the generation of the last completed deployment until then.
#[tokio::test]
async fn a_release_with_changed_copies_that_becomes_ready_late_is_upgraded_once() {
    let fixture = Fixture::new("copies-late").await;
    fixture.charts.late(POD).await;
    let _agent = fixture.start().await;
    write_source(&fixture, "Opaque", "one").await;
    let awaited = |id: &str| json!({ "deploymentID": id, "stagedDeploymentID": id, "lifecycle": { "upgrade": {}, "wait": { "timeout": "5m" } } });
    fixture.deploy("web", "1.0.0", &copied(1, &awaited(":one"))).await;
    fixture.until_ready("web").await;
    write_source(&fixture, "Opaque", "two").await;
    fixture.deploy("web", "2.0.0", &copied(2, &awaited(":two"))).await;
    fixture
        .until("web", |found| {
            let released = condition(found, "Released");
            ensure!(
                released.is_some_and(|released| released["status"] == "Unknown"),
                "it is {released:?}"
            );
            Ok(())
        })
        .await;
    // What changes a record, or a copy, leads to a reconciliation.
    fixture.kubectl(&["annotate", COPY, "tool=x"]).await;
    fixture.barrier().await;
    let release = fixture.name("web");
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade"]);

    let ready =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let patch = [
        "patch",
        "pod/late",
        "--subresource=status",
        "--type=merge",
        "-p",
        &ready.to_string(),
    ];
    fixture.kubectl(&patch).await;
    let ready = fixture.until_ready("web").await;
    assert_eq!(ready["status"]["downstreamResourcesGeneration"], 2);
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade"]);
}

/// An immutable copy has to be replaced. Pods use the old one meanwhile.
#[tokio::test]
async fn a_copy_whose_replacement_is_denied_stays() {
    let (fixture, _agent) = deployed("copies-denied").await;
    let immutable = ["patch", COPY, "--type=merge", "-p", r#"{"immutable":true}"#];
    fixture.kubectl(&immutable).await;
    let before = fixture.object(COPY).await.unwrap();
    let rule = Rule {
        group: "",
        resource: "secrets",
        operation: "CREATE",
        allowed: "!object.metadata.name.startsWith('login')",
        message: "no logins here",
    };
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login-probe" } });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let cluster = bed().await.kubectl();
    let denial = Denial::start(&cluster, fixture.apps.name(), &rule, (&create, &secret)).await;
    write_source(&fixture, "Opaque", "two").await;
    fixture.deploy("web", "1.0.0", &copied(2, &json!({}))).await;
    fixture.until_error("web", "Deployed", &["no logins here"]).await;
    let after = fixture.object(COPY).await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    denial.end().await;
    until_password(&fixture, "two").await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn copies_are_deleted_although_there_was_never_a_release() {
    let fixture = Fixture::new("copies-alone").await;
    let _agent = fixture.start().await;
    // Something has a release here, or the agent would not know the namespace of the cluster.
    fixture.deploy("other", "1.0.0", &json!({})).await;
    fixture.until_ready("other").await;
    write_source(&fixture, "Opaque", "one").await;
    fixture.deploy("web", "9.9.9", &copied(1, &json!({}))).await;
    until(&fixture.apps, COPY, |_| Ok(())).await;
    fixture.until_error("web", "Deployed", &["9.9.9"]).await;
    fixture.delete("web").await;
    fixture.until_none(COPY).await;
}

/// Its objects may use them.
#[tokio::test]
async fn copies_of_a_release_whose_objects_are_kept_stay() {
    let fixture = Fixture::new("copies-kept").await;
    let agent = fixture.start().await;
    write_source(&fixture, "Opaque", "one").await;
    let kept = json!({ "options": { "keepResources": true } });
    fixture.deploy("web", "1.0.0", &copied(1, &kept)).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "1.0.0", &copied(1, &json!({ "deploymentID": ":two", "stagedDeploymentID": ":two", "options": { "keepResources": true } }))).await;
    fixture.until_revision("web", 2).await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    eventually("no records", SOON, async || {
        let records = fixture.records().await;
        ensure!(records.is_empty(), "{records:?}");
        Ok(())
    })
    .await
    .unwrap();
    let release = fixture.name("web");
    // Until the last one is deleted, the newest record decides.
    let writes = fixture.downstream_writes();
    let of_record = |revision: u64| {
        let name = helmops_release::record::secret_name(&release, revision);
        writes.iter().rposition(|write| write.name == name).unwrap()
    };
    assert!(of_record(1) < of_record(2));
    drop(agent);
    let _agent = fixture.start().await;
    fixture.barrier().await;
    assert!(fixture.object(COPY).await.is_some());
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));

    // The next deployment has it again.
    let over = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("web", "1.0.0", &copied(1, &over)).await;
    fixture.until_ready("web").await;
    let copy = fixture.object(COPY).await.unwrap();
    assert_eq!(
        copy["metadata"]["annotations"]["helm.sh/resource-policy"],
        json!(null)
    );
    fixture.delete("web").await;
    fixture.until_none(COPY).await;
}

/// It belongs to the user now, and so do the copies that it uses.
#[tokio::test]
async fn copies_of_a_release_that_a_user_has_taken_over_stay() {
    let fixture = Fixture::new("copies-user").await;
    let _agent = fixture.start().await;
    write_source(&fixture, "Opaque", "one").await;
    fixture.deploy("web", "1.0.0", &copied(1, &json!({}))).await;
    fixture.until_ready("web").await;
    let (release, url) = (fixture.name("web"), fixture.charts.url());
    let upgrade = [
        "upgrade",
        &release,
        "web",
        "--repo",
        &url,
        "--version=1.0.0",
        "--force-conflicts",
    ];
    user_helm(&fixture, &upgrade).await.unwrap();
    fixture
        .until_error("web", "Deployed", &["was not made by this agent"])
        .await;
    fixture.delete("web").await;
    let known = "configmap/helmops-agent-releases";
    until(&fixture.system, known, |known| {
        ensure!(known["data"].get(&release).is_none(), "it is {known}");
        Ok(())
    })
    .await;
    assert!(fixture.object(COPY).await.is_some());
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
}

/// The record stays until all is deleted, so an agent that cannot delete something tries again, also after a restart.
#[tokio::test]
async fn a_namespace_that_cannot_be_deleted_is_deleted_later() {
    use crate::harness::agent::Permissions;
    let fixture = Fixture::with_permissions("copies-namespace", Permissions::Namespaced).await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    let spec = json!({ "options": { "deleteNamespace": true, "helm": { "values": { "msg": "a" } } } });
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_ready("web").await;
    // All but the namespace itself, which belongs to the resources in it.
    let account = format!("--serviceaccount={}:helmops-agent", fixture.system.name());
    let most = "--resource=secrets,configmaps,events.events.k8s.io";
    fixture
        .kubectl(&["create", "role", "most", "--verb=*", most])
        .await;
    fixture
        .kubectl(&["create", "rolebinding", "most", "--role=most", &account])
        .await;
    fixture
        .kubectl(&["delete", "rolebinding", "helmops-agent-namespace"])
        .await;
    fixture.delete("web").await;
    fixture.until_status(&release, 1, "uninstalled").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    eventually("the error", SOON, async || {
        ensure!(
            agent.process.log().contains("could not delete Namespace"),
            "{}",
            agent.process.tail()
        );
        Ok(())
    })
    .await
    .unwrap();
    drop(agent);
    let name = fixture.apps.name();
    let kubectl = fixture.bed.kubectl();
    let role = format!("delete-{name}");
    let of_namespace = format!("--resource-name={name}");
    run(
        &kubectl,
        &[
            "create",
            "clusterrole",
            &role,
            "--verb=delete",
            "--resource=namespaces",
            &of_namespace,
        ],
    )
    .await;
    let bind = [
        "create",
        "clusterrolebinding",
        &role,
        &format!("--clusterrole={role}"),
        &account,
    ];
    run(&kubectl, &bind).await;
    let _agent = fixture.start().await;
    crate::harness::until_none(&kubectl, &format!("namespace/{name}")).await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "uninstall"]);
    for kind in ["clusterrole", "clusterrolebinding"] {
        run(&kubectl, &["delete", kind, &role]).await;
    }
}
