//! Explanations of selections: about the same response, without further requests.

use helm_index::Verdict;
use helmops_runtime::error_class::ClassifiedError;

use super::{
    fixture::{TestResolver, anonymous, over_plain_http, reference},
    responses::{CHART, entry, indexed, registry},
    server::{Server, response},
};
use crate::{ChartExplanation, Listing};

/// The versions, newest first, each with the beginning of its verdict.
fn verdicts(explanation: &ChartExplanation) -> Vec<String> {
    let versions = explanation.list.versions.iter();
    versions
        .map(|judged| {
            let verdict = format!("{:?}", judged.verdict);
            let word = verdict.split('(').next().unwrap_or_default();
            format!("{} {word}", judged.listed.version)
        })
        .collect()
}

#[tokio::test]
async fn an_index_is_explained_without_another_request() {
    let versions = ["1.0.0", "2.0.0", "1.1.0-rc.1", "1.0.5"];
    let server = Server::http(move |_| indexed(&[], &versions)).await;
    let mut resolver = TestResolver::new();
    let (selected, explained) = resolver.explained_repository(&server.url(), "^1.0").await;
    let (selected, explained) = (selected.unwrap(), explained.unwrap());
    assert_eq!(
        verdicts(&explained),
        [
            "2.0.0 Above",
            "1.1.0-rc.1 Prerelease",
            "1.0.5 Selected",
            "1.0.0 Lower"
        ]
    );
    let listed = &explained.list.versions[2].listed;
    assert_eq!(
        (&listed.version, &listed.digest, &listed.url),
        (&selected.version, &selected.digest, &selected.url)
    );
    assert_eq!(listed.created, "2026-01-01T00:00:00Z");
    assert_eq!(explained.list.with_prereleases.as_deref(), Some("^1.0-0"));
    resolver.assert_idle(1);
}

#[tokio::test]
async fn invalid_entries_of_the_index_are_explained_too() {
    let text = format!(
        "apiVersion: v1\nentries:\n  {CHART}:\n{}    appVersion: \"7.1\"\n{}",
        entry(CHART, "1.0.0"),
        entry(CHART, "1.10").replace("version: 1.10", "version: 1.10\n    deprecated: true")
    );
    let server = Server::http(move |_| response(200, &[], text.clone())).await;
    let mut resolver = TestResolver::new();
    let (selected, explained) = resolver.explained_repository(&server.url(), "^2").await;
    assert_eq!(selected.unwrap_err().reason().as_str(), "NoMatchingVersion");
    let explained = explained.unwrap();
    assert_eq!(verdicts(&explained), ["1.0.0 Below"]);
    assert_eq!(explained.list.versions[0].listed.app_version, "7.1");
    let [skipped] = explained.skipped.as_slice() else {
        panic!("{explained:?}")
    };
    assert!(
        skipped.fault.starts_with("its version is not text"),
        "{skipped:?}"
    );
    resolver.assert_idle(1);
}

#[tokio::test]
async fn tags_are_listed_only_as_needed_and_once() {
    let access = over_plain_http(anonymous());
    let all = ["latest", "1.0.0", "1.1.0", "2.0.0"];
    for (version, listing, requests, expected) in [
        (
            "1.x",
            Listing::AsNeeded,
            2,
            Some(["2.0.0 Above", "1.1.0 Selected", "1.0.0 Lower"]),
        ),
        ("1.0.0", Listing::AsNeeded, 1, None),
        (
            "1.0.0",
            Listing::Always,
            2,
            Some(["2.0.0 Above", "1.1.0 Above", "1.0.0 Selected"]),
        ),
    ] {
        let server = Server::http(move |head| registry(head, &all)).await;
        let resolver = TestResolver::new();
        let (selected, explained) = resolver
            .explained_registry(&access, &reference(&server), version, listing)
            .await;
        let (selected, explained) = (selected.unwrap(), explained.unwrap());
        let versions = explained.as_ref().map(verdicts);
        assert_eq!(
            versions,
            expected.map(|versions| versions.map(str::to_owned).to_vec()),
            "{version}"
        );
        if let Some(explained) = explained {
            let chosen = explained
                .list
                .versions
                .iter()
                .find(|judged| judged.verdict == Verdict::Selected);
            assert_eq!(chosen.unwrap().listed.version, selected.version);
            assert_eq!(explained.other_tags, 1);
        }
        resolver.assert_idle(requests);
    }
}

#[tokio::test]
async fn a_tag_in_the_reference_is_the_selected_version() {
    let access = over_plain_http(anonymous());
    let server = Server::http(|head| registry(head, &["1.0.0", "1.1.0"])).await;
    let resolver = TestResolver::new();
    let repo = format!("{}:1.0.0", reference(&server));
    let (selected, explained) = resolver
        .explained_registry(&access, &repo, "", Listing::Always)
        .await;
    assert_eq!(selected.unwrap().version, "1.0.0");
    assert_eq!(
        verdicts(&explained.unwrap().unwrap()),
        ["1.1.0 Above", "1.0.0 Selected"]
    );
}
