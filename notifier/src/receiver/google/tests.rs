//! The keys of Google from servers that misbehave, and what Receivers report then.

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_kube::key;
use helmops_notify::push::{GOOGLE_KEYS, SECRET};
use helmops_runtime::reconciler;
use serde_json::{Value, json};

use super::*;
use crate::{
    receiver::Receivers,
    testing::{Endpoint, FakeApi, Parts, Reply, parts, sum_of},
};

const KEYS: &str = include_str!("../../../../shared/notify/src/push/testdata/google-keys.json");

struct Rig {
    api: FakeApi,
    parts: Parts,
}

impl Rig {
    /// With a Receiver of type `gcr`.
    fn start() -> Self {
        let api = FakeApi::default();
        let parts = parts(&api, CancellationToken::new());
        let text = |text: &str| STANDARD.encode(text);
        let data =
            json!({ "token": text("0123456789abcdef"), "email": text("a@b"), "audience": text("https://h") });
        api.secret("a", "gcr", &data);
        api.apply(
            "receivers",
            "gcr",
            &json!({ "type": "gcr", "secretRef": { "name": "gcr" } }),
        );
        Self { api, parts }
    }

    async fn publish(&self, server: &Endpoint) -> Result<(), String> {
        let url = server.url().parse().unwrap();
        let published = publish(&self.parts.context, &url).await;
        published.map_err(|error| error.to_string())
    }

    /// The keys in the Secret for the exposed process.
    fn published(&self) -> Option<String> {
        let secret = self.api.read_secret("system", SECRET);
        let keys = secret["data"][GOOGLE_KEYS].as_str()?;
        Some(String::from_utf8(STANDARD.decode(keys).unwrap()).unwrap())
    }

    /// Reconciles the Receiver. Returns its condition, and when it is reconciled again.
    async fn reconcile(&self) -> (Value, Option<Duration>) {
        let context = &*self.parts.context;
        let permit = context.workers.acquire("a".into()).await.unwrap();
        let again = reconciler::reconcile(&Receivers { context }, &key("a", "gcr"), permit).await;
        (self.api.ready("receivers", "gcr"), again)
    }

    fn fetches(&self, result: &str) -> f64 {
        let start = format!("helmops_notifier_google_key_fetches_total{{result=\"{result}\"}}");
        sum_of(&self.parts.registry, &start)
    }
}

#[tokio::test]
async fn without_keys_a_receiver_says_that_it_refuses_everything_and_why() {
    let rig = Rig::start();
    let (ready, again) = rig.reconcile().await;
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("GoogleKeysNotFetched"))
    );
    assert_eq!(again, Some(CHECK), "as soon as there can be keys");
    let server = Endpoint::start(Reply::status(500)).await;
    assert!(rig.publish(&server).await.is_err());
    let (ready, _) = rig.reconcile().await;
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.contains("the server responds with status 500") && message.contains("--google-keys-url"),
        "{message}"
    );
    assert_eq!(rig.published(), None);
    server.behave(Reply::with(200, KEYS));
    rig.publish(&server).await.unwrap();
    let (ready, again) = rig.reconcile().await;
    assert_eq!(
        (&ready["status"], &ready["message"]),
        (&json!("True"), &Value::Null)
    );
    assert_eq!(again, Some(Duration::from_mins(1)));
    assert_eq!((rig.fetches("error"), rig.fetches("success")), (1.0, 1.0));
}

#[tokio::test]
async fn keys_rotate_and_nothing_else_replaces_them() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::with(200, KEYS)).await;
    rig.publish(&server).await.unwrap();
    let rotated = KEYS.replace("\"first\"", "\"second\"");
    server.behave(Reply::with(200, &rotated));
    rig.publish(&server).await.unwrap();
    assert_eq!(rig.published().as_deref(), Some(&*rotated));
    let half = &KEYS[..KEYS.len() / 2];
    let cut_off = format!("HTTP/1.1 200 \r\nContent-Length: {}\r\n\r\n{half}", KEYS.len());
    let large = format!("{KEYS}{}", " ".repeat(64 << 10));
    for (case, reply, expected) in [
        ("an error", Reply::with(500, KEYS), "status 500"),
        ("a redirect", Reply::header(302, "Location: /keys"), "status 302"),
        ("too large", Reply::with(200, &large), "more than 64 KiB"),
        (
            "endless",
            Reply::Endless("HTTP/1.1 200 \r\n\r\n".to_owned()),
            "more than 64 KiB",
        ),
        ("cut off", Reply::Bytes(cut_off), "connection"),
        (
            "not JSON",
            Reply::with(200, "<html>"),
            "not a set of JSON Web Keys",
        ),
        (
            "no key",
            Reply::with(200, r#"{"keys":[]}"#),
            "no RSA key for RS256",
        ),
        (
            "another algorithm",
            Reply::with(200, &KEYS.replace("RS256", "RS512")),
            "no RSA key for RS256",
        ),
        (
            "no ID",
            Reply::with(200, &KEYS.replace("\"kid\"", "\"id\"")),
            "no RSA key for RS256",
        ),
        (
            "no HTTP",
            Reply::Bytes("nothing\r\n\r\n".to_owned()),
            "connection",
        ),
    ] {
        server.behave(reply);
        let error = rig.publish(&server).await.unwrap_err();
        assert!(error.contains(expected), "{case}: {error}");
        assert_eq!(rig.published().as_deref(), Some(&*rotated), "{case}");
        let (ready, _) = rig.reconcile().await;
        let message = ready["message"].as_str().unwrap();
        assert_eq!(ready["status"], "True", "{case}: the last keys stay");
        assert!(
            message.contains(expected) && message.contains("newer than the last fetch"),
            "{case}: {message}"
        );
    }
    assert_eq!(
        server.received().len(),
        12,
        "no redirect is followed, and nothing is repeated"
    );
    server.behave(Reply::with(200, KEYS));
    rig.publish(&server).await.unwrap();
    assert_eq!(rig.reconcile().await.0["message"], Value::Null);
}

#[tokio::test]
async fn keys_are_fetched_only_for_a_receiver_that_needs_them() {
    let rig = Rig::start();
    assert!(is_needed(&rig.parts.context));
    rig.api.apply(
        "receivers",
        "gcr",
        &json!({ "type": "generic", "secretRef": { "name": "gcr" } }),
    );
    assert!(!is_needed(&rig.parts.context));
    assert_eq!(rig.reconcile().await.0["status"], "True");
}
