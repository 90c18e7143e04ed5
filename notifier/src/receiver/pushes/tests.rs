//! Pushes to HelmOps whose change the API server rejects.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_kube::key;
use helmops_notify::{
    alert::Observed,
    push::{Followed, SECRET},
};
use helmops_runtime::reconciler;
use http::StatusCode;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    receiver::Receivers,
    testing::{FakeApi, Parts, named, object, parts},
    watch::objects::WatchedHelmOp,
};

const REPO: &str = "oci://r.example/charts/web";

struct Rig {
    api: FakeApi,
    parts: Parts,
}

impl Rig {
    /// With a Receiver, and HelmOps of the pushed chart.
    fn start(helmops: &[String]) -> Self {
        let api = FakeApi::default();
        let parts = parts(&api, CancellationToken::new());
        let rig = Self { api, parts };
        rig.token("0123456789abcdef");
        let spec = json!({ "type": "generic", "secretRef": { "name": "token" } });
        rig.api.apply("receivers", "web", &spec);
        for name in helmops {
            rig.api.helmop(name);
            let helmop: HelmOp =
                object(&json!({ "metadata": { "name": name, "namespace": "a" }, "spec": {} }));
            let watched = WatchedHelmOp {
                observed: Arc::new(Observed::of_helmop(&helmop)),
                followed: [Followed::of(REPO, "").unwrap()].into(),
            };
            let objects = &rig.parts.context.stores.objects;
            objects.helmops.wrote(named(name), watched);
        }
        rig
    }

    fn token(&self, token: &str) {
        let data = json!({ "token": STANDARD.encode(token) });
        self.api.secret("a", "token", &data);
        // As the watch of Secrets does.
        self.parts.context.published.forget(&named("web"));
    }

    /// A push that was recorded at this time.
    fn push(&self, number: i64, time: Timestamp) {
        self.push_to(number, "r.example/charts/web", time);
    }

    /// A push to a repository, or to all, beside those that wait.
    fn push_to(&self, number: i64, repository: &str, time: Timestamp) {
        let mut status = self.api.status("receivers", "web");
        let waiting = status["pushes"].as_array().cloned().unwrap_or_default();
        let push = json!({ "number": number, "repository": repository, "time": timestamp(time) });
        let others = waiting
            .into_iter()
            .filter(|push| push["repository"] != repository);
        status["pushes"] = others.chain([push]).collect();
        self.api.set_status("receivers", "web", &status);
    }

    /// Reconciles the Receiver, and returns its status.
    async fn reconcile(&self) -> Value {
        let context = &*self.parts.context;
        let permit = context.workers.acquire("a".into()).await.unwrap();
        reconciler::reconcile(&Receivers { context }, &key("a", "web"), permit).await;
        self.api.status("receivers", "web")
    }

    fn polled(&self, names: &[String]) -> usize {
        let is_polled = |name: &&String| self.api.poll_requested(name).starts_with("push-");
        names.iter().filter(is_polled).count()
    }

    /// The paths that are served, as the exposed process knows them.
    fn published(&self) -> Vec<String> {
        let secret = self.api.read_secret("system", SECRET);
        let data = secret["data"].as_object();
        data.map(|data| data.keys().cloned().collect())
            .unwrap_or_default()
    }
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|one| format!("web-{one:02}")).collect()
}

fn polled_condition(status: &Value) -> Option<&Value> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Polled")
}

#[tokio::test]
async fn a_helmop_that_always_rejects_its_poll_starves_no_other_and_no_token() {
    // More than are patched at the same time.
    let names = names(3 * CONCURRENT);
    let rig = Rig::start(&names);
    rig.reconcile().await;
    let before = rig.published();
    for name in &names[..5] {
        rig.api
            .refuse_helmop(name, Some(StatusCode::UNPROCESSABLE_ENTITY));
    }
    rig.token("another token of 16");
    rig.push(1, Timestamp::now());
    let status = rig.reconcile().await;
    assert_eq!(rig.polled(&names), names.len() - 5);
    assert_eq!(
        (&status["pushes"], &status["handledPush"]),
        (&Value::Null, &json!(1))
    );
    assert_eq!(status["polled"], names.len() - 5);
    let after = rig.published();
    assert!(
        after.len() == 1 && after != before,
        "the old token is not valid any more"
    );
    let polled = polled_condition(&status).unwrap();
    let message = polled["message"].as_str().unwrap();
    assert_eq!(
        (&polled["status"], &polled["reason"]),
        (&json!("False"), &json!("PollNotRequested"))
    );
    assert!(
        message.contains(
            "a/web-00, a/web-01, a/web-02 and 2 more: could not request a poll of HelmOp a/web-00: "
        ),
        "{message}"
    );
    // The next push polls all of them, and nothing is reported any more.
    for name in &names {
        rig.api.refuse_helmop(name, None);
    }
    rig.push(2, Timestamp::now());
    let status = rig.reconcile().await;
    assert_eq!(
        (rig.polled(&names), polled_condition(&status)),
        (names.len(), None)
    );
}

#[tokio::test]
async fn a_push_waits_for_an_api_server_that_works_again_but_not_forever() {
    let names = names(2);
    let rig = Rig::start(&names);
    rig.api
        .refuse_helmop(&names[0], Some(StatusCode::INTERNAL_SERVER_ERROR));
    rig.push(1, Timestamp::now());
    let status = rig.reconcile().await;
    assert_eq!(status["pushes"].as_array().unwrap().len(), 1, "it is repeated");
    assert_eq!(
        (rig.polled(&names), rig.published().len()),
        (1, 1),
        "the others are polled, and the path is published"
    );
    let path = status["webhookPath"].as_str().unwrap();
    assert!(path.starts_with("/hook/"), "{path}");
    rig.push(1, Timestamp::now() - KEPT - SignedDuration::from_secs(1));
    let status = rig.reconcile().await;
    assert_eq!(status["pushes"], Value::Null);
    let message = &polled_condition(&status).unwrap()["message"];
    assert!(
        message.as_str().unwrap().contains("did not poll a/web-00: "),
        "{message}"
    );
}

/// A flood of pushes to many repositories becomes pushes to all of them, up to one in a second, and each polls every HelmOp.
#[tokio::test]
async fn pushes_to_all_repositories_are_polled_once_in_a_while_and_delay_no_other() {
    let names = names(3);
    let rig = Rig::start(&names);
    let other = Followed::of("oci://r.example/charts/other", "").unwrap();
    let watched = WatchedHelmOp {
        observed: Arc::new(Observed::of_helmop(&object(
            &json!({ "metadata": { "name": "other", "namespace": "a" }, "spec": {} }),
        ))),
        followed: [other].into(),
    };
    rig.api.helmop("other");
    rig.parts
        .context
        .stores
        .objects
        .helmops
        .wrote(named("other"), watched);
    rig.push_to(1, "", Timestamp::now());
    let status = rig.reconcile().await;
    assert_eq!(
        (&status["handledPush"], &status["polled"]),
        (&json!(1), &json!(4))
    );
    let first = rig.api.poll_requested("other");
    assert!(first.starts_with("push-"), "{first}");
    // The second one waits, and a push to a repository polls its HelmOps only.
    rig.push_to(2, "", Timestamp::now());
    rig.push(3, Timestamp::now());
    let status = rig.reconcile().await;
    assert_eq!(
        (&status["handledPush"], &status["polled"]),
        (&json!(3), &json!(3))
    );
    let waiting = status["pushes"].as_array().unwrap();
    assert!(
        waiting.len() == 1 && waiting[0]["number"] == 4 && waiting[0]["repository"].is_null(),
        "{waiting:?}"
    );
    assert_eq!(rig.api.poll_requested("other"), first);
    assert_eq!(rig.reconcile().await["pushes"], json!(waiting), "it still waits");
    let receiver = key("a", "web");
    let wait = wait_of_all(&rig.parts.context, &receiver);
    assert!(
        wait > BETWEEN_PUSHES_TO_ALL / 2 && wait <= BETWEEN_PUSHES_TO_ALL,
        "{wait:?}"
    );
    // After the time.
    let last = Instant::now().checked_sub(BETWEEN_PUSHES_TO_ALL).unwrap();
    lock(&rig.parts.context.polled_all).insert(receiver, last);
    let status = rig.reconcile().await;
    assert_eq!(
        (&status["handledPush"], &status["polled"], &status["pushes"]),
        (&json!(4), &json!(4), &Value::Null)
    );
    assert_ne!(rig.api.poll_requested("other"), first);
}

#[tokio::test]
async fn a_push_reads_no_token_and_what_changes_it_does() {
    let rig = Rig::start(&names(1));
    let reads = || {
        (
            rig.api.count("GET", "secrets/token"),
            rig.api.count("GET", SECRET) + rig.api.count("PUT", SECRET),
        )
    };
    rig.reconcile().await;
    assert_eq!(reads(), (1, 2), "it is published");
    for number in 1..=5 {
        rig.push(number, Timestamp::now());
        let status = rig.reconcile().await;
        assert_eq!(status["handledPush"], number);
        assert!(status["webhookPath"].as_str().unwrap().starts_with("/hook/"));
    }
    assert_eq!(reads(), (1, 2), "pushes cost nothing");
    let before = rig.published();
    rig.token("another token of 16");
    rig.reconcile().await;
    assert_eq!(reads(), (2, 3), "the Secret has changed");
    assert_ne!(rig.published(), before);
    let spec = json!({ "type": "generic", "secretRef": { "name": "token" }, "suspend": true });
    rig.api.apply("receivers", "web", &spec);
    rig.reconcile().await;
    assert_eq!(reads(), (3, 4), "the spec has changed");
}
