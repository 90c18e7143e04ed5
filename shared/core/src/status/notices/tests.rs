//! Tests of notices: their texts, and how long a status has them.

use helm_index::Outlook;
use helmops_api::{HelmOp, HelmOpStatus};
use helmops_model::chart::resolved::ChartVersion;
use serde_json::{Value, json};

use super::*;
use crate::{
    admit::ValidHelmOp,
    bundle::{PolledChart, RequestedCharts},
    status::{BundleState, PollFailure, ReconcileOutcome, events, next},
};

const NOW: &str = "2026-01-01T00:00:00Z";

fn helmop(targets: &Value) -> HelmOp {
    let object = json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" },
            "pollingInterval": "1m", "targets": targets,
        },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// The notices after polls that found these for each chart: the version before and after, and the outlook.
fn found(targets: &Value, polls: &[(&str, &str, Option<Outlook>)]) -> Option<Notices> {
    let helmop = helmop(targets);
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let mut charts = RequestedCharts::of(&valid, None);
    for (chart, (before, after, outlook)) in charts.as_mut_slice().iter_mut().zip(polls) {
        let version = (*after).to_owned();
        chart.version = Some(ChartVersion::from(version));
        chart.polled = Some(PolledChart {
            before: (*before).to_owned(),
            outlook: outlook.clone(),
        });
    }
    notices(charts.as_slice())
}

fn outlook(newer: Option<&str>, is_deprecated: bool, is_withdrawn: bool) -> Outlook {
    Outlook {
        newer: newer.map(str::to_owned),
        is_deprecated,
        is_withdrawn,
    }
}

#[test]
fn messages_name_the_chart_and_the_version() {
    let all = found(
        &json!([]),
        &[("1.2.0", "1.1.0", Some(outlook(Some("2.0.0"), true, true)))],
    )
    .unwrap();
    let expected = [
        "web 2.0.0 is newer than the requested version \"1.x\" allows; allow it in spec.helm.version to deploy it",
        "web 1.1.0 is marked as deprecated in its repository",
        "web 1.2.0 is not in its repository any more; 1.1.0 is deployed in place of it",
    ];
    assert_eq!(
        [all.newer, all.deprecated, all.withdrawn],
        expected.map(|text| Some(text.to_owned()))
    );
    let kept = found(
        &json!([]),
        &[("1.2.0", "1.2.0", Some(outlook(None, false, true)))],
    )
    .unwrap();
    let expected =
        "web 1.2.0 is not in its repository any more; it stays deployed, since no other version matches";
    assert_eq!(kept.withdrawn.as_deref(), Some(expected));
    assert_eq!((kept.newer, kept.deprecated), (None, None));
    assert_eq!(found(&json!([]), &[]), Some(Notices::default()));
}

#[test]
fn a_message_is_short_whatever_a_repository_lists() {
    let long = format!("1.0.0-{}", "a".repeat(8_000));
    let all = found(
        &json!([]),
        &[(&long, &long, Some(outlook(Some(&long), true, true)))],
    )
    .unwrap();
    for text in [all.newer, all.deprecated, all.withdrawn] {
        assert!(text.unwrap().len() < 400);
    }
}

#[test]
fn charts_of_targets_count_and_an_error_hides_all() {
    let targets = json!([{ "helm": { "chart": "db" } }]);
    let newer = || Some(outlook(Some("2.0.0"), false, false));
    let both = found(
        &targets,
        &[("1.0.0", "1.0.0", newer()), ("1.1.0", "1.1.0", newer())],
    )
    .unwrap();
    let text = both.newer.unwrap();
    assert!(
        text.starts_with("web 2.0.0 ") && text.ends_with("(and 1 more)"),
        "{text}"
    );
    let of_target = found(
        &targets,
        &[
            ("1.0.0", "1.0.0", Some(outlook(None, false, false))),
            ("1.1.0", "1.1.0", newer()),
        ],
    );
    assert!(of_target.unwrap().newer.unwrap().starts_with("db 2.0.0 "));
    assert_eq!(
        found(&targets, &[("1.0.0", "1.0.0", newer()), ("1.1.0", "1.1.0", None)]),
        None
    );
}

/// A status after a step, and the reasons of the events that follow from it.
fn step(status: &HelmOpStatus, polling: &Polling) -> (HelmOpStatus, Vec<String>) {
    let helmop = HelmOp {
        status: Some(status.clone()),
        ..helmop(&json!([]))
    };
    let outcome = ReconcileOutcome::Accepted {
        version: "1.2.0".to_owned(),
        resolved: Vec::new(),
    };
    let new = next(&helmop, BundleState::default(), &outcome, polling, NOW);
    let reasons = events(status, &new).into_iter().map(|event| {
        let kind = if event.is_warning { "Warning" } else { "Normal" };
        format!("{kind} {}", event.reason)
    });
    let reasons = reasons.collect();
    (new, reasons)
}

fn polled(is_scheduled: bool, notices: Option<Notices>) -> Polling {
    Polling::Attempted(PollAttempt {
        seen: None,
        start: NOW.parse().unwrap(),
        is_scheduled,
        is_requested: false,
        next: None,
        result: Ok(String::new()),
        notices,
    })
}

fn present(status: &HelmOpStatus) -> Vec<&str> {
    let types = ConditionType::NOTICES.map(ConditionType::as_str);
    let conditions = status.base.conditions.iter().map(|condition| &*condition.r#type);
    conditions.filter(|found| types.contains(found)).collect()
}

#[test]
fn each_version_is_an_event_once_and_the_status_is_the_memory() {
    let newer = |version: &str| Notices {
        newer: Some(format!("web {version} is newer")),
        ..Notices::default()
    };
    let two = polled(true, Some(newer("2.0.0")));
    let (status, reasons) = step(&HelmOpStatus::default(), &two);
    assert_eq!(reasons, ["Normal NewVersionOutsideRange"]);
    // Another process has nothing but the status.
    let (same, reasons) = step(&status, &two);
    assert_eq!((same == status, reasons.len()), (true, 0));
    let failed = Polling::Attempted(PollAttempt {
        seen: None,
        start: NOW.parse().unwrap(),
        is_scheduled: true,
        is_requested: false,
        next: None,
        result: Err(PollFailure {
            reason: Reason::Timeout,
            message: "slow".to_owned(),
            is_transient: true,
        }),
        notices: None,
    });
    let (failed, reasons) = step(&status, &failed);
    assert_eq!(reasons, ["Warning FailedToGetNewChartVersion"]);
    assert_eq!(
        present(&failed),
        ["NewVersionOutsideRange"],
        "an error hides nothing"
    );
    assert!(step(&failed, &two).1.is_empty());
    assert_eq!(step(&failed, &Polling::Unchanged).0, failed);

    let (status, reasons) = step(&failed, &polled(true, Some(newer("2.1.0"))));
    assert_eq!(reasons, ["Normal NewVersionOutsideRange"]);
    let (status, reasons) = step(&status, &polled(true, Some(Notices::default())));
    assert_eq!((present(&status).len(), reasons.len()), (0, 0));
}

#[test]
fn a_withdrawal_is_a_warning_and_nothing_is_known_without_polling() {
    let all = Notices {
        newer: Some("n".to_owned()),
        deprecated: Some("d".to_owned()),
        withdrawn: Some("w".to_owned()),
    };
    let (status, reasons) = step(&HelmOpStatus::default(), &polled(true, Some(all.clone())));
    assert_eq!(
        reasons,
        [
            "Normal NewVersionOutsideRange",
            "Normal ChartDeprecated",
            "Warning ChartWithdrawn"
        ]
    );
    for off in [Polling::Off, polled(false, Some(all))] {
        let (status, reasons) = step(&status, &off);
        assert_eq!((present(&status).len(), reasons.len()), (0, 0), "{off:?}");
    }
}
