//! Records that the agent changes, and what Helm makes of them.

use futures::{StreamExt, future::ready};
use helmops_agent::records::Records;
use helmops_api::MetadataOnly;
use helmops_bed::wait::eventually;
use helmops_helm::request::{Action, Rollback, Uninstall};
use helmops_helm::settings::ActionSettings;
use helmops_release::marks;
use helmops_release::record::{
    Acceptance, Attempt, AttemptAction, Cause, Failure, OnDelete, OnDeletePolicy, Propagation,
    SECRET_SELECTOR, Status,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::runtime::watcher;

use super::engine::{AGENT, CONFIG_MAP, Engine, install, upgrade};
use crate::harness::SOON;

/// A hook that is created again for each installation.
const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web-hook\n  annotations: {helm.sh/hook: pre-install}\n";

async fn records(engine: &Engine) -> Records {
    Records::new(engine.client().await, AGENT)
}

fn attempt(number: u32) -> Attempt {
    Attempt {
        deployment_id: ":1".to_owned(),
        action: AttemptAction::Upgrade,
        cause: Cause::Change,
        number,
    }
}

/// Revision 1 with the message `hello`, and revision 2 with `second`.
async fn upgraded(engine: &Engine) {
    let chart = engine.simple_chart().await;
    engine.installed(&chart).await;
    let mut upgrade = upgrade(&chart);
    upgrade.max_history = 5;
    upgrade.deploy.values = vec![b"msg: second".to_vec()];
    upgrade.deploy.origin.attempt = Some(attempt(1));
    upgrade.deploy.description = attempt(1).to_string();
    engine.run(Action::Upgrade(upgrade)).await.unwrap();
}

async fn message(engine: &Engine) -> String {
    let live = engine.object("configmap/web-config").await.unwrap();
    live["data"]["msg"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_revision_that_is_not_ready_is_failed_until_it_is_deployed_again() {
    let engine = Engine::start("agent-record").await;
    upgraded(&engine).await;
    let (records, release) = (records(&engine).await, engine.release());
    let cause = Failure::NotReady("Deployment web: 0 of 1 pods are ready".to_owned());
    assert!(records.fail(&release, 2, &cause).await.unwrap());
    let record = engine.record(2).await.unwrap();
    assert_eq!(record.info.status, Status::Failed);
    assert_eq!(Failure::of(&record), Some(cause.clone()));
    assert_eq!(record.attempt(), Some(attempt(1)), "the attempt is counted");
    let secret = engine.object("secret/sh.helm.release.v1.web.v2").await.unwrap();
    assert_eq!(secret["metadata"]["labels"]["status"], "failed");
    // What is failed is not marked again, nor is a revision that does not exist.
    let other = Failure::Test("other".to_owned());
    assert!(!records.fail(&release, 2, &other).await.unwrap());
    assert!(!records.fail(&release, 9, &other).await.unwrap());
    assert_eq!(Failure::of(&engine.record(2).await.unwrap()), Some(cause));

    assert!(records.set_deployed(&release, 2).await.unwrap());
    let record = engine.record(2).await.unwrap();
    assert_eq!(record.info.status, Status::Deployed);
    assert_eq!(record.info.description, attempt(1).to_string());
    assert!(!records.set_deployed(&release, 2).await.unwrap());
    assert!(
        !records.set_deployed(&release, 1).await.unwrap(),
        "it is superseded"
    );
}

#[tokio::test]
async fn a_failed_revision_is_rolled_back_or_upgraded() {
    let engine = Engine::start("agent-record-next").await;
    upgraded(&engine).await;
    let (records, release) = (records(&engine).await, engine.release());
    let cause = Failure::Test("Pod web-check".to_owned());
    records.fail(&release, 2, &cause).await.unwrap();
    let rollback = Rollback {
        revision: 1,
        settings: ActionSettings::default(),
        max_history: 5,
    };
    engine.run(Action::Rollback(rollback)).await.unwrap();
    assert_eq!(message(&engine).await, "hello");
    let record = engine.record(2).await.unwrap();
    assert_eq!(
        Failure::of(&record),
        Some(cause.clone()),
        "Helm leaves the record"
    );
    assert_eq!(engine.record(3).await.unwrap().info.status, Status::Deployed);
    // The first installation failed, and nothing is deployed.
    records.fail(&release, 3, &cause).await.unwrap();
    let mut upgrade = upgrade(&engine.simple_chart().await);
    upgrade.deploy.values = vec![b"msg: fixed".to_vec()];
    let success = engine.run(Action::Upgrade(upgrade)).await.unwrap();
    assert_eq!((success.revision, &*message(&engine).await), (Some(4), "fixed"));
}

#[tokio::test]
async fn an_uninstalled_release_with_a_history_is_installed_again() {
    let engine = Engine::start("agent-keep-history").await;
    let files = [
        ("templates/config.yaml", CONFIG_MAP),
        ("templates/hook.yaml", HOOK),
    ];
    let chart = engine.chart("1.0.0", &files).await;
    let install = |number, replaces| {
        let mut install = install(&chart);
        install.deploy.origin.attempt = Some(attempt(number));
        install.replaces = replaces;
        Action::Install(install)
    };
    engine.run(install(1, false)).await.unwrap();
    let (records, release) = (records(&engine).await, engine.release());
    let cause = Failure::NotReady("Job shop/migrate failed".to_owned());
    records.fail(&release, 1, &cause).await.unwrap();
    let uninstall = || {
        Action::Uninstall(Uninstall {
            keeps_history: true,
            runs_hooks: true,
            propagation: Propagation::default(),
            description: "uninstalled after a failure: x".to_owned(),
        })
    };
    for number in 1..=3_u32 {
        let revision = u64::from(number);
        engine.run(uninstall()).await.unwrap();
        assert!(engine.object("configmap/web-config").await.is_none());
        let record = engine.record(revision).await.unwrap();
        assert_eq!(record.info.status, Status::Uninstalled);
        assert_eq!(Failure::of(&record), Some(Failure::Uninstalled("x".to_owned())));
        assert_eq!(record.bundle_deployment(AGENT), Some("web-bundle"));
        assert_eq!(record.attempt(), Some(attempt(number)), "the count is kept");
        let hook = engine.object("configmap/web-hook").await.unwrap();
        let success = engine.run(install(number + 1, true)).await.unwrap();
        assert_eq!(success.revision, Some(revision + 1));
        assert_eq!(message(&engine).await, "hello");
        let again = engine.object("configmap/web-hook").await.unwrap();
        assert_ne!(
            again["metadata"]["uid"], hook["metadata"]["uid"],
            "the hook ran again"
        );
        // What the reconciliation does after each installation.
        let history = records.current_history(&release).await.unwrap();
        for replaced in history.unfinished_before(revision + 1) {
            records
                .delete(&release, replaced.number, replaced.status)
                .await
                .unwrap();
        }
        assert_eq!(engine.records().await.len(), 1, "replaced revisions are pruned");
    }
    engine.run(uninstall()).await.unwrap();
    let again = engine.run(uninstall()).await.unwrap_err();
    assert_eq!(again.reason.as_str(), "NoRecord", "{again}");
    assert_eq!(engine.records().await.len(), 1);
}

#[tokio::test]
async fn what_happens_on_deletion_is_passed_on_by_helm_and_shown_by_the_watch() {
    let engine = Engine::start("agent-on-delete").await;
    let chart = engine.simple_chart().await;
    let on_delete = OnDelete {
        policy: OnDeletePolicy::Keep,
        keep_history: true,
        ..OnDelete::default()
    };
    let mut install = install(&chart);
    install.deploy.on_delete = Some(on_delete);
    engine.run(Action::Install(install)).await.unwrap();
    let (records, release) = (records(&engine).await, engine.release());
    let secrets = Api::<MetadataOnly<Secret>>::namespaced(engine.client().await, &release.namespace);
    let events = helmops_kube::watch_results(secrets, watcher::Config::default().labels(SECRET_SELECTOR));
    let events = events.filter_map(|event| ready(event.ok()));
    let mut changes = std::pin::pin!(records.follow(vec![(Some(release.namespace.clone()), events)]));
    let until = async |expected: Option<OnDelete>, what: &str| {
        let found = eventually(what, SOON, async || {
            let found = records.on_delete(&release);
            anyhow::ensure!(found == expected, "it is {found:?}");
            Ok(())
        });
        found.await.unwrap();
    };
    let follow = async { while changes.next().await.is_some() {} };
    let check = async {
        until(Some(on_delete), "the label of an installation").await;
        let mut upgraded = upgrade(&chart);
        upgraded.deploy.values = vec![b"msg: second".to_vec()];
        engine.run(Action::Upgrade(upgraded)).await.unwrap();
        let label = "{.metadata.labels.helmops\\.fleet\\.cattle\\.io/on-delete}";
        let path = format!("--output=jsonpath={label}");
        for revision in ["1", "2"] {
            let secret = format!("sh.helm.release.v1.web.v{revision}");
            let found = engine.run_kubectl(&["get", "secret", &secret, &path]).await;
            assert_eq!(found, "Keep.keepHistory", "revision {revision}");
        }
        let label_set = OnDelete {
            disable_hooks: true,
            ..OnDelete::default()
        };
        records
            .set_on_delete(&release, 2, Some(&label_set))
            .await
            .unwrap();
        until(Some(label_set), "the label that was set").await;
        records.set_on_delete(&release, 2, None).await.unwrap();
        until(None, "no label on the newest record").await;
        records.set_on_delete(&release, 9, None).await.unwrap();
        records
            .set_on_delete(&release, 2, Some(&label_set))
            .await
            .unwrap();
        // A label is written without reading the record, so no label that another client writes meanwhile is lost.
        let secret = "sh.helm.release.v1.web.v1";
        let other = ["label", "secret", secret, "team=shop"];
        let (other, set, accepted) = tokio::join!(
            engine.run_kubectl(&other),
            records.set_on_delete(&release, 1, Some(&label_set)),
            records.accept(&release, 1),
        );
        assert!(other.contains("labeled"), "{other}");
        set.unwrap();
        accepted.unwrap();
        let found = engine
            .run_kubectl(&["get", "secret", secret, "--output=jsonpath={.metadata.labels}"])
            .await;
        let labels: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert_eq!(labels["team"], "shop");
        assert_eq!(labels[marks::ON_DELETE], label_set.to_string());
        assert_eq!(labels[marks::ACCEPTANCE], Acceptance::Accepted.to_string());
        // Marking a record keeps it, and so does Helm.
        let cause = Failure::Test("x".to_owned());
        records.fail(&release, 2, &cause).await.unwrap();
        let uninstall = Uninstall {
            keeps_history: true,
            runs_hooks: true,
            propagation: Propagation::default(),
            description: "uninstalled after a failure: x".to_owned(),
        };
        engine.run(Action::Uninstall(uninstall)).await.unwrap();
        engine.until_status(2, "uninstalled").await;
        until(Some(label_set), "the label after the release was uninstalled").await;
    };
    tokio::select! {
        () = check => {}
        () = follow => panic!("the watch ended"),
    }
}
