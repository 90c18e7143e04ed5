//! The files and modules that ARCHITECTURE.md names.
//!
//! A path in backticks must end one of the repository, with or without `src` and `.rs`. In the table of folders, a single
//! name in backticks must be that of a module, a file or a folder below the folder of its row. In the other direction, the rows of a
//! crate name each module that is directly in its sources.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};

use super::{ARCHITECTURE, Page, Problem, problem};

/// The heading above the table of folders.
const TABLE: &str = "## Modules";

/// Names in the table that are those of programs.
const PROGRAMS: [&str; 1] = ["testbed"];

/// Crates whose rows say what their modules have in common: parts of an API or of a language, tools of tests.
const AS_A_WHOLE: [&str; 7] = [
    "fuzz",
    "shared/api",
    "shared/gotmpl",
    "tests/bed",
    "tests/bench",
    "tests/mistakes",
    "tests/parity",
];

/// Modules that are the same in each crate: flags, errors, metrics, the reference pages, tests.
const COMMON: [&str; 7] = ["args", "error", "lib", "main", "metrics", "reference", "tests"];

/// Folders that are not part of the sources.
const OUTPUT: [&str; 2] = ["target", "node_modules"];

/// The components of a path, without `src`, `mod` and `.rs`.
type Components = Vec<String>;

/// Files and modules that do not exist, and modules that are not named.
///
/// # Errors
/// If a folder cannot be listed.
pub fn check(pages: &[Page], root: &Path) -> Result<Vec<Problem>> {
    let mut paths = Vec::new();
    collect(root, &[], &mut paths)?;
    let page = pages.iter().find(|page| page.path == ARCHITECTURE);
    Ok(page
        .map(|page| {
            let unnamed = unnamed(page, |of_crate| modules(root, of_crate));
            [missing(page, &paths), repeated(page), unnamed].concat()
        })
        .unwrap_or_default())
}

/// Rows of tables that are there twice: those of the same folder, and in other tables those with the same first cell.
fn repeated(page: &Page) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut rows, mut found) = (Rows::default(), BTreeSet::new());
    let mut is_table = false;
    for line in page.prose() {
        if line.1.starts_with('#') {
            is_table = line.1 == TABLE;
            found.clear();
        }
        let Some((cell, _)) = line.1.strip_prefix('|').and_then(|row| row.split_once('|')) else {
            continue;
        };
        let keys = if is_table {
            rows.enter(cell)
        } else {
            vec![(0, vec![cell.trim().to_owned()])]
        };
        for key in keys {
            let name = key.1.join("/");
            if !name.is_empty() && !found.insert(key) {
                problems.push(problem(page, line, format!("there are two rows of {name}")));
            }
        }
    }
    problems
}

/// Adds the paths below a folder.
fn collect(folder: &Path, path: &[String], paths: &mut Vec<Components>) -> Result<()> {
    let context = || format!("cannot list {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.file_type().with_context(context)?.is_dir();
        if name.starts_with('.') || (is_folder && OUTPUT.contains(&&*name)) {
            continue;
        }
        let path = [path, &components(&name)].concat();
        if is_folder {
            collect(&entry.path(), &path, paths)?;
        }
        paths.push(path);
    }
    Ok(())
}

fn components(path: &str) -> Components {
    let names = path
        .split('/')
        .map(|name| name.strip_suffix(".rs").unwrap_or(name));
    let names = names.filter(|name| !matches!(*name, "" | "src" | "mod"));
    names.map(str::to_owned).collect()
}

/// Whether the components of a path contain those of a name; `mod.rs` has none.
fn contain(path: &[String], name: &[String]) -> bool {
    name.is_empty() || path.windows(name.len()).any(|part| part == name)
}

/// The lines of a page, and the first cell and the rest of those that are rows of the table of folders.
fn lines(page: &Page) -> impl Iterator<Item = ((usize, &str), Option<(&str, &str)>)> {
    let mut is_table = false;
    page.prose().map(move |line| {
        if line.1.starts_with('#') {
            is_table = line.1 == TABLE;
        }
        let row = line.1.strip_prefix('|').filter(|_| is_table);
        (line, row.and_then(|row| row.split_once('|')))
    })
}

fn missing(page: &Page, paths: &[Components]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut rows = Rows::default();
    for (line, row) in lines(page) {
        let text = row.map_or(line.1, |(folders, text)| {
            rows.enter(folders);
            text
        });
        for name in names(text) {
            let parts = components(name);
            let exists = if parts.len() > 1 || name.contains('.') {
                paths.iter().any(|path| contain(path, &parts))
            } else {
                row.is_none() || PROGRAMS.contains(&name) || rows.have(&parts, paths)
            };
            if !exists {
                problems.push(problem(page, line, format!("there is no {name}")));
            }
        }
    }
    problems
}

/// The modules directly in the sources of a crate; none if there is no such crate.
fn modules(root: &Path, of_crate: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root.join(of_crate).join("src"));
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.flat_map(|name| components(&name)).collect()
}

/// The modules that the rows of their crate do not name.
fn unnamed(page: &Page, modules: impl Fn(&str) -> BTreeSet<String>) -> Vec<Problem> {
    let mut rows = Rows::default();
    let (mut crates, mut described) = (Vec::new(), Vec::new());
    for (line, row) in lines(page) {
        let Some((cell, text)) = row else {
            continue;
        };
        crates.extend(rows.enter(cell).into_iter().map(|(_, path)| (line, path)));
        let named: BTreeSet<_> = names(text).flat_map(components).collect();
        described.push((rows.folders.clone(), named));
    }
    let is_named = |of_crate: &[String], module: &String| {
        described.iter().any(|(folders, named)| {
            let mut below = folders.iter().filter_map(|folder| folder.strip_prefix(of_crate));
            below.any(|below| below.first() == Some(module) || named.contains(module))
        })
    };
    let mut problems = Vec::new();
    for (line, path) in crates {
        let name = path.join("/");
        if AS_A_WHOLE.contains(&&*name) {
            continue;
        }
        for module in modules(&name) {
            if !COMMON.contains(&&*module) && !is_named(&path, &module) {
                let message = format!("the rows of {name} do not name {module}");
                problems.push(problem(page, line, message));
            }
        }
    }
    problems
}

/// The paths, files and modules that a text names in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        let name = name.strip_suffix(".rs").unwrap_or(name);
        let is_word = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '/');
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_word)
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

/// The folders of the current row of the table, and those that contain it.
#[derive(Default)]
struct Rows {
    /// With the number of spaces before each.
    parents: Vec<(usize, Components)>,
    folders: Vec<Components>,
}

impl Rows {
    /// Moves to a row, and returns its folders, with the number of spaces before each. Without folders, it continues the row before it.
    fn enter(&mut self, cell: &str) -> Vec<(usize, Components)> {
        let mut folders = Vec::new();
        for text in cell.split('`').skip(1).step_by(2) {
            let name = text.trim_start();
            let indent = text.len() - name.len();
            self.parents.retain(|(of, _)| *of < indent);
            let parent = self.parents.last().map(|(_, path)| &**path).unwrap_or_default();
            let path = [parent, &components(name)].concat();
            self.parents.push((indent, path.clone()));
            folders.push((indent, path));
        }
        if !folders.is_empty() {
            self.folders = folders.iter().map(|(_, path)| path.clone()).collect();
        }
        folders
    }

    /// Whether a name is that of something below a folder of the row.
    fn have(&self, name: &[String], paths: &[Components]) -> bool {
        let is_below = |path: &Components| {
            let mut below = self
                .folders
                .iter()
                .filter_map(|folder| path.strip_prefix(&**folder));
            below.any(|below| contain(below, name))
        };
        paths.iter().any(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let files = [
            "shared",
            "shared/core/src/chart/mod.rs",
            "shared/core/src/chart/url.rs",
            "certs/src/pair.rs",
        ];
        let paths: Vec<_> = files.iter().map(|path| components(path)).collect();
        let problems = missing(&Page::new(ARCHITECTURE, text), &paths);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_exist() {
        assert_eq!(
            messages(
                "`certs/src/pair.rs`, `chart/url`, `Ready`, `/mutate`\nand `certs/url.rs`, `chart/tags`"
            ),
            [
                "ARCHITECTURE.md:2: there is no certs/url.rs",
                "ARCHITECTURE.md:2: there is no chart/tags"
            ]
        );
    }

    #[test]
    fn the_names_of_a_row_exist_below_its_folder() {
        let table = "## Modules\n| Folder | Content |\n|---|---|\n| `shared/` | crates |\n| `  core/` | `pair` |\n\
                     | `    chart/` | `url`, `Url` |\n| | `tags` |\n| `certs/src` | `pair`, `url` |\n## Next\n`tags`";
        assert_eq!(
            messages(table),
            [
                "ARCHITECTURE.md:5: there is no pair",
                "ARCHITECTURE.md:7: there is no tags",
                "ARCHITECTURE.md:8: there is no url"
            ]
        );
    }

    #[test]
    fn the_modules_of_a_crate_are_named_in_one_of_its_rows() {
        let table = "## Modules\n| Folder | Content |\n|---|---|\n| `shared/` | |\n| `  api/` | types |\n| `  core/` | `url` |\n\
                     | | `pair.rs` |\n| `    chart/` | `tags` |\n| `certs/src` | |\n## Next\n`run`";
        let modules = |of_crate: &str| -> BTreeSet<String> {
            let modules: &[&str] = match of_crate {
                "shared/api" => &["kind"],
                "shared/core" => &["lib", "chart", "url", "pair", "tags", "poll"],
                "certs" => &["main", "args", "run"],
                _ => &[],
            };
            modules.iter().map(|name| (*name).to_owned()).collect()
        };
        let problems = unnamed(&Page::new(ARCHITECTURE, table), modules);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "ARCHITECTURE.md:6: the rows of shared/core do not name poll",
                "ARCHITECTURE.md:9: the rows of certs do not name run"
            ]
        );
    }

    #[test]
    fn a_row_is_there_once() {
        let page = "## Modules\n| Folder | Content |\n|---|---|\n| `shared/` | crates |\n| `  core/` | a |\n| | b |\n| | c |\n\
                    | `  api/` | d |\n| `  core/` | other text |\n| `agent/` | |\n| `  core/` | of another |\n## Next\n\
                    | Field | By |\n| `a` | b |\n| `b` | b |\n| `a` | c |\n## Last\n| `a` | d |";
        let problems = repeated(&Page::new(ARCHITECTURE, page));
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "ARCHITECTURE.md:9: there are two rows of shared/core",
                "ARCHITECTURE.md:16: there are two rows of `a`"
            ]
        );
    }
}
