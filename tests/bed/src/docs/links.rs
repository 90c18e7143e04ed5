//! Links between pages, and from pages to tests.

use std::{collections::HashSet, fs, path::Path};

use super::{Page, Problem, problem};

/// Links to files, headings and tests that do not exist.
pub fn check(pages: &[Page], root: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for page in pages.iter().filter(|page| page.is_markdown()) {
        for line in page.prose() {
            for target in targets(line.1) {
                if let Some(wrong) = wrong(page, target, root, pages) {
                    problems.push(problem(page, line, wrong));
                }
            }
            for (test, file) in tests(line.1) {
                if !has_test(page, test, file, root) {
                    let wrong = format!("link to {file}: it has no function {test}");
                    problems.push(problem(page, line, wrong));
                }
            }
        }
    }
    problems
}

/// The targets of links in a line that lead to this repository.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The tests that a line names, with the files that they are said to be in: ``[`name`](../folder/file.rs)``.
fn tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("[`").skip(1).filter_map(|rest| {
        let (test, rest) = rest.split_once("`](")?;
        let (file, _) = rest.split_once(')')?;
        let is_source = Path::new(file)
            .extension()
            .is_some_and(|extension| extension == "rs");
        is_source.then_some((test, file))
    })
}

fn has_test(page: &Page, test: &str, file: &str, root: &Path) -> bool {
    let path = resolved(&page.path, file).map(|path| root.join(path));
    let source = path.and_then(|path| fs::read_to_string(path).ok());
    source.is_some_and(|source| source.contains(&format!("fn {test}(")))
}

fn wrong(page: &Page, target: &str, root: &Path, pages: &[Page]) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        page.path.clone()
    } else {
        resolved(&page.path, file)?
    };
    let Some(linked) = pages.iter().find(|page| page.is_markdown() && page.path == path) else {
        let exists = root.join(&path).exists();
        return (!exists).then(|| format!("link to {target}: there is no {path}"));
    };
    if heading.is_empty() || anchors(linked).contains(heading) {
        return None;
    }
    Some(format!("link to {target}: {path} has no heading {heading}"))
}

/// A relative path from a page, as a path in the repository.
fn resolved(page: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &Page) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for (_, line) in page.prose() {
        let Some(heading) = line.strip_prefix('#') else {
            continue;
        };
        let anchor = anchor(heading.trim_start_matches('#').trim());
        let mut unique = anchor.clone();
        let mut number = 0;
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_headings_must_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = "[a](../README.md) [b](#a-heading) [c](missing.md)\n[d](#another) [e](https://example.com/x)\n\
                    ```\n[f](in-code.md)\n```\n## A `heading`!\n";
        let problems = check(&[Page::new("docs/a.md", text)], &root);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "docs/a.md:1: link to missing.md: there is no docs/missing.md",
                "docs/a.md:2: link to #another: docs/a.md has no heading another",
            ]
        );
    }

    #[test]
    fn tests_must_exist_in_their_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = "../tests/bed/src/docs/links.rs";
        let text =
            format!("[`tests_must_exist_in_their_file`]({file}), [`another`]({file}) [links]({file})\n");
        let problems = check(&[Page::new("docs/a.md", text)], &root);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            ["docs/a.md:1: link to ../tests/bed/src/docs/links.rs: it has no function another"]
        );
    }

    #[test]
    fn headings_of_the_same_name_are_numbered() {
        let anchors = anchors(&Page::new("a.md", "# The API\n## The API\n"));
        assert!(anchors.contains("the-api") && anchors.contains("the-api-1"));
    }
}
