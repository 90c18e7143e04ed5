//! The CRDs have the fields of Fleet's newest ones: a new field of Fleet fails this test, and is no loss that a user notices.
//!
//! `fields.txt` has the fields of Fleet: `main` of 22 August 2026 with fleet#5549, which is in 0.16.2 and 0.17. To record those of
//! another version, run `make fleet-fields CRDS=FILE` with its `charts/fleet-crd/templates/crds.yaml`.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

mod differences;
mod fields;

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::crds;

use differences::{DIFFERENCES, NOT_SERVED};
use fields::Fields;

const FLEET: &str = include_str!("fields.txt");

fn own() -> BTreeMap<String, Fields> {
    let all = crds::all()
        .unwrap()
        .into_iter()
        .chain(crds::of_clusters().unwrap());
    all.filter_map(|(_, crd)| fields::of_crd(&serde_json::to_value(crd).unwrap()))
        .collect()
}

/// Each difference in a line: the kind, the path, and the type there and here. Below a field that only one side has, nothing is listed.
fn differences_of(kind: &str, fleet: &Fields, own: &Fields) -> Vec<String> {
    let paths: BTreeSet<_> = fleet.keys().chain(own.keys()).collect();
    let mut found: Vec<String> = Vec::new();
    let mut missing: Vec<&str> = Vec::new();
    for path in paths {
        let [there, here] = [fleet, own].map(|fields| fields.get(path).map_or("-", String::as_str));
        let is_below = |parent: &&str| {
            let rest = path.strip_prefix(*parent);
            rest.is_some_and(|rest| rest.trim_start_matches(['[', ']', '{', '}']).starts_with('.'))
        };
        if there == here || missing.iter().any(is_below) {
            continue;
        }
        if there == "-" || here == "-" {
            missing.push(path);
        }
        found.push(format!("{kind} {path}: {there} {here}"));
    }
    found
}

/// Whether an entry of the list, whose path may start with `*` and whose kind may be `*`, is about a difference.
fn is_about(entry: &str, difference: &str) -> bool {
    let (Some((kind, rest)), Some((own_kind, own_rest))) =
        (entry.split_once(' '), difference.split_once(' '))
    else {
        return false;
    };
    let is_path = match rest.strip_prefix('*') {
        Some(end) => own_rest.ends_with(end),
        None => own_rest == rest,
    };
    is_path && (kind == "*" || kind == own_kind)
}

#[test]
fn each_field_of_fleet_is_here_or_has_a_reason_and_so_the_other_way_round() {
    let (fleet, own) = (fields::read(FLEET), own());
    let found: Vec<_> = own
        .iter()
        .flat_map(|(kind, own)| differences_of(kind, fleet.get(kind).unwrap_or(&Fields::new()), own))
        .collect();
    let is_known = |difference: &&String| DIFFERENCES.iter().any(|(entry, _)| is_about(entry, difference));
    let new: Vec<_> = found.iter().filter(|difference| !is_known(difference)).collect();
    assert!(
        new.is_empty(),
        "not in differences.rs (kind, path, type in Fleet, type here): {new:#?}"
    );
    let old: Vec<_> = DIFFERENCES
        .iter()
        .filter(|(entry, _)| !found.iter().any(|difference| is_about(entry, difference)))
        .collect();
    assert!(old.is_empty(), "in differences.rs, but no difference: {old:#?}");
}

#[test]
fn each_kind_of_fleet_is_served_or_has_a_reason() {
    let fleet: BTreeSet<_> = fields::read(FLEET).into_keys().collect();
    let not_served = NOT_SERVED.iter().map(|(kind, _)| (*kind).to_owned());
    let known: BTreeSet<_> = own().into_keys().chain(not_served).collect();
    assert_eq!(fleet, known);
}

#[test]
fn what_is_recorded_is_what_is_read() {
    let kinds = fields::read(FLEET);
    let lines = FLEET.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert_eq!(fields::write(&kinds), text);
    let own = own();
    assert_eq!(fields::read(&fields::write(&own)), own);
}

#[test]
fn a_new_field_and_another_type_are_found_once() {
    let of = |text: &str| fields::read(text).remove("A").unwrap();
    let fleet = of("A\n spec object\n  a string\n  b []object\n   c string\n   d {}object\n    e string\n");
    let own = of("A\n spec object\n  a integer\n  b []object\n   f object\n    g string\n");
    assert_eq!(
        differences_of("A", &fleet, &own),
        [
            "A spec.a: string integer",
            "A spec.b[].c: string -",
            "A spec.b[].d: {}object -",
            "A spec.b[].f: - object",
        ]
    );
    assert!(is_about("* *[].c: string -", "A spec.b[].c: string -"));
    assert!(!is_about("B *[].c: string -", "A spec.b[].c: string -"));
    assert!(!is_about("A spec.b: string -", "A spec.b[].c: string -"));
}
