use masterminds_semver::Version;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    IndexEntry, Unmetered, VersionFilter,
    tags::{self, TagList, TaggedVersion},
};

/// Versions, the request, and Helm's choice from an index.
const INDEX: &str = include_str!("../../tests/truth/index.tsv");

fn entries<T: AsRef<str>>(versions: &[T]) -> Vec<IndexEntry> {
    let entry = |version: &T| IndexEntry {
        version: version.as_ref().to_owned(),
        url: "a.tgz".to_owned(),
        ..IndexEntry::default()
    };
    versions.iter().map(entry).collect()
}

fn choose<T: AsRef<str>>(versions: &[T], requested: &str) -> Result<String, SelectError> {
    let request = VersionRequest::parse(requested).unwrap();
    select("web", &entries(versions), &request).map(|entry| entry.version.clone())
}

fn filtered(versions: &[&str], requested: &str, filter: &str) -> Result<String, String> {
    let filter = VersionFilter {
        text: filter.into(),
        expression: regex::Regex::new(filter).unwrap(),
    };
    let request = VersionRequest::parse(requested).unwrap().filtered(Some(filter));
    let listed = entries(versions);
    let chosen = select("web", &listed, &request);
    let chosen = chosen.map(|entry| entry.version.clone());
    let explained = explain("web", entries(versions), &request);
    let is_selected = |one: &&Explained<IndexEntry>| one.verdict == Verdict::Selected;
    let selected = explained.versions.iter().find(is_selected);
    assert_eq!(
        selected.map(|one| one.candidate.version.clone()),
        chosen.clone().ok(),
        "the explanation is about the same version"
    );
    chosen.map_err(|error| error.to_string())
}

fn seen(listed: &[IndexEntry], requested: &str, deployed: &str) -> Outlook {
    let request = VersionRequest::parse(requested).unwrap();
    let selected = select("web", listed, &request).ok();
    outlook(listed, &request, deployed, selected.map(|entry| &*entry.version))
}

#[test]
fn the_newest_release_outside_of_the_range_is_found() {
    let listed = entries(&["1.0.0", "2.1.0", "1.2.0", "2.0.0", "3.0.0-rc.1", "none", "0.9.0"]);
    for (requested, deployed, expected) in [
        ("1.x", "1.0.0", Some("2.1.0")),
        ("1.x", "", Some("2.1.0")),
        ("~2.0", "2.0.0", Some("2.1.0")),
        ("", "2.1.0", None),
        (">=1", "1.0.0", None),
        // The newest one is in the range.
        ("1.x || 2.1.x", "1.2.0", None),
        (">=2.0.0-0", "2.1.0", None),
        // Nothing is in the range any more.
        ("1.5.x", "1.5.3", Some("2.1.0")),
        ("4.x", "4.0.0", None),
        ("1.2.0", "1.2.0", Some("2.1.0")),
        ("2.1.0", "2.1.0", None),
    ] {
        let found = seen(&listed, requested, deployed).newer;
        assert_eq!(found.as_deref(), expected, "{requested} {deployed}");
    }
    assert_eq!(
        seen(&entries(&["1.0.0", "2.0.0-rc.1"]), "1.x", "1.0.0"),
        Outlook::default()
    );
}

#[test]
fn a_release_that_the_filter_leaves_out_is_not_newer() {
    let filter = VersionFilter {
        text: "^v".into(),
        expression: regex::Regex::new("^v").unwrap(),
    };
    let request = VersionRequest::parse("1.x").unwrap().filtered(Some(filter));
    let newer = |listed: &[&str]| outlook(entries(listed), &request, "v1.0.0", None).newer;
    assert_eq!(newer(&["v1.0.0", "2.0.0"]), None);
    assert_eq!(newer(&["v1.0.0", "v2.0.0"]).as_deref(), Some("v2.0.0"));
}

#[test]
fn a_withdrawn_version_is_not_listed_in_any_form() {
    let listed = entries(&["1.0.0", "v1.2.0", "1.3.0+b"]);
    for (deployed, expected) in [
        ("", false),
        ("1.0.0", false),
        ("1.2.0", false),
        ("1.3.0+b", false),
        ("1.3.0", true),
        ("1.4.0", true),
        ("none", true),
    ] {
        assert_eq!(seen(&listed, "*", deployed).is_withdrawn, expected, "{deployed}");
    }
}

#[test]
fn a_deprecated_version_is_the_one_that_the_selection_leads_to() {
    let mut listed = entries(&["1.0.0", "1.1.0", "1.1.0"]);
    listed[0].deprecated = true;
    assert!(!seen(&listed, "1.x", "1.0.0").is_deprecated, "1.1.0 replaces it");
    assert!(seen(&listed, "1.0.x", "").is_deprecated);
    assert!(
        seen(&listed, "1.5.x", "1.0.0").is_deprecated,
        "nothing replaces it"
    );
    assert!(!seen(&listed, "1.5.x", "1.4.0").is_deprecated, "it is not listed");
    listed[1].deprecated = true;
    assert!(
        !seen(&listed, "1.x", "1.0.0").is_deprecated,
        "published again without the mark"
    );
    listed[2].deprecated = true;
    assert!(seen(&listed, "1.x", "1.0.0").is_deprecated);
}

#[test]
fn a_filter_leaves_versions_out_of_a_range() {
    let versions = [
        "1.0.0-debug.1",
        "1.1.0",
        "1.2.0",
        "1.3.0-rc.2",
        "1.3.0-alpha.9",
        "2.0.0",
    ];
    for (requested, filter, expected) in [
        ("1.x", "", "1.2.0"),
        (">=1.0.0-0", "-rc", "1.3.0-rc.2"),
        (">=1.0.0-0", r"-alpha\.\d+$", "1.3.0-alpha.9"),
        (">=1.0.0-0", r"^1\.\d+\.\d+$", "1.2.0"),
        ("", "^1[.]", "1.2.0"),
        // What is requested exactly needs not pass.
        ("1.1.0", "rc", "1.1.0"),
    ] {
        assert_eq!(
            filtered(&versions, requested, filter).as_deref(),
            Ok(expected),
            "{requested} {filter}"
        );
    }
    let error = |requested, filter| filtered(&versions, requested, filter).unwrap_err();
    let none = error("1.x", "beta");
    assert!(
        none.contains("semverFilter \"beta\" matches none of its 6 versions"),
        "{none}"
    );
    let outside = error("3.x", "^1");
    assert!(outside.contains("web-3.x (semverFilter \"^1\")"), "{outside}");
    let explained = {
        let filter = VersionFilter {
            text: "rc".into(),
            expression: regex::Regex::new("rc").unwrap(),
        };
        let request = VersionRequest::parse("1.x").unwrap().filtered(Some(filter));
        explain("web", entries(&versions), &request)
    };
    let found = explained
        .versions
        .iter()
        .find(|one| one.candidate.version == "1.2.0");
    assert_eq!(found.unwrap().verdict, Verdict::Filtered);
}

fn error_message(versions: &[&str], requested: &str) -> String {
    choose(versions, requested).unwrap_err().to_string()
}

/// The columns of a table, each of them JSON.
fn rows(table: &str) -> impl Iterator<Item = Vec<Value>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        line.split('\t')
            .map(|column| serde_json::from_str(column).unwrap())
            .collect()
    })
}

fn texts(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

/// Whether our choice is Helm's, or one of those between which Helm decides by the order of the list.
fn agrees(ours: &str, helm: &Value) -> bool {
    match helm {
        Value::String(version) => ours == version,
        Value::Array(versions) => versions.iter().any(|version| ours == version),
        _ => false,
    }
}

#[test]
fn choices_from_an_index_are_those_of_helm() {
    let (mut chosen, mut rejected) = (0, 0);
    for row in rows(INDEX) {
        let [versions, Value::String(requested), helm] = row.as_slice() else {
            panic!("{row:?}")
        };
        let versions = entries(&texts(versions));
        let outcome = VersionRequest::parse(requested)
            .map_err(|error| error.to_string())
            .and_then(|request| {
                let outcome = select("web", &versions, &request);
                outcome.map_err(|error| error.to_string())
            });
        match (outcome, &helm["error"]) {
            (Ok(entry), _) => {
                assert!(agrees(&entry.version, helm), "{row:?}: {}", entry.version);
                chosen += 1;
            }
            (Err(message), Value::String(error)) => {
                // The messages of constraints are checked with tables of their own.
                assert!(
                    message.starts_with(error) || error == "constraint parser error" || versions.is_empty(),
                    "{row:?}: {message}"
                );
                rejected += 1;
            }
            (Err(message), _) => panic!("{row:?}: {message}"),
        }
    }
    assert!(
        chosen > 2000 && rejected > 1000,
        "{chosen} chosen, {rejected} rejected"
    );
}

/// Tags, the request, Helm's choice (with `+` for `_`) and Fleet's (the tag).
const TAGS: &str = include_str!("../../tests/truth/tags.tsv");

fn choose_tag(tags: Vec<String>, requested: &str) -> Option<TaggedVersion> {
    let request = VersionRequest::parse(requested).ok()?;
    let mut list = TagList::default();
    for tag in tags {
        list.add(&tag, &mut Unmetered).unwrap();
    }
    select("web", list.versions(), &request)
        .ok()
        .map(TaggedVersion::from)
}

#[test]
fn choices_from_a_registry_are_those_of_helm() {
    let mut chosen = 0;
    for row in rows(TAGS) {
        let [tags, Value::String(requested), helm, _] = row.as_slice() else {
            panic!("{row:?}")
        };
        // Helm skips tags with a v; Fleet and this crate do not.
        let mut tags = texts(tags);
        tags.retain(|tag| !tag.starts_with('v'));
        match choose_tag(tags, requested) {
            Some(ours) => {
                assert!(agrees(&ours.version, helm), "{row:?}: {ours:?}");
                chosen += 1;
            }
            None => assert!(helm["error"].is_string(), "{row:?}"),
        }
    }
    assert!(chosen > 800, "{chosen} chosen");
}

#[test]
fn choices_from_a_registry_differ_from_fleet_only_as_documented() {
    let (mut same, mut latest, mut build, mut literal) = (0, 0, 0, 0);
    for row in rows(TAGS) {
        let [tags, Value::String(requested), _, fleet] = row.as_slice() else {
            panic!("{row:?}")
        };
        // Fleet also chooses tags that are not complete versions, and then refuses to deploy them.
        if fleet.as_str().is_some_and(|tag| tags::version_of(tag).is_none()) {
            continue;
        }
        let ours = choose_tag(texts(tags), requested).map(|ours| ours.tag);
        if ours.as_deref() == fleet.as_str() {
            same += 1;
        } else if requested.is_empty() {
            latest += 1;
        } else if ours.as_ref().is_some_and(|tag| tag.contains('_')) {
            build += 1;
        } else {
            assert_eq!(ours.as_ref(), Some(requested), "{row:?}");
            literal += 1;
        }
    }
    assert!(
        same > 500 && latest > 10 && build > 10 && literal > 0,
        "{same} {latest} {build} {literal}"
    );
}

#[test]
fn matching_prereleases_are_reported_with_a_constraint_that_allows_them() {
    for (versions, requested, newest, constraint) in [
        (&["1.3.0-rc.1"][..], "^1.2", "1.3.0-rc.1", "^1.2-0"),
        (&["1.2.0-rc.1", "0.9.0", "2.0.0"], "~1.2", "1.2.0-rc.1", "~1.2-0"),
        (&["1.0.0-b", "1.0.0-a"], "", "1.0.0-b", ">=0.0.0-0"),
        (&["1.0.0-b", "1.0.0-a"], "*", "1.0.0-b", ">=0.0.0-0"),
        (
            &["1.3.0-rc.1", "2.0.0-rc.1"],
            ">=1.2.0 <2.0.0",
            "1.3.0-rc.1",
            ">=1.2.0-0, <2.0.0-0",
        ),
        (&["1.2.3", "1.2.4-a"], ">1.2.3", "1.2.4-a", ">1.2.3, >=0.0.0-0"),
    ] {
        let error = choose(versions, requested).unwrap_err();
        let expected = SelectError::OnlyPrereleases {
            chart: "web".to_owned(),
            requested: requested.to_owned(),
            newest: newest.to_owned(),
            constraint: constraint.to_owned(),
        };
        assert_eq!(error, expected, "{versions:?} {requested}");
        assert_eq!(choose(versions, constraint).as_deref(), Ok(newest));
    }
    assert_eq!(
        error_message(&["1.3.0-rc.1"], "^1.2"),
        "no chart version found for web-^1.2: no release matches, only pre-releases do, the newest of them 1.3.0-rc.1; \
         to allow pre-releases, write \"^1.2-0\""
    );
}

#[test]
fn a_prerelease_outside_the_range_is_not_suggested() {
    for (versions, requested) in [
        (["2.0.0-rc.1", "3.0.0-rc.1"], "<2"),
        (["1.2.3-rc.1", "1.2.3-rc.2"], "1.2.3"),
        (["1.2.3-rc.1", "1.2.3-rc.2"], "1.2.3-rc.3"),
        (["1.1.0-rc.1", "2.0.0"], "^1.2 || 3"),
    ] {
        let error = choose(&versions, requested).unwrap_err();
        assert!(
            matches!(error, SelectError::NoMatch { .. }),
            "{versions:?} {requested}: {error}"
        );
    }
}

#[test]
fn the_nearest_versions_are_listed() {
    let releases = [
        "1.0.0", "1.1.0", "1.2.0", "1.3.8", "1.3.9", "1.5.0", "1.5.1", "1.6.0", "1.7.0", "2.0.0",
    ];
    for (requested, nearest) in [
        ("1.4.x", "1.6.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8, 1.2.0"),
        ("1.4.2", "1.6.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8, 1.2.0"),
        ("0.x", "1.5.0, 1.3.9, 1.3.8, 1.2.0, 1.1.0, 1.0.0"),
        (">2", "2.0.0, 1.7.0, 1.6.0, 1.5.1, 1.5.0, 1.3.9"),
        ("~1.4 || ~9", "2.0.0, 1.7.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8"),
    ] {
        let expected = format!(
            "no chart version found for web-{requested}: of its 10 versions the nearest are {nearest}"
        );
        assert_eq!(error_message(&releases, requested), expected);
    }
    // ">1.2" starts at 1.3.0.
    assert_eq!(
        error_message(
            &[
                "1.1.8", "1.1.9", "1.2.1", "1.2.2", "1.2.3", "1.2.4", "1.2.5", "1.2.6"
            ],
            ">1.2"
        ),
        "no chart version found for web->1.2: of its 8 versions the nearest are 1.2.6, 1.2.5, 1.2.4, 1.2.3, 1.2.2, 1.2.1"
    );
}

#[test]
fn prereleases_do_not_displace_releases_from_the_list() {
    let mut nightly: Vec<String> = (0..20).map(|n| format!("1.3.0-nightly.{n}")).collect();
    nightly.push("1.2.0".to_owned());
    let nightly: Vec<&str> = nightly.iter().map(String::as_str).collect();
    assert_eq!(
        error_message(&nightly, "2.x"),
        "no chart version found for web-2.x: of its 21 versions the nearest is 1.2.0"
    );
    assert!(error_message(&nightly, "1.3.0").ends_with("the nearest are 1.3.0-nightly.19, 1.3.0-nightly.18, 1.3.0-nightly.17, 1.3.0-nightly.16, 1.3.0-nightly.15, 1.3.0-nightly.14"));
}

#[test]
fn the_error_describes_the_existing_versions() {
    assert_eq!(
        error_message(&[], "1.x"),
        "no chart version found: chart \"web\" has no versions"
    );
    assert_eq!(
        error_message(&["0.1.0"], "2"),
        "no chart version found for web-2: its only version is 0.1.0"
    );
    assert_eq!(
        error_message(&["latest", "main"], ""),
        "no chart version found for web-: none of its versions is a semantic version such as 1.2.3"
    );
}

fn published(versions: &[(&str, &str)], requested: &str) -> String {
    let mut candidates = entries(&versions.iter().map(|(version, _)| *version).collect::<Vec<_>>());
    for (at, (entry, (_, created))) in candidates.iter_mut().zip(versions).enumerate() {
        (*created).clone_into(&mut entry.created);
        entry.url = at.to_string();
    }
    let request = VersionRequest::parse(requested).unwrap();
    select("web", &candidates, &request).unwrap().url.clone()
}

#[test]
fn of_equal_versions_the_last_published_then_the_first_listed_is_chosen() {
    let (early, late) = ("2026-01-01T01:30:00+02:00", "2026-01-01T00:00:00Z");
    for (versions, requested, chosen) in [
        (&[("1.0.0+a", early), ("1.0.0+b", late)][..], "1.x", "1"),
        (&[("1.0.0+b", late), ("1.0.0+a", early)], "1.x", "0"),
        (&[("1.0.0+b", late), ("v1.0.0", late), ("1.0.0", late)], "", "0"),
        (&[("1.0.0", ""), ("v1.0.0", "")], "*", "0"),
        (&[("1.0.0", ""), ("v1.0.0", early)], "*", "1"),
        // A version that is listed twice.
        (&[("1.0.0", early), ("1.0.0", late)], "1.0.0", "1"),
        (&[("1.0.0", late), ("1.0.0", late)], "1.0.0", "0"),
        // A literal match takes precedence over a later publication.
        (&[("1.0.0+a", early), ("1.0.0", late)], "1.0.0+a", "0"),
        // A higher version takes precedence over both.
        (&[("1.0.1", early), ("1.0.0", late)], "", "0"),
    ] {
        assert_eq!(published(versions, requested), chosen, "{versions:?} {requested}");
    }
}

#[test]
fn a_deprecated_version_is_chosen_like_any_other() {
    let mut candidates = entries(&["1.0.0", "2.0.0"]);
    candidates[1].deprecated = true;
    let request = VersionRequest::parse("").unwrap();
    assert_eq!(select("web", &candidates, &request).unwrap().version, "2.0.0");
}

#[test]
fn an_index_entry_needs_a_url_and_a_tag_does_not() {
    let mut candidates = entries(&["1.0.0", "0.9.0"]);
    candidates[0].url.clear();
    let request = VersionRequest::parse("").unwrap();
    assert_eq!(
        select("web", &candidates, &request).unwrap_err().to_string(),
        "no URLs found for chart web 1.0.0: the index has no URL for its archive"
    );
    let tagged = choose_tag(vec!["1.0.0_b".to_owned(), "latest".to_owned()], "").unwrap();
    assert_eq!(
        (tagged.tag.as_str(), tagged.version.as_str()),
        ("1.0.0_b", "1.0.0+b")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn errors_are_correct(
        versions in prop::collection::vec("v?[0-2]\\.[0-2](\\.[0-2])?(-[ab0])?(\\+b)?|latest", 0..9),
        requested in "(|=|!=|>|<|>=|<=|~|\\^)[0-2x](\\.[0-2x]){0,2}(-a)?(( |, | \\|\\| )(|!=|>|<|>=|<=|~|\\^)[0-2](\\.[0-2]){0,2}(-a)?)?",
    ) {
        match choose(&versions, &requested) {
            Err(SelectError::OnlyPrereleases { newest, constraint, .. }) => {
                prop_assert!(Version::parse(&newest).unwrap().is_prerelease());
                prop_assert_eq!(choose(&versions, &constraint), Ok(newest), "{}", constraint);
            }
            Err(SelectError::NoMatch { nearest, .. }) => {
                prop_assert_eq!(nearest.versions.len() + nearest.others, versions.len());
                prop_assert!(nearest.versions.iter().all(|version| versions.contains(version)));
                let any = versions.iter().any(|version| Version::parse(version).is_ok());
                prop_assert_eq!(nearest.versions.is_empty(), !any);
            }
            Err(SelectError::NoVersions { .. }) => prop_assert!(versions.is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
            Ok(chosen) => prop_assert!(versions.contains(&chosen)),
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter_when_times_differ(
        listed in prop::collection::btree_map("2026-0[1-3]-01(T00:00:00Z)?|", "v?1\\.[01]\\.0(\\+[ab])?", 1..9),
        requested in "|1\\.0\\.0|1\\.0\\.x",
    ) {
        let mut entries: Vec<_> = listed
            .into_iter()
            .map(|(created, version)| IndexEntry { created, version, url: "a".to_owned(), ..IndexEntry::default() })
            .collect();
        let request = VersionRequest::parse(&requested).unwrap();
        let forwards = select("web", &entries, &request).cloned();
        entries.reverse();
        prop_assert_eq!(forwards.ok(), select("web", &entries, &request).ok().cloned());
    }
}

/// The position of the selected version, and of the first in the range.
fn explained(versions: &[IndexEntry], request: &VersionRequest<'_>) -> (Vec<usize>, Option<usize>) {
    let explanation = explain("web", versions, request);
    assert_eq!(explanation.versions.len(), versions.len());
    let position = |candidate: &IndexEntry| versions.iter().position(|entry| std::ptr::eq(entry, candidate));
    let selected = explanation
        .versions
        .iter()
        .filter(|explained| explained.verdict == Verdict::Selected)
        .filter_map(|explained| position(explained.candidate));
    let first = explanation
        .versions
        .iter()
        .find(|explained| explained.verdict.is_in_range() && explained.verdict != Verdict::NotLiteral);
    (
        selected.collect(),
        first.and_then(|explained| position(explained.candidate)),
    )
}

#[test]
fn explanations_agree_with_selections_from_all_indexes() {
    let mut selections = 0;
    for row in rows(INDEX) {
        let [versions, Value::String(requested), _] = row.as_slice() else {
            panic!("{row:?}")
        };
        let entries = entries(&texts(versions));
        let Ok(request) = VersionRequest::parse(requested) else {
            continue;
        };
        let (selected, first) = explained(&entries, &request);
        let expected = select("web", &entries, &request).ok();
        let expected = expected.and_then(|entry| entries.iter().position(|other| std::ptr::eq(other, entry)));
        assert_eq!(selected, Vec::from_iter(expected), "{row:?}");
        assert_eq!(first, expected, "newest first: {row:?}");
        selections += selected.len();
    }
    assert!(selections > 1000, "{selections}");
}
