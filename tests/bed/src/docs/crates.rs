//! The dependencies between the crates, as ARCHITECTURE.md states them, are those of the `Cargo.toml` files.
//!
//! A crate is named by its folder, without `shared/`. In brackets are crates that it depends on; it may also depend on what these depend on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};

use super::{ARCHITECTURE, Page, Problem, problem};

/// The heading above the list.
const LIST: &str = "### Dependencies";

/// The members of the workspace: folders, and folders that contain them.
const SINGLE: [&str; 7] = [
    "agent",
    "certs",
    "cli",
    "controller",
    "notifier",
    "receiver",
    "webhook",
];
const CONTAINERS: [&str; 2] = ["shared", "tests"];

/// The crates that each crate depends on.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Differences between the list and the workspace at `root`.
///
/// # Errors
/// If a `Cargo.toml` cannot be read.
pub fn check(pages: &[Page], root: &Path) -> Result<Vec<Problem>> {
    let workspace = workspace(root)?;
    let page = pages.iter().find(|page| page.path == ARCHITECTURE);
    Ok(page.map(|page| differences(page, &workspace)).unwrap_or_default())
}

fn workspace(root: &Path) -> Result<Dependencies> {
    let read = |path: &str| {
        let file = root.join(path).join("Cargo.toml");
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let manifest = read("")?;
    let names = names_of_packages(&manifest);
    let mut folders: Vec<_> = SINGLE.map(str::to_owned).into();
    for container in CONTAINERS {
        let context = || format!("cannot list {container}");
        for entry in fs::read_dir(root.join(container)).with_context(context)? {
            let entry = entry.with_context(context)?;
            if entry.path().join("Cargo.toml").is_file() {
                folders.push(format!("{container}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    let of = |folder: String| {
        let is_test = folder.starts_with("tests/");
        let manifest = read(&folder)?;
        let direct = direct(&manifest, is_test).filter_map(|package| names.get(package).cloned());
        Ok((name(&folder).to_owned(), direct.collect()))
    };
    folders.into_iter().map(of).collect()
}

/// The name of a crate in the list.
fn name(folder: &str) -> &str {
    folder.strip_prefix("shared/").unwrap_or(folder)
}

/// The crate that each dependency of the workspace is.
fn names_of_packages(manifest: &str) -> BTreeMap<&str, String> {
    let entry = |line| {
        let (package, value): (&str, &str) = split(line)?;
        let (_, path) = value.split_once("path = \"")?;
        Some((package, name(path.split('"').next()?).to_owned()))
    };
    manifest.lines().filter_map(entry).collect()
}

/// The dependencies of a crate. Those of the tests of a crate do not count, unless the crate consists of tests.
fn direct(manifest: &str, is_test: bool) -> impl Iterator<Item = &str> {
    let mut counts = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            counts = line == "[dependencies]" || (is_test && line == "[dev-dependencies]");
        }
        let (package, _) = split(line).filter(|_| counts)?;
        package.split('.').next()
    })
}

fn split(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    Some((key.trim(), value))
}

/// An entry of the list.
struct Entry<'p> {
    line: (usize, &'p str),
    name: &'p str,
    listed: BTreeSet<&'p str>,
}

/// The entries of the list, in its order.
fn entries(page: &Page) -> Vec<Entry<'_>> {
    let mut is_list = false;
    let mut entries = Vec::new();
    for line in page.prose() {
        if line.1.starts_with('#') {
            is_list = line.1 == LIST;
        }
        // Arrows are the order of modules.
        let is_entry = is_list && !line.1.contains('→');
        let Some(mut rest) = line.1.strip_prefix("    ").filter(|_| is_entry) else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '/';
        while let Some(start) = rest.find(is_name) {
            rest = &rest[start..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let brackets = after.strip_prefix(" (").and_then(|after| after.split_once(')'));
            let (listed, after) = brackets.unwrap_or(("", after));
            rest = after;
            // A sentence in the brackets says what it is, if it is no crate.
            if !listed.starts_with("a ") {
                let listed = listed.split(", ").filter(|name| !name.is_empty()).collect();
                entries.push(Entry { line, name, listed });
            }
        }
    }
    entries
}

fn differences(page: &Page, workspace: &Dependencies) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut found = BTreeSet::new();
    for Entry { line, name, listed } in entries(page) {
        let mut report = |message: String| problems.push(problem(page, line, message));
        let Some(direct) = workspace.get(name) else {
            report(format!("{name} is no crate of the workspace"));
            continue;
        };
        if !found.insert(name) {
            report(format!("{name} is listed twice"));
        }
        let mut allowed = BTreeSet::new();
        for listed in listed {
            if !direct.contains(listed) {
                report(format!("{name} does not depend on {listed}"));
            }
            reach(listed, workspace, &mut allowed);
        }
        for missing in direct.iter().filter(|direct| !allowed.contains(&***direct)) {
            report(format!("{name} depends on {missing}: add it to the brackets"));
        }
    }
    let heading = page.lines().find(|(_, text)| *text == LIST).unwrap_or_default();
    let missing = workspace.keys().filter(|name| !found.contains(&***name));
    problems.extend(missing.map(|name| problem(page, heading, format!("{name} is missing in the list"))));
    problems
}

/// Adds a crate and all that it depends on.
fn reach<'w>(name: &'w str, workspace: &'w Dependencies, reached: &mut BTreeSet<&'w str>) {
    if reached.insert(name) {
        for next in workspace.get(name).into_iter().flatten() {
            reach(next, workspace, reached);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: &str) -> Vec<String> {
        let workspace = [
            ("text", vec![]),
            ("core", vec!["text"]),
            ("agent", vec!["core", "text"]),
            ("tests/e2e", vec!["core"]),
        ];
        let workspace = workspace.map(|(name, direct)| {
            let direct = direct.into_iter().map(str::to_owned).collect();
            (name.to_owned(), direct)
        });
        let text = format!("## Modules\n{LIST}\n\nText.\n\n{list}\n\n## Next\n    other (text)\n");
        let problems = differences(&Page::new(ARCHITECTURE, text), &workspace.into());
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_list_has_each_crate_and_its_dependencies() {
        let list = "    text\n    core (text)          agent (core)\n    agent/helm (a Go module)\n    tests/e2e (core)\n    text → core";
        assert_eq!(messages(list), [""; 0]);
        let list = "    text (core)\n    core (text), agent (text)\n    agent (core), other";
        assert_eq!(
            messages(list),
            [
                "ARCHITECTURE.md:6: text does not depend on core",
                "ARCHITECTURE.md:7: agent depends on core: add it to the brackets",
                "ARCHITECTURE.md:8: agent is listed twice",
                "ARCHITECTURE.md:8: other is no crate of the workspace",
                "ARCHITECTURE.md:2: tests/e2e is missing in the list",
            ]
        );
    }

    #[test]
    fn dependencies_of_tests_count_in_crates_of_tests_only() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na = { workspace = true }\nb.workspace = true\n\
                        [dev-dependencies]\nc = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(direct(manifest, false).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(direct(manifest, true).collect::<Vec<_>>(), ["a", "b", "c"]);
        let names = names_of_packages(
            "[workspace.dependencies]\ncore-x = { path = \"shared/core\" }\nbed = { path = \"tests/bed\" }\nhttp = \"1\"",
        );
        assert_eq!(
            names,
            [("core-x", "core".to_owned()), ("bed", "tests/bed".to_owned())].into()
        );
    }
}
