use serde_json::json;

use super::*;
use crate::history::Revision;

/// A record as Helm writes one, with fields that the agent does not use.
fn stored() -> Value {
    json!({
        "name": "web",
        "namespace": "shop",
        "version": 3,
        "info": {
            "first_deployed": "2026-03-01T10:00:00.5Z",
            "last_deployed": "2026-03-02T10:00:00Z",
            "deleted": "",
            "description": "Preparing upgrade",
            "status": "pending-upgrade",
            "notes": "Welcome",
        },
        "chart": {
            "metadata": { "name": "nginx", "version": "1.2.3", "annotations": {
                "fleet.cattle.io/bundle-id": "shop-web", "fleet.cattle.io/agent-namespace": "cattle-fleet-system",
            } },
            "templates": [{ "name": "templates/a.yaml", "data": "YTogMQ==" }],
            "schemamodtime": "1970-01-01T00:00:00Z",
        },
        "config": { "replicas": 2, "big": 9_007_199_254_740_993_i64 },
        "manifest": "---\n# Source: nginx/templates/a.yaml\nkind: ConfigMap\n",
        "hooks": [{ "name": "migrate", "kind": "Job", "events": ["pre-upgrade"], "last_run": { "phase": "Running" }, "weight": 5 }],
        "apply_method": "ssa",
        "from_a_newer_helm": { "a": 1 },
    })
}

fn data(json: &Value) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(json.to_string().as_bytes()).unwrap();
    STANDARD.encode(packed.finish().unwrap()).into_bytes()
}

#[test]
fn a_record_is_decoded_and_encoded_without_a_loss() {
    let record = Record::decode(&data(&stored())).unwrap();
    assert_eq!(
        (record.key().to_string(), record.revision),
        ("shop/web".to_owned(), 3)
    );
    assert_eq!(record.secret_name(), "sh.helm.release.v1.web.v3");
    assert_eq!(record.info.status, Status::PendingUpgrade);
    let hook = record.hooks.first().unwrap();
    assert_eq!((&*hook.events, hook.weight), (&["pre-upgrade".to_owned()][..], 5));
    assert_eq!(hook.last_run.as_ref().unwrap().phase, HookPhase::Running);
    assert_eq!(record.chart_metadata()["version"], "1.2.3");
    let unlocked = record.with_status(Status::Failed, "interrupted".to_owned());
    let again: Value =
        serde_json::from_slice(&unpack(&unlocked.encode().unwrap(), MAX_UNPACKED).unwrap()).unwrap();
    let mut expected = stored();
    expected["info"]["status"] = json!("failed");
    expected["info"]["description"] = json!("interrupted");
    assert_eq!(again, expected);
}

#[test]
fn the_start_of_a_record_shows_its_revision() {
    let shown = |json: &Value| {
        let head = RecordHead::decode(&data(json), 3).unwrap();
        Revision::of_head(&head, "cattle-fleet-system", None)
    };
    let expected =
        |json: &Value| Revision::of(&Record::decode(&data(json)).unwrap(), "cattle-fleet-system", None);
    assert_eq!(shown(&stored()), Some(expected(&stored())));
    // The manifest of an uninstalled release counts.
    let mut uninstalled = stored();
    uninstalled["info"]["status"] = json!("uninstalled");
    assert_eq!(shown(&uninstalled), None);
    // As a chart with large files, written by Helm, and by the agent.
    let mut large = stored();
    large["chart"]["files"] = json!([{ "name": "a", "data": "A".repeat(3 << 20) }]);
    let text = r#"{"name":"web","info":{"status":"failed","description":"x"},"chart":{"metadata":{"name":"a"},"files":"#;
    let by_helm = format!("{text}[{}]}}", large["chart"]["files"][0]);
    assert!(RecordHead::decode(STANDARD.encode(by_helm).as_bytes(), 1).is_ok());
    let by_agent = Record::decode(&data(&large)).unwrap().encode().unwrap();
    let head = RecordHead::decode(&by_agent, 3).unwrap();
    assert_eq!(
        Revision::of_head(&head, "cattle-fleet-system", None),
        Some(expected(&large))
    );
    // Also behind long notes.
    let late = format!(r#"{{"config":{{"a":"{}"}},{}"#, "b".repeat(2 << 20), &text[1..]);
    assert!(RecordHead::decode(STANDARD.encode(&late).as_bytes(), 1).is_ok());
    // What is behind the first 4 MiB is not looked for.
    let later = late.replace("bb", "bbbb");
    assert!(matches!(
        RecordHead::decode(STANDARD.encode(later).as_bytes(), 1),
        Err(RecordError::Json(_))
    ));
}

/// Anyone may write a record, and what it shows is kept.
#[test]
fn little_is_kept_of_a_record() {
    let mut large = stored();
    // Together they are in what is read.
    let text = "x".repeat(512 << 10);
    large["info"]["status"] = json!("failed");
    large["info"]["description"] = json!(text);
    let metadata = &mut large["chart"]["metadata"];
    (metadata["name"], metadata["version"]) = (json!(text), json!(text));
    for mark in [
        marks::FORCED_BY,
        marks::BUNDLE_ID,
        marks::ATTEMPT,
        marks::RESOLVED_VERSION,
    ] {
        metadata["annotations"][mark] = json!(text);
    }
    let head = RecordHead::decode(&data(&large), 3).unwrap();
    let revision = Revision::of_head(&head, "cattle-fleet-system", None);
    let kept = format!("{:?}", revision.unwrap());
    assert!(kept.len() < 32 << 10, "{} bytes", kept.len());
}

#[test]
fn the_manifest_of_an_uninstalled_release_of_another_owner_does_not_count() {
    let mut uninstalled = stored();
    uninstalled["info"]["status"] = json!("uninstalled");
    let head = RecordHead::decode(&data(&uninstalled), 3).unwrap();
    assert!(Revision::of_head(&head, "another-agent", None).is_some());
}

/// 40 KiB that would take 562 MiB as values.
#[test]
fn a_record_with_millions_of_values_is_not_decoded() {
    let mut bomb = stored();
    bomb["config"] = json!({ "a": vec![0; 10_000_000] });
    let data = data(&bomb);
    assert!(matches!(Record::decode(&data), Err(RecordError::TooManyValues)));
    // A history needs nothing of it, in the order in which Helm writes a record.
    let text = format!(
        r#"{{"info":{},"chart":{},"config":{}}}"#,
        bomb["info"], bomb["chart"], bomb["config"]
    );
    assert!(RecordHead::decode(STANDARD.encode(text).as_bytes(), 3).is_ok());
    bomb["config"] = json!({ "a": vec!["[{,\\\","; MAX_VALUES / 2] });
    assert!(Record::decode(&self::data(&bomb)).is_ok());
}

#[test]
fn a_record_of_helm_3_was_applied_by_the_client() {
    let mut json = stored();
    json.as_object_mut().unwrap().remove("apply_method");
    json["info"]["status"] = json!("from-the-future");
    // Without compression, as the first versions stored it.
    let record = Record::decode(STANDARD.encode(json.to_string()).as_bytes()).unwrap();
    assert_eq!(record.apply_method(), ApplyMethod::ClientSide);
    assert_eq!(record.info.status, Status::Unknown);
    assert_eq!(
        Record::decode(&data(&stored())).unwrap().apply_method(),
        ApplyMethod::ServerSide
    );
}

#[test]
fn a_damaged_record_is_an_error() {
    assert!(matches!(Record::decode(b"%"), Err(RecordError::Base64(_))));
    let mut cut = STANDARD.decode(data(&stored())).unwrap();
    cut.truncate(cut.len() / 2);
    let cut = STANDARD.encode(cut);
    assert!(matches!(
        Record::decode(cut.as_bytes()),
        Err(RecordError::Gzip(_))
    ));
    let list = STANDARD.encode("[1]");
    assert!(matches!(
        Record::decode(list.as_bytes()),
        Err(RecordError::Json(_))
    ));
}

#[test]
fn a_record_that_unpacks_to_more_than_the_limit_is_an_error() {
    let spaces = |bytes| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&vec![b' '; bytes]).unwrap();
        STANDARD.encode(packed.finish().unwrap())
    };
    let bomb = spaces(100_001);
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    assert!(matches!(
        unpack(bomb.as_bytes(), 100_000),
        Err(RecordError::TooLarge)
    ));
    assert_eq!(
        unpack(spaces(100_000).as_bytes(), 100_000).unwrap().len(),
        100_000
    );
    let text = STANDARD.encode(" ".repeat(11));
    assert!(matches!(unpack(text.as_bytes(), 10), Err(RecordError::TooLarge)));
}

#[test]
fn every_status_is_written_as_helm_does() {
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), json!(status.as_str()));
        assert_eq!(Status::parse(status.as_str()), status);
        assert_eq!(status.is_pending(), status.as_str().starts_with("pending-"));
    }
    assert_eq!(Status::parse("other"), Status::Unknown);
}

#[test]
fn labels_change_as_with_helm() {
    let record = Record::decode(&data(&stored())).unwrap();
    let record = record.with_status(Status::Failed, String::new());
    let existing = [
        ("createdAt", "1"),
        ("status", "pending-upgrade"),
        ("team", "a"),
        ("version", "3"),
    ];
    let existing = existing.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels = record.labels(&existing.into(), 1_700_000_000);
    let expected = [
        ("modifiedAt", "1700000000"),
        ("name", "web"),
        ("owner", "helm"),
        ("status", "failed"),
        ("team", "a"),
        ("version", "3"),
    ];
    let labels: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(labels, expected);
}

#[test]
fn a_release_belongs_to_the_agent_of_its_annotations() {
    let record = Record::decode(&data(&stored())).unwrap();
    assert_eq!(record.bundle_deployment("cattle-fleet-system"), Some("shop-web"));
    assert_eq!(record.bundle_deployment("other"), None);
    let mut json = stored();
    json["chart"]["metadata"]["annotations"]["fleet.cattle.io/bundle-id"] = json!("");
    let record = Record::decode(&data(&json)).unwrap();
    assert_eq!(record.bundle_deployment("cattle-fleet-system"), None);
    assert_eq!(Record::default().bundle_deployment(""), None);
}

#[test]
fn an_attempt_is_found_in_records_of_this_agent_only() {
    let attempt = Attempt {
        action: AttemptAction::Upgrade,
        deployment_id: "s-1f:4f2a".to_owned(),
        cause: Cause::Missing,
        number: 7,
    };
    let of = |description: &str, annotation: Option<&str>| {
        let mut json = stored();
        json["info"]["description"] = json!(description);
        if let Some(annotation) = annotation {
            json["chart"]["metadata"]["annotations"][marks::ATTEMPT] = json!(annotation);
        }
        Record::decode(&data(&json)).unwrap().attempt()
    };
    let text = attempt.to_string();
    assert_eq!(of(&text, None), Some(attempt.clone()));
    let failed = "Upgrade \"web\" failed: timeout";
    assert_eq!(of(failed, Some(&text)), Some(attempt.clone()));
    assert_eq!(of("Upgrade complete", None), None);
    // The chart is that of revision 2.
    assert_eq!(of("Rollback to 2", Some(&text)), Some(attempt));
}

#[test]
fn a_rollback_is_known_in_every_status() {
    let interrupted = interrupted(Status::PendingRollback);
    for (status, description, expected) in [
        ("pending-rollback", "Preparing upgrade", true),
        ("deployed", "Rollback to 2", true),
        ("failed", "Rollback \"web\" failed: timeout", true),
        ("failed", &interrupted, true),
        ("failed", "Rollback: test failed: Pod shop/web-check", true),
        ("failed", "Upgrade \"web\" failed: Rollback", false),
        ("deployed", "Upgrade complete", false),
    ] {
        let mut json = stored();
        json["info"]["status"] = json!(status);
        json["info"]["description"] = json!(description);
        assert_eq!(
            Record::decode(&data(&json)).unwrap().is_rollback(),
            expected,
            "{description}"
        );
    }
}

/// Its chart has the attempt of the revision that it restores: without its mark it would be that attempt, and be uninstalled as
/// such.
#[test]
fn a_rollback_stays_one_whatever_is_written_into_its_record() {
    let record = |description: &str| {
        let mut json = stored();
        json["info"]["description"] = json!(description);
        json["info"]["status"] = json!("deployed");
        let attempt = "Install deployment :1, because of a change, attempt 1";
        json["chart"]["metadata"]["annotations"][marks::ATTEMPT] = json!(attempt);
        Record::decode(&data(&json)).unwrap()
    };
    for (made, is_rollback) in [("Rollback to 1", true), ("Install complete", false)] {
        for failure in [Failure::NotReady("x".to_owned()), Failure::Test("x".to_owned())] {
            let description = record(made).failed_description(&failure);
            let failed = record(made).with_status(Status::Failed, description);
            assert_eq!(failed.is_rollback(), is_rollback, "{failed:?}");
            assert_eq!(Failure::of(&failed), Some(failure));
            let description = failed.successful_description();
            let recovered = failed.with_status(Status::Deployed, description);
            assert_eq!(recovered.is_rollback(), is_rollback, "{recovered:?}");
        }
    }
}

#[test]
fn a_hook_has_its_policies_and_its_object() {
    let policies = |policies: &[&str]| Hook {
        kind: "Pod".to_owned(),
        manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\n".to_owned(),
        delete_policies: policies.iter().map(|&policy| policy.to_owned()).collect(),
        ..Hook::default()
    };
    let table: [(&[&str], bool); 4] = [
        (&[], true),
        (&["before-hook-creation", "hook-succeeded"], true),
        (&["hook-succeeded"], false),
        (&["hook-failed", "hook-succeeded"], false),
    ];
    for (names, expected) in table {
        assert_eq!(
            policies(names).is_deleted_before_creation(),
            expected,
            "{names:?}"
        );
    }
    let id = policies(&[]).object("shop").unwrap();
    assert_eq!(id.to_string(), "pod.v1 shop/t");
    let damaged = Hook {
        manifest: "a: [".to_owned(),
        ..Hook::default()
    };
    assert_eq!(damaged.object("shop"), None);
}
