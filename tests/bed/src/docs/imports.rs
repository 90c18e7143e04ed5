//! The imports of the sources: no cycles between files, and the order of modules that ARCHITECTURE.md states.
//!
//! Imports are paths that begin with `crate`, `super` or `self`, or with the name of a submodule, in the code without its
//! tests. A path leads to the file of the last module in it, or to the one from which that module exports the item again.
//! An import from a module that contains the file does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{ARCHITECTURE, Page, Problem};

/// Folders without these rules: of tests and of fuzz targets.
const EXEMPT: [&str; 2] = ["fuzz/", "tests/"];

/// The separator of the names of modules in their stated order.
const ARROW: &str = " → ";

/// How often an item is exported again on its way; more would be a cycle.
const MAX_EXPORTS: usize = 5;

/// The names of a module and of those that contain it, from the root of its crate.
type ModulePath = Vec<String>;

/// The modules of a crate.
type Modules = BTreeMap<ModulePath, Module>;

/// The imported modules of each module, with the line of the import.
type Imports = BTreeMap<ModulePath, BTreeMap<ModulePath, usize>>;

/// Lines of a source with their number.
type Lines<'a> = Vec<(usize, &'a str)>;

/// Paths as written, with the line that names them.
type Paths = Vec<(usize, String)>;

/// A module with a file of its own.
#[derive(Debug)]
struct Module {
    file: String,
    /// Each path that it names, with its line: those of `use` with their braces expanded.
    uses: Paths,
    /// The paths in the rest of the code.
    mentions: Paths,
}

/// Cycles of imports, and imports against the order of modules.
pub fn check(pages: &[Page], sources: &[Page]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut order = stated_order(pages);
    for root in sources.iter().filter(|page| page.path.ends_with("src/lib.rs")) {
        if EXEMPT.iter().any(|folder| root.path.starts_with(folder)) {
            continue;
        }
        let mut modules = Modules::new();
        load(sources, root, Vec::new(), &mut modules);
        let imports = imports(&modules);
        problems.extend(cycles(&modules, &imports));
        if let Some((_, names)) =
            order.take_if(|(_, names)| names.iter().all(|name| modules.contains_key(&vec![name.clone()])))
        {
            problems.extend(against_order(&names, &modules, &imports));
        }
    }
    problems.extend(order.map(|(line, _)| Problem {
        page: ARCHITECTURE.to_owned(),
        line,
        message: "no crate has all of these modules".to_owned(),
    }));
    problems
}

/// The line of ARCHITECTURE.md that states the order of the modules of the core, and their names.
fn stated_order(pages: &[Page]) -> Option<(usize, Vec<String>)> {
    let page = pages.iter().find(|page| page.path == ARCHITECTURE)?;
    let is_order = |line: &str| {
        line.starts_with("    ")
            && line.contains(ARROW)
            && line
                .trim()
                .split(ARROW)
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let (index, line) = page.lines().find(|(_, line)| is_order(line))?;
    let names = line.trim().split(ARROW).map(str::to_owned).collect();
    Some((index + 1, names))
}

/// Adds the module of a file and its submodules.
fn load(sources: &[Page], file: &Page, path: ModulePath, modules: &mut Modules) {
    let code = without_tests(&file.text);
    let (folder, name) = file.path.rsplit_once('/').unwrap_or_default();
    let folder = match name {
        "lib.rs" | "mod.rs" => folder.to_owned(),
        _ => file.path.trim_end_matches(".rs").to_owned(),
    };
    let mut children = Vec::new();
    for (_, line) in &code {
        let Some(child) = declared_module(line) else {
            continue;
        };
        let files = [format!("{folder}/{child}.rs"), format!("{folder}/{child}/mod.rs")];
        if let Some(file) = sources.iter().find(|page| files.contains(&page.path)) {
            children.push(child.to_owned());
            let path = [&*path, &[child.to_owned()]].concat();
            load(sources, file, path, modules);
        }
    }
    let (uses, rest) = split_uses(&code);
    let mentions = mentions(&rest, &children);
    let file = file.path.clone();
    modules.insert(path, Module { file, uses, mentions });
}

/// The lines of a source without comments and without items for tests.
fn without_tests(text: &str) -> Lines<'_> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = line.len() - line.trim_start().len();
            let closing = format!("{}}}", " ".repeat(indent));
            let mut is_block = false;
            for (_, line) in lines.by_ref() {
                is_block |= line.ends_with('{');
                let is_end_of_block = line.trim_end_matches(';') == closing;
                if is_block && is_end_of_block || !is_block && line.ends_with(';') {
                    break;
                }
            }
            continue;
        }
        let comment = line
            .match_indices("//")
            .map(|(at, _)| at)
            .find(|at| !line.get(..*at).is_some_and(|before| before.ends_with(':')));
        kept.push((index + 1, comment.and_then(|at| line.get(..at)).unwrap_or(line)));
    }
    kept
}

/// The submodule that a line declares.
fn declared_module(line: &str) -> Option<&str> {
    without_visibility(line).strip_prefix("mod ")?.strip_suffix(';')
}

/// A line without `pub` or `pub(crate)` and the like.
fn without_visibility(line: &str) -> &str {
    let line = line.trim();
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest.trim_start(),
        None => rest.trim_start(),
    }
}

/// The paths of all `use` declarations, and the other lines.
fn split_uses<'a>(code: &[(usize, &'a str)]) -> (Paths, Lines<'a>) {
    let (mut uses, mut rest) = (Vec::new(), Vec::new());
    let mut lines = code.iter();
    while let Some(&(number, line)) = lines.next() {
        let Some(start) = without_visibility(line).strip_prefix("use ") else {
            rest.push((number, line));
            continue;
        };
        let mut tree = start.to_owned();
        while !tree.ends_with(';') {
            let Some((_, line)) = lines.next() else { break };
            tree.push_str(line.trim());
        }
        let mut paths = Vec::new();
        expand("", tree.trim_end_matches(';'), &mut paths);
        uses.extend(paths.into_iter().map(|path| (number, path)));
    }
    (uses, rest)
}

/// The paths of a tree of `use`: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let (mut depth, mut start) = (0_usize, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(tree.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(tree.get(start..));
    for part in parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
    {
        match part.split_once('{') {
            Some((head, tail)) => expand(
                &format!("{prefix}{head}"),
                tail.trim_end_matches('}').trim_end(),
                paths,
            ),
            None => paths.push(format!("{prefix}{part}")),
        }
    }
}

/// The paths in other lines that begin with `crate`, `super` or a submodule.
fn mentions(lines: &[(usize, &str)], children: &[String]) -> Paths {
    let mut found = Vec::new();
    for (number, line) in lines {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        for path in line.split(|c| !is_part(c)).filter(|path| path.contains("::")) {
            let first = path.split("::").next().unwrap_or_default();
            if matches!(first, "crate" | "super") || children.iter().any(|child| child == first) {
                found.push((*number, path.to_owned()));
            }
        }
    }
    found
}

fn imports(modules: &Modules) -> Imports {
    let imports_of = |path: &ModulePath, module: &Module| {
        let mut imports = BTreeMap::new();
        for (line, text) in module.uses.iter().chain(&module.mentions) {
            let Some(imported) = resolve(modules, path, text, 0) else {
                continue;
            };
            let contains = path.starts_with(&imported);
            if !contains {
                imports.entry(imported).or_insert(*line);
            }
        }
        imports
    };
    modules
        .iter()
        .map(|(path, module)| (path.clone(), imports_of(path, module)))
        .collect()
}

/// The module that a path in `from` leads to; `None` for other crates.
fn resolve(modules: &Modules, from: &ModulePath, text: &str, depth: usize) -> Option<ModulePath> {
    let text = text.split(" as ").next().unwrap_or(text);
    let mut names = text.split("::").map(str::trim).peekable();
    let mut path = match *names.peek()? {
        "crate" => {
            names.next();
            Vec::new()
        }
        "self" => {
            names.next();
            from.clone()
        }
        "super" => {
            let mut path = from.clone();
            while names.next_if_eq(&"super").is_some() {
                path.pop();
            }
            path
        }
        first => {
            let child = [&**from, &[first.to_owned()]].concat();
            modules.contains_key(&child).then(|| from.clone())?
        }
    };
    while let Some(name) = names.peek() {
        let child = [&*path, &[(*name).to_owned()]].concat();
        if !modules.contains_key(&child) {
            break;
        }
        path = child;
        names.next();
    }
    let is_followed = depth < MAX_EXPORTS && path != *from;
    let Some(item) = names
        .next()
        .filter(|item| is_followed && !matches!(*item, "self" | "*"))
    else {
        return Some(path);
    };
    let exported = modules.get(&path)?.uses.iter().find(|(_, used)| {
        let name = used
            .rsplit_once(" as ")
            .map_or_else(|| used.rsplit("::").next().unwrap_or(used), |(_, alias)| alias);
        name.trim() == item
    });
    let source = exported.and_then(|(_, used)| resolve(modules, &path, used, depth + 1));
    Some(source.unwrap_or(path))
}

/// One problem for each cycle; of cycles with common modules, one.
fn cycles(modules: &Modules, imports: &Imports) -> Vec<Problem> {
    let mut rest: BTreeSet<&ModulePath> = imports.keys().collect();
    let mut problems = Vec::new();
    loop {
        // What remains after all modules without imports are removed imports something that remains.
        while let Some(leaf) = rest
            .iter()
            .copied()
            .find(|path| next(imports, &rest, path).is_none())
        {
            rest.remove(leaf);
        }
        let Some(first) = rest.first().copied() else {
            return problems;
        };
        let mut walk = vec![first];
        let cycle = loop {
            let Some((to, _)) = walk.last().and_then(|last| next(imports, &rest, last)) else {
                return problems;
            };
            if let Some(start) = walk.iter().position(|path| *path == to) {
                break walk.split_off(start);
            }
            walk.push(to);
        };
        let names: Vec<String> = cycle
            .iter()
            .chain(cycle.first())
            .map(|path| path.join("::"))
            .collect();
        let line = cycle
            .first()
            .and_then(|path| next(imports, &rest, path))
            .map_or(1, |(_, line)| line);
        problems.push(Problem {
            page: cycle
                .first()
                .and_then(|path| modules.get(*path))
                .map(|module| module.file.clone())
                .unwrap_or_default(),
            line,
            message: format!("imports form a cycle: {}", names.join(ARROW)),
        });
        for path in cycle {
            rest.remove(path);
        }
    }
}

/// The first import of a module that is in `rest`, and its line.
fn next<'a>(
    imports: &'a Imports,
    rest: &BTreeSet<&ModulePath>,
    path: &ModulePath,
) -> Option<(&'a ModulePath, usize)> {
    let imported = imports.get(path)?.iter();
    imported
        .map(|(to, line)| (to, *line))
        .find(|(to, _)| rest.contains(to))
}

/// Imports of a module that is later in the order, also through a module that is not in it.
fn against_order(order: &[String], modules: &Modules, imports: &Imports) -> Vec<Problem> {
    let position = |name: &String| order.iter().position(|other| other == name);
    let mut problems = Vec::new();
    for (from, imported) in imports {
        for (to, line) in imported {
            let (Some(module), Some(other)) = (from.first(), to.first()) else {
                continue;
            };
            let message = match (position(module), position(other)) {
                (Some(at), Some(of)) if of > at => {
                    format!("{module} imports {other}, which comes after it in the order of {ARCHITECTURE}")
                }
                (None, Some(_)) if is_imported(order, module, imports) => {
                    format!(
                        "{module} imports {other}, and the modules in the order of {ARCHITECTURE} import {module}"
                    )
                }
                _ => continue,
            };
            problems.push(Problem {
                page: modules
                    .get(from)
                    .map(|module| module.file.clone())
                    .unwrap_or_default(),
                line: *line,
                message,
            });
        }
    }
    problems
}

/// Whether one of the ordered modules imports a module.
fn is_imported(order: &[String], module: &str, imports: &Imports) -> bool {
    imports.iter().any(|(from, imported)| {
        from.first().is_some_and(|name| order.contains(name))
            && imported
                .keys()
                .any(|to| to.first().is_some_and(|name| name == module))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<Page> {
        let page = |(path, text): &(&str, &str)| Page::new(format!("a/src/{path}"), *text);
        files.iter().map(page).collect()
    }

    fn messages(order: &str, files: &[(&str, &str)]) -> Vec<String> {
        let pages = [Page::new(ARCHITECTURE, format!("Order:\n\n    {order}\n"))];
        check(&pages, &crate_of(files))
            .into_iter()
            .map(|problem| problem.to_string())
            .collect()
    }

    #[test]
    fn a_cycle_between_files_is_printed() {
        let root = ("lib.rs", "pub mod a;\nmod b;\n");
        let files = [
            root,
            ("a/mod.rs", "//! a\n\nuse crate::b::B;\n"),
            ("b.rs", "//! b\n\nuse crate::{\n    a::{self, C},\n};\n"),
        ];
        assert_eq!(
            messages("a", &files),
            ["a/src/a/mod.rs:3: imports form a cycle: a → b → a"]
        );
        // C is defined in a::c.
        let files = [
            root,
            ("a/mod.rs", "mod c;\npub use self::c::C;\n"),
            ("a/c.rs", "use crate::b;\n"),
            ("b.rs", "fn b(_: crate::a::C) {}\n"),
        ];
        assert_eq!(
            messages("a", &files),
            ["a/src/a/c.rs:1: imports form a cycle: a::c → b → a::c"]
        );
    }

    #[test]
    fn imports_from_a_containing_module_and_those_of_tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub struct Root;\n"),
            (
                "a/mod.rs",
                "mod c;\nmod d;\nuse self::c::C;\npub struct D;\n#[cfg(test)]\nmod tests;\n",
            ),
            ("a/c.rs", "use super::{D, d::E};\nuse crate::Root;\n"),
            (
                "a/d.rs",
                "// use super::c::C;\n#[cfg(test)]\nmod tests {\n    use crate::a::c::C;\n}\n",
            ),
            ("b.rs", "use crate::a;\n#[cfg(test)]\nuse crate::b;\n"),
        ];
        assert_eq!(messages("a", &files), Vec::<String>::new());
    }

    #[test]
    fn imports_follow_the_stated_order() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod text;\n"),
            ("a.rs", "fn a() { crate::b::b() }\n"),
            ("b.rs", "use crate::text;\n"),
            ("text.rs", ""),
        ];
        assert_eq!(
            messages("a → b", &files),
            ["a/src/a.rs:1: a imports b, which comes after it in the order of ARCHITECTURE.md"]
        );
        assert_eq!(messages("b → a", &files), Vec::<String>::new());
        assert_eq!(messages("text → b → a", &files), Vec::<String>::new());
        assert_eq!(
            messages("b → x", &files),
            ["ARCHITECTURE.md:3: no crate has all of these modules"]
        );
    }

    #[test]
    fn an_unordered_module_below_the_order_imports_none_of_it() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod text;\n"),
            ("a.rs", "use crate::text;\n"),
            ("b.rs", ""),
            ("text.rs", "use crate::b;\n"),
        ];
        assert_eq!(
            messages("b → a", &files),
            ["a/src/text.rs:1: text imports b, and the modules in the order of ARCHITECTURE.md import text"]
        );
    }
}
