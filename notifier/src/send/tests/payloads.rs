//! What services receive, over HTTP.

use helmops_fetch::PostRequest;

use super::*;

/// Every payload that the formats are compared with, over HTTP: what a service reads is what was formatted.
#[tokio::test]
async fn every_payload_arrives_as_it_is() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/notify/testdata/payloads");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 30, "{}", files.len());
    let mut sent = Vec::new();
    for file in &files {
        let body = std::fs::read(file).unwrap();
        let request = PostRequest {
            url: server.url().parse().unwrap(),
            headers: http::HeaderMap::new(),
            body: body.clone(),
            tls: Arc::default(),
            proxy: None,
            timeout: Duration::from_secs(5),
        };
        rig.context.poster.post(request).await.unwrap();
        sent.push(String::from_utf8(body).unwrap());
    }
    assert_eq!(server.received(), sent);
}

/// All types of AlertProviders to a server, with a message that has a credential by mistake. Each body has the fields of its payload in
/// `testdata`, and no credential.
#[tokio::test]
async fn every_format_arrives_without_credentials() {
    let rig = Rig::start();
    rig.api.secret("a", "key", &json!({ "token": "Z2VoZWlt" }));
    let message = "cannot fetch https://user:geheim@h.example/index.yaml?token=geheim: no";
    rig.observe_as(
        "web",
        &json!({ "version": "1.0.0", "conditions": [
        { "type": "Accepted", "status": "False", "reason": "ChartNotFound", "message": message },
    ] }),
    );
    for r#type in [
        "generic",
        "generic-hmac",
        "slack",
        "discord",
        "msteams",
        "alertmanager",
        "cdevents",
    ] {
        let server = Endpoint::start(Reply::status(200)).await;
        let address = server.url() + "/x?token=geheim";
        let mut spec = json!({ "type": r#type, "address": address, "timeout": "5s" });
        if r#type == "generic-hmac" {
            spec["secretRef"] = json!({ "name": "key" });
        }
        rig.api.apply("alertproviders", r#type, &spec);
        let spec = json!({
            "providerRef": { "name": r#type }, "eventSources": [{ "kind": "HelmOp", "name": "*" }], "grouping": { "wait": "0s" },
            "summary": "see the runbook",
            "eventMetadata": { "cluster": "production", "region/zone": "eu", "alertname": "mine", "summary": "overridden" },
        });
        rig.api.apply("alerts", r#type, &spec);
        rig.change(Work::Alert(key("a", r#type))).await;
        let received = until(&format!("a {type} message"), || {
            server.received().into_iter().next()
        })
        .await;
        assert!(!received.contains("geheim"), "{type}: {received}");
        assert!(
            received.contains("cannot fetch https://h.example/index.yaml"),
            "{type}: {received}"
        );
        let file = format!("{}-failure.json", r#type.trim_end_matches("-hmac"));
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/notify/testdata/payloads");
        let golden = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let fields = |text: &str| fields_of("", &serde_json::from_str(text).unwrap());
        let without = |fields: BTreeSet<String>| -> BTreeSet<String> {
            let of_channel = |field: &String| !field.ends_with("/channel");
            fields.into_iter().filter(of_channel).collect()
        };
        assert_eq!(without(fields(&received)), without(fields(&golden)), "{type}");
    }
}

/// The paths of all fields of a value.
fn fields_of(path: &str, value: &Value) -> BTreeSet<String> {
    let inner: Vec<_> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.as_str(), value)).collect(),
        Value::Array(values) => values.iter().map(|value| ("", value)).collect(),
        _ => Vec::new(),
    };
    let below = inner
        .into_iter()
        .flat_map(|(key, value)| fields_of(&format!("{path}/{key}"), value));
    below.chain([path.to_owned()]).collect()
}
