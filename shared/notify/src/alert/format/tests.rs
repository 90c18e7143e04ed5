use std::{fs, path::Path};

use helmops_api::HelmOp;
use serde_json::{Value, json};

use super::*;
use crate::{
    alert::{After, Event, Observed, State},
    source::ObjectId,
};

fn subject(id: &str, version: &str, text: &str) -> Subject {
    Subject {
        id: ObjectId::parse(id).unwrap(),
        uid: "6f1a".into(),
        resource_version: "42".into(),
        version: version.to_owned(),
        text: text.to_owned(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        ended: Vec::new(),
        is_upgrade: true,
        after: After::Unchanged,
    }
}

fn message(event: Event, reason: &str, subjects: Vec<Subject>) -> Message {
    Message {
        event,
        reason: reason.to_owned(),
        subjects,
    }
}

/// The messages whose payloads are compared, by name.
fn messages() -> Vec<(&'static str, Message)> {
    let failing = subject(
        "HelmOp/shop/podinfo",
        "6.5.1+b",
        "3 of 200 clusters fail: ErrApplied: fleet/c-1: <timeout> & \"more\"\nsecond line",
    );
    let ready = subject("HelmOp/shop/podinfo", "6.5.1+b", "ready again in version 6.5.1+b");
    let resolved = Subject {
        ended: vec!["ErrApplied".to_owned(), "NotReady".to_owned()],
        ..ready.clone()
    };
    let many = (0..30).map(|number| subject(&format!("HelmOp/shop/web-{number:02}"), "1.0.0", "fails"));
    vec![
        ("failure", message(Event::Failure, "ErrApplied", vec![failing])),
        ("resolution", message(Event::Resolution, "Ready", vec![resolved])),
        ("ready", message(Event::Ready, "Ready", vec![ready])),
        (
            "cluster",
            message(
                Event::Ready,
                "Ready",
                vec![subject("Cluster/fleet/c-1", "", "ready")],
            ),
        ),
        (
            "group",
            message(Event::Failure, "ConnectionFailed", many.collect()),
        ),
    ]
}

fn payload(format: Format, address: &str, message: &Message) -> String {
    let metadata = [
        ("cluster", "production"),
        ("region/zone", "eu"),
        ("summary", "overridden"),
        ("alertname", "mine"),
    ];
    payload_with(format, address, message, &metadata)
}

fn payload_with(format: Format, address: &str, message: &Message, metadata: &[(&str, &str)]) -> String {
    let metadata: BTreeMap<_, _> = metadata
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let alert = NamespacedName::new("helmops-system", "all");
    let envelope = Envelope {
        alert: &alert,
        alert_uid: "a1e7",
        metadata: &metadata,
        summary: "see the runbook",
        channel: "#ops",
        username: "",
        instance: "helmops-notifier-0",
        now: "2026-01-01T00:10:00Z".parse().unwrap(),
    };
    let address = Url::parse(address).unwrap();
    let payload = format.payload(&address, message, &envelope).unwrap();
    String::from_utf8(payload.body).unwrap()
}

/// The formats, the names of their payloads, and an address of each.
const ADDRESSES: [(Format, &str, &str); 7] = [
    (Format::Generic, "generic", "https://a.example"),
    (Format::Slack, "slack", "https://hooks.slack.com/services/x"),
    (Format::Discord, "discord", "https://discord.com/api/webhooks/x"),
    (
        Format::MsTeams,
        "msteams",
        "https://a.logic.azure.com/workflows/x",
    ),
    (
        Format::MsTeams,
        "msteams-connector",
        "https://a.webhook.office.com/x",
    ),
    (
        Format::Alertmanager,
        "alertmanager",
        "http://alertmanager:9093/api/v2/alerts",
    ),
    (Format::CdEvents, "cdevents", "https://a.example"),
];

/// The payloads are those in `testdata/payloads`. With `HELMOPS_WRITE_GOLDEN`, they are written.
#[test]
fn payloads_are_golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/payloads");
    for (format, name, address) in ADDRESSES {
        for (what, message) in messages() {
            let is_grouped = message.subjects.len() > 1;
            if format == Format::CdEvents && is_grouped
                || format == Format::Alertmanager && message.event == Event::Ready
            {
                continue;
            }
            let body = payload(format, address, &message);
            let value: Box<RawValue> = serde_json::from_str(&body).unwrap();
            assert_eq!(value.get(), body, "{name} {what}: it is JSON");
            let file = folder.join(format!("{name}-{what}.json"));
            let text = format!("{body}\n");
            if std::env::var_os("HELMOPS_WRITE_GOLDEN").is_some() {
                fs::write(&file, &text).unwrap();
            }
            let golden = fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(text, golden, "{}", file.display());
        }
    }
}

/// Neither the credentials of the address nor those that a condition shows by mistake are in a body.
#[test]
fn no_payload_has_credentials() {
    const TEXT: &str = "cannot fetch https://user:geheim@charts.example/index.yaml?token=geheim: \"oci://geheim@r.example/web\" is denied";
    let status = |conditions: Value, summary: Value| -> HelmOp {
        let status = json!({ "version": "1.0.0", "conditions": conditions, "summary": summary });
        serde_json::from_value(
            json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": {}, "status": status }),
        )
        .unwrap()
    };
    let of = |r#type: &str, status: &str| json!({ "type": r#type, "status": status, "reason": "ConnectionFailed", "message": TEXT });
    let not_ready = json!([{ "type": "Ready", "status": "False", "reason": "NotReady", "message": "" }]);
    let failed = json!({
        "desiredReady": 2, "errApplied": 2,
        "nonReadyResources": [{ "name": "fleet/c-1", "bundleState": "ErrApplied", "message": TEXT }],
    });
    let helmops = [
        status(json!([of("Accepted", "False")]), Value::Null),
        status(json!([of("Ready", "False")]), Value::Null),
        status(
            json!([{ "type": "Ready", "status": "True" }, of("Polled", "False")]),
            Value::Null,
        ),
        status(not_ready, failed),
    ];
    let mut texts = Vec::new();
    for helmop in &helmops {
        let State::Failing(failing) = Observed::of_helmop(helmop).state else {
            panic!("{helmop:?} does not fail");
        };
        assert!(
            failing.message.contains("https://charts.example/index.yaml"),
            "{failing:?}"
        );
        texts.push(failing.message);
    }
    let subjects = |text: &str| vec![subject("HelmOp/shop/web", "1.0.0", text); 2];
    for (format, name, address) in ADDRESSES {
        let mut address = Url::parse(address).unwrap();
        address.set_username("user").unwrap();
        address.set_password(Some("geheim")).unwrap();
        address.set_query(Some("token=geheim"));
        for text in &texts {
            for subjects in [subjects(text), subjects(text).split_off(1)] {
                let body = payload(
                    format,
                    address.as_str(),
                    &message(Event::Failure, "ConnectionFailed", subjects),
                );
                assert!(!body.contains("geheim"), "{name}: {body}");
                assert!(!body.contains("user:"), "{name}: {body}");
            }
        }
    }
}

#[test]
fn a_resolved_alert_has_the_labels_of_the_one_that_fired() {
    let labels = |event: Event, reason: &str, version: &str, ended: &[&str]| {
        let subject = Subject {
            ended: ended.iter().map(|reason| (*reason).to_owned()).collect(),
            ..subject("HelmOp/shop/podinfo", version, "any text")
        };
        let body = payload(
            Format::Alertmanager,
            "http://a",
            &message(event, reason, vec![subject]),
        );
        let alerts: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(alerts.as_array().unwrap().len(), 1);
        (
            alerts[0]["labels"].clone(),
            alerts[0]["endsAt"].clone(),
            alerts[0]["startsAt"].clone(),
        )
    };
    let (fired, until, since) = labels(Event::Failure, "ErrApplied", "1", &[]);
    let (resolved, end, since_when_resolved) = labels(Event::Resolution, "Ready", "2", &["ErrApplied"]);
    assert_eq!((&fired, &since), (&resolved, &since_when_resolved));
    assert_eq!(
        (until, end),
        ("2026-01-01T02:10:00Z".into(), "2026-01-01T00:10:00Z".into())
    );
    assert_eq!(
        fired["alertname"], "HelmOpsHelmOpErrApplied",
        "metadata does not override it"
    );
    assert_eq!(fired["region_zone"], "eu");
}

#[test]
fn a_repeated_event_has_the_same_identity() {
    let body = |event: Event, since: &str| {
        let subject = Subject {
            since: since.to_owned(),
            ..subject("HelmOp/shop/podinfo", "1", "text")
        };
        let body = payload(Format::CdEvents, "http://a", &message(event, "A", vec![subject]));
        let event: Value = serde_json::from_str(&body).unwrap();
        event["id"].clone()
    };
    let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    assert_eq!(body(Event::Failure, one), body(Event::Failure, one));
    assert_ne!(
        body(Event::Failure, one),
        body(Event::Failure, two),
        "another failure"
    );
    assert_eq!(
        body(Event::Ready, one),
        body(Event::Ready, two),
        "the same version"
    );
}

#[test]
fn signatures_are_those_of_the_key() {
    // As `openssl dgst -sha256 -hmac key` prints them.
    let body = b"The quick brown fox jumps over the lazy dog";
    let expected = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    assert_eq!(sign(b"key", body), expected);
    assert_eq!(sign_with_time(b"key", "1", b"x"), sign(b"key", b"1.x"));
    assert_ne!(
        sign_with_time(b"key", "1", b"x"),
        sign_with_time(b"key", "2", b"x")
    );
}

#[test]
fn discord_accepts_the_format_of_slack_below_a_path() {
    let address = |text: &str| Format::Discord.address(Url::parse(text).unwrap()).to_string();
    assert_eq!(
        address("https://discord.com/api/webhooks/1/x"),
        "https://discord.com/api/webhooks/1/x/slack"
    );
    assert_eq!(
        address("https://discord.com/api/webhooks/1/x/slack/"),
        "https://discord.com/api/webhooks/1/x/slack/"
    );
    assert_eq!(address("https://d/x?wait=true"), "https://d/x/slack?wait=true");
}

#[test]
fn slack_reports_errors_with_status_200() {
    let api = Url::parse("https://slack.com/api/chat.postMessage").unwrap();
    let hook = Url::parse("https://hooks.slack.com/services/x").unwrap();
    let check = |address: &Url, body: &str| Format::Slack.check_response(address, body.as_bytes());
    assert_eq!(check(&api, r#"{"ok":true,"ts":"1"}"#), Ok(()));
    let error = check(&api, r#"{"ok":false,"error":"channel_not_found"}"#).unwrap_err();
    assert!(
        error.to_string().ends_with("not accepted: channel_not_found"),
        "{error}"
    );
    assert!(check(&api, "<html>").is_err());
    assert_eq!(check(&hook, "ok"), Ok(()));
    // The response of another server is not shown.
    for (address, is_slack) in [
        ("https://team.slack.com/api/chat.postMessage", true),
        ("https://slack-gov.com/api/chat.postMessage", true),
        ("https://notslack.com/api/chat.postMessage", false),
        ("https://slack.com.example/api/chat.postMessage", false),
        ("https://internal.example/api/chat.postMessage", false),
        ("http://slack.com/api/chat.postMessage", false),
    ] {
        let checked = check(&Url::parse(address).unwrap(), r#"{"ok":false,"error":"secret"}"#);
        assert_eq!(checked.is_err(), is_slack, "{address}");
    }
}

#[test]
fn no_part_of_an_escape_is_left_where_a_text_is_cut() {
    for (text, longest, expected) in [
        (r"\*\*\*", 6, r"\*\*\*"),
        (r"\*\*\*", 5, r"\*…"),
        (r"\*\*\*ab", 7, r"\*\*…"),
        (r"\*\*\*ab", 6, r"\*…"),
        (r"\\\\\*ab", 7, r"\\\\…"),
        ("a&amp;bcd", 8, "a…"),
        ("a&amp;bcde", 9, "a&amp;…"),
        ("R&D is done", 8, "R&D i…"),
        ("ééé", 5, "é…"),
    ] {
        assert_eq!(
            cut_escaped(text.to_owned(), longest),
            expected,
            "{text} {longest}"
        );
    }
}

/// Discord rejects a message with a longer one, and no user learns of the failure.
#[test]
fn escapes_make_no_text_too_long_for_discord() {
    let (text, value) = ("*".repeat(3_000), "*".repeat(1_024));
    let message = message(
        Event::Failure,
        "ErrApplied",
        vec![subject("HelmOp/shop/a", "1", &text)],
    );
    let keys: Vec<_> = (0..20).map(|number| format!("key{number}")).collect();
    let metadata: Vec<_> = keys.iter().map(|key| (&**key, &*value)).collect();
    let body = payload_with(
        Format::Discord,
        "https://discord.com/api/webhooks/x",
        &message,
        &metadata,
    );
    let body: Value = serde_json::from_str(&body).unwrap();
    let attachment = &body["attachments"][0];
    let length = |value: &Value| value.as_str().unwrap().chars().count();
    let fields = attachment["fields"].as_array().unwrap();
    assert!(fields.len() > 1 && fields.iter().all(|field| length(&field["value"]) <= 1_024));
    assert!(length(&attachment["text"]) <= 4_096);
    let of_fields = fields
        .iter()
        .map(|field| length(&field["title"]) + length(&field["value"]));
    let all = of_fields.sum::<usize>() + length(&attachment["text"]) + length(&attachment["author_name"]);
    assert!(all <= 6_000, "{all}");
}

/// Of a chart, a registry or a cluster.
#[test]
fn hostile_texts_have_no_effect_in_the_services_for_people() {
    const HOSTILE: &str = "[log in](https://evil) <https://evil|log in> <a href=\"https://evil\">log in</a> @everyone <@1> **x** `x`\n# x";
    for (format, name, address) in ADDRESSES {
        if !matches!(format, Format::Slack | Format::Discord | Format::MsTeams) {
            continue;
        }
        let subject = Subject {
            version: HOSTILE.to_owned(),
            ..subject("HelmOp/shop/podinfo", "", HOSTILE)
        };
        let body = payload(
            format,
            address,
            &message(Event::Failure, "ErrApplied", vec![subject]),
        );
        let effects: &[&str] = match format {
            Format::Slack => &["<"],
            Format::Discord => &[
                "](",
                " <https",
                " <a",
                "@everyone",
                " <@1",
                " **x",
                " `x`",
                "\\n# x",
            ],
            _ => &["](", " <https", " <a", " **x", " `x`", "\\n# x"],
        };
        let body: Value = serde_json::from_str(&body).unwrap();
        let text = body.to_string();
        for effect in effects {
            assert!(!text.contains(effect), "{name} has {effect:?}: {text}");
        }
        if name == "msteams-connector" {
            assert!(!text.contains('<'), "HTML: {text}");
        }
    }
}
