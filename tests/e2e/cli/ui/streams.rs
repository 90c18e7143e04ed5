//! What the server sends, without a browser.

use anyhow::{Context, Result, bail, ensure};
use helmops_bed::command;
use helmops_bed::service_account::service_account_kubeconfig;
use helmops_bed::test_bed::binary;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use super::command::Ui;
use super::scene::{Doing, NAMESPACE, Scene, condition};
use crate::harness::SOON;

/// A page, without a browser.
struct Page {
    client: Client,
    ui: Ui,
    cookie: String,
    key: String,
}

impl Page {
    async fn open(ui: Ui) -> Self {
        let client = Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(format!("{}/session", ui.origin))
            .header("origin", &ui.origin)
            .body(ui.key.clone());
        let response = request.send().await.unwrap().error_for_status().unwrap();
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        Self {
            client,
            key: body["pageKey"].as_str().unwrap().to_owned(),
            cookie,
            ui,
        }
    }

    async fn stream(&self, topic: &str) -> Events {
        let url = format!("{}/stream/{topic}", self.ui.origin);
        let request = self.client.get(url).header("cookie", &self.cookie);
        let response = request
            .header("x-helmop-page-key", &self.key)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events {
            response,
            buffer: String::new(),
        }
    }
}

struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    /// Waits for an event of this name that satisfies the condition.
    async fn until(&mut self, name: &str, condition: impl Fn(&Value) -> Result<()>) -> Value {
        let mut last = None;
        let found = timeout(SOON, async {
            loop {
                let (event, data) = self.next().await.unwrap();
                if event != name {
                    continue;
                }
                match condition(&data) {
                    Ok(()) => return data,
                    Err(reason) => last = Some(format!("{reason}: {data}")),
                }
            }
        });
        match found.await {
            Ok(data) => data,
            Err(_) => unreachable!("{last:?}"),
        }
    }

    async fn next(&mut self) -> Result<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (event, data) = block.split_once("\ndata: ").context("no data")?;
                let event = event.strip_prefix("event: ").context("no event")?.to_owned();
                let data = serde_json::from_str(data)?;
                let rest = rest.to_owned();
                self.buffer = rest;
                return Ok((event, data));
            }
            let Some(chunk) = self.response.chunk().await? else {
                bail!("the stream ended")
            };
            self.buffer += std::str::from_utf8(&chunk)?;
        }
    }
}

#[tokio::test]
async fn views_follow_the_cluster_and_an_interrupt_ends_the_command() {
    let scene = Scene::start().await;
    scene.healthy("calm", 4).await;
    scene.clusters(4).await;
    scene
        .rollout(
            "web",
            &[Doing::Ready, Doing::NotReady, Doing::Failed, Doing::Held],
        )
        .await;
    let ui = Ui::start(&scene.bed, &scene.bed.kubeconfig, &[]).await;
    let mut page = Page::open(ui).await;

    let mut helmops = page.stream("helmops").await;
    let view = helmops
        .until("view", |view| {
            ensure!(view["helmops"].as_array().is_some_and(|all| all.len() == 2));
            Ok(())
        })
        .await;
    assert_eq!(view["helmops"][0]["tone"], "good");
    assert_eq!(view["helmops"][1]["state"], "ErrApplied");

    let mut web = page.stream("helmops/shop/web").await;
    let view = web
        .until("view", |view| {
            ensure!(
                view["helmop"]["clusters"]
                    .as_array()
                    .is_some_and(|all| all.len() == 4)
            );
            Ok(())
        })
        .await;
    let helmop = &view["helmop"];
    let states: Vec<_> = helmop["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| cluster["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["Ready", "NotReady", "ErrApplied", "OutOfSync"]);
    assert_eq!(helmop["rollout"]["partitions"][1]["waitsFor"], "canary");
    assert_eq!(helmop["dependsOn"][0]["name"], "calm");
    assert_eq!(helmop["attempts"][0]["outcome"], "deployed");

    let mut clusters = page.stream("clusters").await;
    clusters
        .until("view", |view| {
            ensure!(view["clusters"].as_array().is_some_and(|all| all.len() == 4));
            Ok(())
        })
        .await;
    let server = clusters
        .until("server", |server| {
            ensure!(server["version"] != "");
            Ok(())
        })
        .await;
    assert_eq!(server["error"], "");

    // A change arrives without a request.
    scene
        .status(
            "calm",
            json!({ "conditions": [condition("Ready", "False", "NotReady", "late")] }),
        )
        .await;
    helmops
        .until("view", |view| {
            ensure!(view["helmops"][0]["message"] == "late");
            Ok(())
        })
        .await;

    page.ui.process.signal(rustix::process::Signal::INT).unwrap();
    let ended = page.ui.process.exited(SOON).await.unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn without_permission_for_all_namespaces_that_of_the_context_is_shown() {
    let scene = Scene::start().await;
    scene.healthy("calm", 1).await;
    let kubectl = scene.bed.kubectl().in_namespace(NAMESPACE);
    for arguments in [
        &["create", "serviceaccount", "reader"][..],
        &[
            "create",
            "role",
            "reader",
            "--verb=list,watch,get",
            "--resource=helmops.fleet.cattle.io",
        ],
        &[
            "create",
            "rolebinding",
            "reader",
            "--role=reader",
            "--serviceaccount=shop:reader",
        ],
    ] {
        kubectl.run(arguments).await.unwrap().ok().unwrap();
    }
    let kubeconfig = service_account_kubeconfig(&scene.bed, NAMESPACE, "reader")
        .await
        .unwrap();
    let ui = Ui::start(&scene.bed, &kubeconfig, &["--namespace", NAMESPACE]).await;
    let page = Page::open(ui).await;
    let mut helmops = page.stream("helmops").await;
    let view = helmops
        .until("view", |view| {
            ensure!(view["helmops"][0]["name"] == "calm");
            Ok(())
        })
        .await;
    let note = view["notes"][0].as_str().unwrap();
    assert!(
        note.contains("reader") && note.ends_with("Only namespace \"shop\" is shown."),
        "{note}"
    );
    let mut clusters = page.stream("clusters").await;
    let view = clusters
        .until("view", |view| {
            ensure!(view["isKnown"] == true);
            Ok(())
        })
        .await;
    assert!(
        view["notes"][0]
            .as_str()
            .unwrap()
            .contains("clusters.fleet.cattle.io"),
        "{view}"
    );
    let mut web = page.stream("helmops/shop/calm").await;
    let view = web
        .until("view", |view| {
            ensure!(view["helmop"]["report"]["name"] == "calm" && view["isKnown"] == true);
            Ok(())
        })
        .await;
    assert!(
        view["notes"]
            .to_string()
            .contains("bundledeployments.fleet.cattle.io"),
        "{view}"
    );
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // No request is sent before the port is bound.
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": {} }]
    });
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = Command::new(binary("kubectl-helmop").unwrap());
    command
        .args(["ui", "--open=false", "--port", &port])
        .env("KUBECONFIG", &kubeconfig);
    let output = command::run(command, "", SOON).await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let expected = format!("cannot listen on 127.0.0.1:{port}");
    assert!(
        output.stderr.contains(&expected) && output.stderr.contains("--port 0"),
        "{output:?}"
    );
}
