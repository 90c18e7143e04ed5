//! What users see, as texts.

use helmops_api::HelmOp;
use helmops_core::{bundle::RequestedCharts, poll::Due};
use helmops_fetch::{ChartExplanation, ExplainedSelection};
use helmops_model::chart::resolved::ChartVersion;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    candidates::{SHOWN, tests::explanation},
    fetcher::FetchFailure,
    outdated::{ChartState, state, state_of_git, table},
    report::{ChartId, Version},
    resolve::{Resolution, ResolutionInput, text},
    subject::{Origin, Subject, accept},
    versions::{chart_versions, without_list, write_table},
};
use crate::{
    failure::Failure,
    output::{Format, write_json},
    terminal::{Console, buffers::Buffers},
};

const REPO: &str = "https://charts.example.com";

fn helmop(over: &Value) -> HelmOp {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "helm": { "repo": REPO, "chart": "web", "version": "^1.2" } },
    });
    for (key, value) in over.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A status with a recorded version, and a poll at noon.
fn status(version: &str) -> Value {
    json!({
        "resolved": [{ "repo": REPO, "chart": "web", "constraint": "^1.2", "version": version, "digest": "aa" }],
        "lastPollingTriggered": "2026-11-23T12:00:00Z",
        "conditions": [
            { "type": "Accepted", "status": "True" },
            { "type": "Polled", "status": "True", "lastUpdateTime": "2026-11-23T12:00:00Z" },
        ],
    })
}

fn now() -> Timestamp {
    "2026-11-23T12:05:00Z".parse().unwrap()
}

/// What a command writes to standard output and to standard error.
fn written(write: impl FnOnce(&mut Console<'_>) -> Result<(), Failure>) -> (String, String) {
    let mut buffers = Buffers::default();
    let mut console = buffers.console();
    write(&mut console).unwrap();
    (buffers.out(), buffers.err())
}

/// The resolution of a HelmOp, and its failures.
fn resolution(
    helmop: HelmOp,
    origin: Origin,
    explanation: Option<&ChartExplanation>,
    limit: Option<usize>,
) -> (Resolution, Vec<Failure>) {
    let subject = Subject::alone(helmop, origin).unwrap();
    let completed = subject.policies.apply_defaults(&subject.helmop);
    let valid = accept(&subject, &completed).unwrap();
    let input = ResolutionInput {
        subject: &subject,
        valid: &valid,
        charts: RequestedCharts::of(&valid, None),
        limit,
        now: now(),
    };
    let selections: Vec<_> = input
        .charts
        .as_slice()
        .iter()
        .map(|_| match explanation {
            None => Err(FetchFailure::Timeout(std::time::Duration::from_mins(1))),
            Some(explanation) => Ok(ExplainedSelection {
                selected: Ok(ChartVersion {
                    version: "1.2.9".to_owned(),
                    digest: "bb".to_owned(),
                    url: format!("{REPO}/web-1.2.9.tgz"),
                }),
                explanation: Some(explanation.clone()),
            }),
        })
        .collect();
    input.resolution(&selections)
}

const VERSIONS: [&str; 6] = ["2.1.0-rc.1", "2.0.0", "1.3.0-rc.1", "1.2.9", "1.2.0", "1.1.0"];

#[tokio::test]
async fn a_resolution_has_the_selected_version_and_the_reason_for_each_candidate() {
    let helmop = helmop(&json!({ "status": status("1.2.0"), "spec": {
        "helm": { "repo": REPO, "chart": "web", "version": "^1.2" }, "pollingInterval": "24h",
        "targets": [{ "helm": { "version": "^1.2" } }, { "helm": { "version": "^1.2" } }],
    } }));
    let (resolution, failures) = resolution(
        helmop,
        Origin::Cluster,
        Some(&explanation(&VERSIONS, "^1.2")),
        Some(SHOWN),
    );
    assert!(failures.is_empty());
    let (out, _) = written(|console| Ok(text::write(&resolution, false, console)?));
    let uptake = resolution.charts[0].uptake.as_ref().unwrap();
    let at = uptake.at.as_deref().unwrap();
    assert!(uptake.differs && at.parse::<Timestamp>().unwrap() > now());
    let out = out.replace(&uptake.message, "UPTAKE");
    assert!(uptake.message.starts_with("by the next poll, in "), "{uptake:?}");
    assert_eq!(
        out,
        r#"HelmOp shop/web
  Chart:      web of https://charts.example.com
  Requested:  ^1.2 (spec.helm and 2 more)
  Recorded:   1.2.0
  Selected:   1.2.9
  Digest:     bb
  URL:        https://charts.example.com/web-1.2.9.tgz
  Taken:      UPTAKE

VERSION      RESULT     REASON
2.1.0-rc.1   rejected   above the range: not ^1.2
2.0.0        rejected   above the range: not ^1.2
1.3.0-rc.1   rejected   pre-release; to include pre-releases, write "^1.2-0"
1.2.9        selected   the highest version in the range
1.2.0        kept       in the range, but 1.2.9 is higher; recorded
1.1.0        rejected   below the range: not ^1.2
"#
    );
}

#[tokio::test]
async fn the_uptake_of_the_selected_version_follows_from_the_polls() {
    let spec = |version: &str, interval: &str| json!({ "helm": { "repo": REPO, "chart": "web", "version": version }, "pollingInterval": interval });
    let other = |version: &str, constraint: &str| {
        let mut status = status(version);
        status["resolved"][0]["constraint"] = json!(constraint);
        status
    };
    let mut followed = spec("^1.2", "1m");
    followed["onDigestChange"] = json!("Follow");
    let cases = vec![
        (
            helmop(&json!({ "spec": spec("^1.2", "0s"), "status": status("1.2.0") })),
            Origin::Cluster,
            Some(
                "never: polling is off (spec.pollingInterval); for one poll run: kubectl helmop poll web -n shop",
            ),
        ),
        (
            helmop(&json!({ "spec": spec("^1.2", "1m"), "status": status("1.2.0") })),
            Origin::Cluster,
            Some("by a poll that is due now"),
        ),
        (
            helmop(&json!({ "spec": spec("^1.2", "1m"), "status": other("1.2.9", "^1.2") })),
            Origin::Cluster,
            // Its digest is another one.
            Some(
                "never: it was published again with another content, and what is recorded stays; spec.onDigestChange: Follow takes it",
            ),
        ),
        (
            helmop(&json!({ "spec": followed, "status": other("1.2.9", "^1.2") })),
            Origin::Cluster,
            Some("by a poll that is due now"),
        ),
        (
            helmop(&json!({ "spec": spec("1.2.8", "1m"), "status": other("1.2.8", "1.2.8") })),
            Origin::Cluster,
            Some(
                "never: an exact version is not polled, and the recorded one stays until the request changes",
            ),
        ),
        (
            helmop(&json!({})),
            Origin::Cluster,
            Some("with the next reconciliation: no version is recorded yet"),
        ),
        (helmop(&json!({})), Origin::File, Some("when the file is applied")),
        (helmop(&json!({})), Origin::Flags, None),
    ];
    for (helmop, origin, expected) in cases {
        let spec = format!("{:?} {origin:?}", helmop.spec.polling_interval);
        let (resolution, _) = resolution(helmop, origin, Some(&explanation(&VERSIONS, "^1.2")), None);
        let uptake = resolution.charts[0].uptake.as_ref();
        assert_eq!(uptake.map(|uptake| uptake.message.as_str()), expected, "{spec}");
    }
    let mut same = status("1.2.9");
    same["resolved"][0]["digest"] = json!("bb");
    let same = helmop(&json!({ "status": same }));
    let (resolution, _) = resolution(same, Origin::Cluster, Some(&explanation(&VERSIONS, "^1.2")), None);
    let uptake = resolution.charts[0].uptake.clone().unwrap();
    assert_eq!(
        (uptake.differs, &*uptake.message),
        (false, "already: it is the recorded version")
    );
}

#[tokio::test]
async fn a_long_list_is_shortened_and_its_invalid_entries_are_named() {
    let versions: Vec<String> = (0..100).map(|patch| format!("1.2.{patch}")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let mut explanation = explanation(&versions, "^1.2");
    explanation.skipped = vec![helm_index::SkippedEntry {
        version: "1.2\u{1b}[2J".to_owned(),
        fault: "its version is not text",
    }];
    let helmop = helmop(&json!({ "status": status("1.2.50") }));
    let (resolution, _) = resolution(helmop, Origin::Cluster, Some(&explanation), Some(4));
    let (out, _) = written(|console| Ok(text::write(&resolution, true, console)?));
    let table = out.split_once("\n\n").unwrap().1;
    assert_eq!(
        table,
        "VERSION   RESULT     APP VERSION   CREATED   REASON\n\
         1.2.99    selected   <none>        <none>    the highest version in the range\n\
         1.2.98    kept       <none>        <none>    in the range, but 1.2.99 is higher\n\
         1.2.97    kept       <none>        <none>    in the range, but 1.2.99 is higher\n\
         …         46 more\n\
         1.2.50    kept       <none>        <none>    in the range, but 1.2.99 is higher; recorded\n\
         1.2       ignored    <none>        <none>    the entry of the index is invalid: its version is not text\n\
         96 versions are not shown; all: --all\n"
    );
    let (json, _) = written(|console| Ok(write_json(&mut console.out, &resolution)?));
    let value: Value = serde_json::from_str(&json).unwrap();
    let candidates = &value["charts"][0]["candidates"];
    assert_eq!(candidates["versions"].as_array().unwrap().len(), 4);
    assert_eq!(candidates["omitted"], 96);
    assert_eq!(candidates["versions"][3]["marks"], json!(["recorded"]));
    assert_eq!(value["helmOp"], "shop/web");
}

#[tokio::test]
async fn a_failed_request_names_this_machine_and_the_next_command() {
    let helmop = helmop(&json!({}));
    let (resolution, failures) = resolution(helmop, Origin::Cluster, None, None);
    assert_eq!(resolution.charts[0].selected, None);
    let [failure] = failures.as_slice() else {
        panic!("{failures:?}")
    };
    assert_eq!(
        failure.message,
        "requested from this machine: no complete response within 60 s (--timeout)"
    );
    assert_eq!(
        failure.hint,
        "the controller may have other network access; its own result: kubectl helmop status web -n shop"
    );
    assert_eq!(failure.code, crate::failure::UNABLE);
}

#[tokio::test]
async fn versions_are_marked() {
    let helmop = helmop(&json!({ "status": status("1.2.0") }));
    let subject = Subject::alone(helmop, Origin::Cluster).unwrap();
    let completed = subject.policies.apply_defaults(&subject.helmop);
    let valid = accept(&subject, &completed).unwrap();
    let charts = RequestedCharts::of(&valid, None);
    let chart = &charts.as_slice()[0];
    let id = || ChartId::of(chart, &charts, &valid, Origin::Cluster);
    let mut list = explanation(&VERSIONS, "^1.2");
    let text = |list: &ChartExplanation, limit| {
        let versions = chart_versions(id(), chart, list, Some("1.2.0"), limit);
        written(|console| write_table(&versions, false, now(), console)).0
    };
    assert_eq!(
        text(&list, Some(4)),
        "web ^1.2 (spec.helm)\n\
         VERSION    IN RANGE   NOTES\n\
         … 1 more\n\
         2.0.0      no         newest\n\
         … 1 more\n\
         1.2.9      yes        selected\n\
         1.2.0      yes        current, recorded\n\
         1.1.0      no         <none>\n\
         2 versions are not shown; all: --all\n"
    );
    let row = &mut list.list.versions[1].listed;
    (row.created, row.app_version, row.deprecated) = ("2026-11-20T12:05:00Z".into(), "7.1".into(), true);
    assert!(
        text(&list, None).contains("2.0.0        7.1           3d       no         newest, deprecated\n"),
        "{}",
        text(&list, None)
    );
}

fn chart_id(requested: &str) -> ChartId {
    ChartId {
        repo: REPO.to_owned(),
        chart: "web".to_owned(),
        requested: requested.to_owned(),
        fields: vec!["spec.helm".to_owned()],
    }
}

fn chart_state(name: &str, requested: &str, current: Option<&str>, list: &[&str], next: Due) -> ChartState {
    let explanation = explanation(list, requested);
    state(
        ("shop".to_owned(), name.to_owned()),
        chart_id(requested),
        current.map(str::to_owned),
        Ok(&explanation),
        next,
    )
}

#[test]
fn outdated_charts_have_the_version_in_the_range_and_the_newest_one() {
    let next = Due::At("2026-11-23T13:00:00Z".parse().unwrap());
    let failed = FetchFailure::Timeout(std::time::Duration::from_mins(1));
    let states = [
        chart_state("latest", "", Some("2.0.0"), &VERSIONS, next),
        chart_state("range", "^1.2", Some("1.2.9"), &VERSIONS, next),
        chart_state("polled", "^1.2", Some("1.2.0"), &VERSIONS, next),
        chart_state("unpolled", "", Some("1.2.9"), &VERSIONS, Due::Never),
        chart_state("nothing", "^3", None, &VERSIONS, next),
        chart_state("prerelease", ">=2.1-0", Some("2.1.0-rc.1"), &VERSIONS, next),
        state(
            ("shop".to_owned(), "broken".to_owned()),
            chart_id("^1.2"),
            Some("1.2.0".to_owned()),
            Err(&failed),
            next,
        ),
    ];
    let outdated: Vec<_> = states.iter().map(|state| state.outdated).collect();
    assert_eq!(outdated, [false, true, true, true, true, false, false]);
    let (out, err) = written(|console| table::write(&states, Format::Wide, true, console));
    assert_eq!(
        out,
        "NAMESPACE   NAME         CHART   CURRENT      IN-RANGE     NEWEST       RANGE     REPOSITORY                   WHY
shop        latest       web     2.0.0        2.0.0        2.0.0        *         https://charts.example.com   <none>
shop        range        web     1.2.9        1.2.9        2.0.0        ^1.2      https://charts.example.com   the range excludes the newest version
shop        polled       web     1.2.0        1.2.9        2.0.0        ^1.2      https://charts.example.com   next poll 2026-11-23T13:00:00Z; the range excludes the newest version
shop        unpolled     web     1.2.9        2.0.0        2.0.0        *         https://charts.example.com   polling is off
shop        nothing      web     <none>       <none>       2.0.0        ^3        https://charts.example.com   the range excludes the newest version
shop        prerelease   web     2.1.0-rc.1   2.1.0-rc.1   2.1.0-rc.1   >=2.1-0   https://charts.example.com   <none>
shop        broken       web     1.2.0        <unknown>    <unknown>    ^1.2      https://charts.example.com   Timeout
"
    );
    assert_eq!(
        err,
        "warning: shop/broken: no complete response within 60 s (--timeout)\n\
         hint: versions were requested from this machine; the controller may have other network access, and its results are in: \
         kubectl helmop status -A\n"
    );
    let (names, _) = written(|console| table::write(&states[1..3], Format::Name, true, console));
    assert_eq!(
        names,
        "helmop.fleet.cattle.io/range\nhelmop.fleet.cattle.io/polled\n"
    );
    let (nothing, note) = written(|console| table::write(&[], Format::Table, false, console));
    assert_eq!(
        (&*nothing, &*note),
        ("", "All charts have their newest versions.\n")
    );
}

const GIT: &str = "git+https://git.example.com/team/charts.git";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn helmop_of_git(recorded: &str) -> HelmOp {
    let spec = json!({
        "chartSource": { "git": {
            "url": "https://git.example.com/team/charts.git", "path": "charts/web", "ref": { "branch": "main" },
        } },
        "pollingInterval": "24h",
        "targets": [{ "clusterGroup": "prod", "helm": { "values": { "a": 1 } } }],
    });
    let record = json!({
        "repo": GIT, "chart": "charts/web", "constraint": "branch main",
        "version": recorded, "digest": format!("git:{}", "a".repeat(64)), "url": format!("{GIT}#{COMMIT}"),
    });
    let mut status = status("1.2.0");
    status["resolved"] = json!([record]);
    helmop(&json!({ "spec": spec, "status": status }))
}

/// A Git repository has no list of versions: the commit says what is selected.
#[tokio::test]
async fn a_chart_in_git_has_a_commit_and_no_candidates() {
    let subject = Subject::alone(helmop_of_git("1.2.0+aaaaaaaaaaaa"), Origin::Cluster).unwrap();
    let valid = accept(&subject, &subject.helmop).unwrap();
    let input = ResolutionInput {
        subject: &subject,
        valid: &valid,
        charts: RequestedCharts::of(&valid, None),
        limit: None,
        now: now(),
    };
    let selected = ChartVersion {
        version: "1.2.0+bbbbbbbbbbbb".to_owned(),
        digest: "bb".to_owned(),
        url: format!("{GIT}#{COMMIT}"),
    };
    let selections = [Ok(ExplainedSelection {
        selected: Ok(selected.clone()),
        explanation: None,
    })];
    let (resolution, failures) = input.resolution(&selections);
    assert!(failures.is_empty());
    let (out, _) = written(|console| Ok(text::write(&resolution, false, console)?));
    let taken = &resolution.charts[0].uptake.as_ref().unwrap().message;
    assert_eq!(
        out.replace(taken.as_str(), "UPTAKE"),
        format!(
            "HelmOp shop/web\n  Chart:      charts/web of {GIT}\n  Requested:  branch main (spec.chartSource.git)\n  Recorded:   \
             1.2.0+aaaaaaaaaaaa\n  Selected:   1.2.0+bbbbbbbbbbbb\n  Commit:     {COMMIT}\n  Digest:     bb\n  Taken:      UPTAKE\n"
        )
    );

    // A bucket has no list either, and no commit.
    let of_bucket = ChartVersion {
        url: "bucket+https://h/charts/we#b".to_owned(),
        ..selected.clone()
    };
    let of_bucket = Version::from(&of_bucket);
    assert_eq!((of_bucket.is_packed(), of_bucket.commit()), (true, None));

    let chart = &input.charts.as_slice()[0];
    let id = ChartId::of(chart, &input.charts, &valid, Origin::Cluster);
    let recorded = chart.version.as_ref().map(Version::from);
    assert_eq!(
        without_list(&id, recorded.as_ref()),
        format!(
            "charts/web of {GIT} has no list of versions: it follows branch main; recorded is commit {COMMIT}, version \
             1.2.0+aaaaaaaaaaaa; what would be selected now: kubectl helmop resolve"
        )
    );
    for (current, outdated, why) in [
        ("1.2.0+aaaaaaaaaaaa", true, "polling is off"),
        ("1.2.0+bbbbbbbbbbbb", false, ""),
    ] {
        let key = ("shop".to_owned(), "web".to_owned());
        let current = Some(current.to_owned());
        let state = state_of_git(key, id.clone(), current, Ok(&selected), Due::Never);
        assert_eq!((state.outdated, &*state.why), (outdated, why));
        assert_eq!(state.newest.as_deref(), Some("1.2.0+bbbbbbbbbbbb"));
    }
}
