use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::chart::index::IndexEntry;
use crate::chart::meter::Unmetered;
use crate::chart::registry::{
    tag::{self, TaggedVersion},
    tag_list::TagList,
};

/// Versions, what is asked for, and Helm's choice from an index.
const INDEX: &str = include_str!("../../../../tests/truth/index/choose.tsv");

fn entries<T: AsRef<str>>(versions: &[T]) -> Vec<IndexEntry> {
    let entry = |version: &T| IndexEntry {
        version: version.as_ref().to_owned(),
        url: "a.tgz".to_owned(),
        ..IndexEntry::default()
    };
    versions.iter().map(entry).collect()
}

fn choose<T: AsRef<str>>(versions: &[T], asked: &str) -> Result<String, SelectError> {
    let request = VersionRequest::parse(asked).unwrap();
    select("web", &entries(versions), &request).map(|entry| entry.version.clone())
}

fn refusal(versions: &[&str], asked: &str) -> String {
    choose(versions, asked).unwrap_err().to_string()
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

/// Whether ours is Helm's choice, or one of those between which the order of the list decides there.
fn agrees(ours: &str, helm: &Value) -> bool {
    match helm {
        Value::String(version) => ours == version,
        Value::Array(versions) => versions.iter().any(|version| ours == version),
        _ => false,
    }
}

#[test]
fn chooses_as_helm_does_from_an_index() {
    let (mut chosen, mut refused) = (0, 0);
    for row in rows(INDEX) {
        let [versions, Value::String(asked), helm] = row.as_slice() else {
            panic!("{row:?}")
        };
        let versions = entries(&texts(versions));
        let outcome = VersionRequest::parse(asked)
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
                // Constraints have tables of their own, which say more about these.
                assert!(
                    message.starts_with(error) || error == "constraint parser error" || versions.is_empty(),
                    "{row:?}: {message}"
                );
                refused += 1;
            }
            (Err(message), _) => panic!("{row:?}: {message}"),
        }
    }
    assert!(
        chosen > 2000 && refused > 1000,
        "{chosen} chosen, {refused} refused"
    );
}

/// Tags, what is asked for, Helm's choice (with `+` for `_`) and Fleet's (the tag).
const TAGS: &str = include_str!("../../../../tests/truth/tags/choose.tsv");

fn choose_tag(tags: Vec<String>, asked: &str) -> Option<TaggedVersion> {
    let request = VersionRequest::parse(asked).ok()?;
    let mut list = TagList::default();
    for tag in tags {
        list.add(&tag, &mut Unmetered).unwrap();
    }
    select("web", list.versions(), &request)
        .ok()
        .map(TaggedVersion::from)
}

#[test]
fn chooses_as_helm_does_from_a_registry() {
    let mut chosen = 0;
    for row in rows(TAGS) {
        let [tags, Value::String(asked), helm, _] = row.as_slice() else {
            panic!("{row:?}")
        };
        // Helm passes over tags with a v, which Fleet and we take.
        let mut tags = texts(tags);
        tags.retain(|tag| !tag.starts_with('v'));
        match choose_tag(tags, asked) {
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
fn differs_from_fleet_in_a_registry_only_where_it_is_told() {
    let (mut same, mut latest, mut build, mut literal) = (0, 0, 0, 0);
    for row in rows(TAGS) {
        let [tags, Value::String(asked), _, fleet] = row.as_slice() else {
            panic!("{row:?}")
        };
        // Fleet takes tags that are no complete versions too, and then refuses to deploy them.
        if fleet.as_str().is_some_and(|tag| tag::version_of(tag).is_none()) {
            continue;
        }
        let ours = choose_tag(texts(tags), asked).map(|ours| ours.tag);
        if ours.as_deref() == fleet.as_str() {
            same += 1;
        } else if asked.is_empty() {
            latest += 1;
        } else if ours.as_ref().is_some_and(|tag| tag.contains('_')) {
            build += 1;
        } else {
            assert_eq!(ours.as_ref(), Some(asked), "{row:?}");
            literal += 1;
        }
    }
    assert!(
        same > 500 && latest > 10 && build > 10 && literal > 0,
        "{same} {latest} {build} {literal}"
    );
}

#[test]
fn a_set_of_prereleases_alone_says_so_and_what_to_ask_for() {
    for (versions, asked, newest, constraint) in [
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
        let refusal = choose(versions, asked).unwrap_err();
        let expected = SelectError::OnlyPrereleases {
            chart: "web".to_owned(),
            asked: asked.to_owned(),
            newest: newest.to_owned(),
            constraint: constraint.to_owned(),
        };
        assert_eq!(refusal, expected, "{versions:?} {asked}");
        assert_eq!(choose(versions, constraint).as_deref(), Ok(newest));
    }
    assert_eq!(
        refusal(&["1.3.0-rc.1"], "^1.2"),
        "no chart version found for web-^1.2: no release matches, only pre-releases do, the newest of them 1.3.0-rc.1; \
         to allow pre-releases, write \"^1.2-0\""
    );
}

#[test]
fn a_prerelease_outside_of_the_range_is_no_hint() {
    for (versions, asked) in [
        (["2.0.0-rc.1", "3.0.0-rc.1"], "<2"),
        (["1.2.3-rc.1", "1.2.3-rc.2"], "1.2.3"),
        (["1.2.3-rc.1", "1.2.3-rc.2"], "1.2.3-rc.3"),
        (["1.1.0-rc.1", "2.0.0"], "^1.2 || 3"),
    ] {
        let refusal = choose(&versions, asked).unwrap_err();
        assert!(
            matches!(refusal, SelectError::NoMatch { .. }),
            "{versions:?} {asked}: {refusal}"
        );
    }
}

#[test]
fn lists_the_versions_nearest_to_what_was_asked() {
    let releases = [
        "1.0.0", "1.1.0", "1.2.0", "1.3.8", "1.3.9", "1.5.0", "1.5.1", "1.6.0", "1.7.0", "2.0.0",
    ];
    for (asked, nearest) in [
        ("1.4.x", "1.6.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8, 1.2.0"),
        ("1.4.2", "1.6.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8, 1.2.0"),
        ("0.x", "1.5.0, 1.3.9, 1.3.8, 1.2.0, 1.1.0, 1.0.0"),
        (">2", "2.0.0, 1.7.0, 1.6.0, 1.5.1, 1.5.0, 1.3.9"),
        ("~1.4 || ~9", "2.0.0, 1.7.0, 1.5.1, 1.5.0, 1.3.9, 1.3.8"),
    ] {
        let expected =
            format!("no chart version found for web-{asked}: of its 10 versions the nearest are {nearest}");
        assert_eq!(refusal(&releases, asked), expected);
    }
    // ">1.2" begins with 1.3.0.
    assert_eq!(
        refusal(
            &[
                "1.1.8", "1.1.9", "1.2.1", "1.2.2", "1.2.3", "1.2.4", "1.2.5", "1.2.6"
            ],
            ">1.2"
        ),
        "no chart version found for web->1.2: of its 8 versions the nearest are 1.2.6, 1.2.5, 1.2.4, 1.2.3, 1.2.2, 1.2.1"
    );
}

#[test]
fn prereleases_hide_no_release_from_a_range() {
    let mut nightly: Vec<String> = (0..20).map(|n| format!("1.3.0-nightly.{n}")).collect();
    nightly.push("1.2.0".to_owned());
    let nightly: Vec<&str> = nightly.iter().map(String::as_str).collect();
    assert_eq!(
        refusal(&nightly, "2.x"),
        "no chart version found for web-2.x: of its 21 versions the nearest is 1.2.0"
    );
    assert!(refusal(&nightly, "1.3.0").ends_with("the nearest are 1.3.0-nightly.19, 1.3.0-nightly.18, 1.3.0-nightly.17, 1.3.0-nightly.16, 1.3.0-nightly.15, 1.3.0-nightly.14"));
}

#[test]
fn says_what_there_is_instead_of_versions() {
    assert_eq!(
        refusal(&[], "1.x"),
        "no chart version found: chart \"web\" has no versions"
    );
    assert_eq!(
        refusal(&["0.1.0"], "2"),
        "no chart version found for web-2: its only version is 0.1.0"
    );
    assert_eq!(
        refusal(&["latest", "main"], ""),
        "no chart version found for web-: none of its versions is a semantic version such as 1.2.3"
    );
}

fn published(versions: &[(&str, &str)], asked: &str) -> String {
    let mut candidates = entries(&versions.iter().map(|(version, _)| *version).collect::<Vec<_>>());
    for (at, (entry, (_, created))) in candidates.iter_mut().zip(versions).enumerate() {
        (*created).clone_into(&mut entry.created);
        entry.url = at.to_string();
    }
    let request = VersionRequest::parse(asked).unwrap();
    select("web", &candidates, &request).unwrap().url.clone()
}

#[test]
fn of_equal_versions_the_one_published_last_and_then_the_first() {
    let (early, late) = ("2026-01-01T01:30:00+02:00", "2026-01-01T00:00:00Z");
    for (versions, asked, chosen) in [
        (&[("1.0.0+a", early), ("1.0.0+b", late)][..], "1.x", "1"),
        (&[("1.0.0+b", late), ("1.0.0+a", early)], "1.x", "0"),
        (&[("1.0.0+b", late), ("v1.0.0", late), ("1.0.0", late)], "", "0"),
        (&[("1.0.0", ""), ("v1.0.0", "")], "*", "0"),
        (&[("1.0.0", ""), ("v1.0.0", early)], "*", "1"),
        // A version that is listed twice.
        (&[("1.0.0", early), ("1.0.0", late)], "1.0.0", "1"),
        (&[("1.0.0", late), ("1.0.0", late)], "1.0.0", "0"),
        // What is written as asked comes before what was published later.
        (&[("1.0.0+a", early), ("1.0.0", late)], "1.0.0+a", "0"),
        // And a higher version before both.
        (&[("1.0.1", early), ("1.0.0", late)], "", "0"),
    ] {
        assert_eq!(published(versions, asked), chosen, "{versions:?} {asked}");
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
fn an_entry_needs_an_archive_and_a_tag_does_not() {
    let mut candidates = entries(&["1.0.0", "0.9.0"]);
    candidates[0].url.clear();
    let request = VersionRequest::parse("").unwrap();
    assert_eq!(
        select("web", &candidates, &request).unwrap_err().to_string(),
        "no URLs found for chart web 1.0.0: the index says nowhere where the archive is"
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
    fn a_refusal_is_true(
        versions in prop::collection::vec("v?[0-2]\\.[0-2](\\.[0-2])?(-[ab0])?(\\+b)?|latest", 0..9),
        asked in "(|=|!=|>|<|>=|<=|~|\\^)[0-2x](\\.[0-2x]){0,2}(-a)?(( |, | \\|\\| )(|!=|>|<|>=|<=|~|\\^)[0-2](\\.[0-2]){0,2}(-a)?)?",
    ) {
        match choose(&versions, &asked) {
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
    fn the_order_of_the_list_decides_nothing_where_times_differ(
        listed in prop::collection::btree_map("2026-0[1-3]-01(T00:00:00Z)?|", "v?1\\.[01]\\.0(\\+[ab])?", 1..9),
        asked in "|1\\.0\\.0|1\\.0\\.x",
    ) {
        let mut entries: Vec<_> = listed
            .into_iter()
            .map(|(created, version)| IndexEntry { created, version, url: "a".to_owned(), ..IndexEntry::default() })
            .collect();
        let request = VersionRequest::parse(&asked).unwrap();
        let forwards = select("web", &entries, &request).cloned();
        entries.reverse();
        prop_assert_eq!(forwards.ok(), select("web", &entries, &request).ok().cloned());
    }
}
