//! Which files are read: those of `-f`, as kubectl finds them.

use std::{
    collections::BTreeSet,
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// Largest file, in bytes: more than an API server accepts in one object, and enough for a list of hundreds.
pub const MAX_FILE: u64 = 128 << 20;
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// How deep folders may nest.
const MAX_DEPTH: usize = 64;

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    File(PathBuf),
    /// A text that is in memory, with the name of its file.
    Text(String, String),
}

impl Input {
    /// The name that reports use.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "<stdin>".to_owned(),
            Self::File(path) => path.strip_prefix(".").unwrap_or(path).display().to_string(),
            Self::Text(name, _) => name.clone(),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// If it cannot be read, is too large, or is not UTF-8.
    pub fn read(&self) -> io::Result<String> {
        let bytes = match self {
            Self::Stdin => bounded(io::stdin().lock())?,
            Self::File(path) => bounded(fs::File::open(path)?)?,
            Self::Text(_, text) => return Ok(text.clone()),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error
                .as_bytes()
                .get(..error.utf8_error().valid_up_to())
                .unwrap_or_default()
                .split(|byte| *byte == b'\n')
                .count();
            invalid(format!("not UTF-8 in line {line}; save the file as UTF-8"))
        })?;
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    }
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(invalid(format!("larger than {} MiB; split it", MAX_FILE >> 20)));
    }
    Ok(bytes)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Which files of a folder are read.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// Whether the folders in folders are read too.
    pub recursive: bool,
    /// Files and folders that are left out.
    pub exclude: Vec<String>,
}

/// The files of the arguments, each once. Those of a folder are sorted.
///
/// # Errors
/// If an argument is no file and no folder, or a folder without YAML and JSON, or if nothing is what an exclusion names.
pub fn find(arguments: &[String], how: &Walk) -> Result<Vec<Input>, Failure> {
    let recursive = how.recursive;
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    let exclude: Result<Vec<_>, Failure> = how
        .exclude
        .iter()
        .map(|path| {
            Path::new(path)
                .canonicalize()
                .map_err(|error| Failure::because(format!("--exclude {path}"), &error))
        })
        .collect();
    let exclude = exclude?;
    for argument in arguments {
        if argument == "-" {
            if !found.contains(&Input::Stdin) {
                found.push(Input::Stdin);
            }
            continue;
        }
        if argument.starts_with("http://") || argument.starts_with("https://") {
            return Err(
                Failure::unable(format!("{argument}: URLs are not read")).with_hint(format!(
                    "use standard input: curl -sSL {argument} | kubectl helmop …, with - in place of the URL"
                )),
            );
        }
        let path = PathBuf::from(argument);
        let about = fs::metadata(&path);
        let about = about.map_err(|error| Failure::because(argument, &error))?;
        if is_excluded(&path, &exclude) {
            continue;
        }
        if !about.is_dir() {
            add(&mut found, &mut known, path);
            continue;
        }
        let before = found.len();
        let mut add = |path| add(&mut found, &mut known, path);
        let mut seen = false;
        walk(&path, recursive, &exclude, 0, &mut |path| {
            seen = true;
            add(path);
        })
        .map_err(|(path, error)| Failure::because(format!("cannot list {}", path.display()), &error))?;
        if found.len() == before && !seen {
            let failure = Failure::unable(format!(
                "{argument}: no file in this folder ends in .yaml, .yml or .json"
            ));
            return Err(if recursive {
                failure
            } else {
                failure.with_hint("read the folders in it with -R")
            });
        }
    }
    Ok(found)
}

/// Adds a file unless it is known: the same file in two arguments would be a duplicate of each of its objects.
fn add(found: &mut Vec<Input>, known: &mut BTreeSet<PathBuf>, path: PathBuf) {
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    if known.insert(real) {
        found.push(Input::File(path));
    }
}

/// Whether a path is one that is excluded, or below it.
fn is_excluded(path: &Path, exclude: &[PathBuf]) -> bool {
    !exclude.is_empty()
        && path
            .canonicalize()
            .is_ok_and(|real| exclude.iter().any(|excluded| real.starts_with(excluded)))
}

/// Calls `add` for the files of a folder. Links to folders are not followed, as by kubectl. Neither are templates of charts: they are no YAML
/// before Helm renders them.
fn walk(
    folder: &Path,
    recursive: bool,
    exclude: &[PathBuf],
    depth: usize,
    add: &mut dyn FnMut(PathBuf),
) -> Result<(), (PathBuf, io::Error)> {
    let fail = |error| (folder.to_owned(), error);
    if depth > MAX_DEPTH {
        return Err(fail(io::Error::other(format!(
            "folders nest more than {MAX_DEPTH} deep"
        ))));
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).map_err(fail)?.collect();
    let mut entries = entries.map_err(fail)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if is_excluded(&path, exclude) {
            continue;
        }
        if entry.file_type().map_err(fail)?.is_dir() {
            let is_of_chart = entry.file_name() == "templates" && folder.join("Chart.yaml").is_file();
            if recursive && !is_of_chart {
                walk(&path, recursive, exclude, depth + 1, add)?;
            }
        } else if path
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
        {
            add(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inputs: &[Input], root: &Path) -> Vec<String> {
        inputs
            .iter()
            .map(|input| match input {
                Input::File(path) => path.strip_prefix(root).unwrap().display().to_string(),
                other => other.name(),
            })
            .collect()
    }

    #[test]
    fn folders_are_read_as_kubectl_reads_them() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("sub")).unwrap();
        for name in ["b.yaml", "a.yml", "c.json", "d.txt", "sub/e.yaml"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let folder = root.path().display().to_string();
        let find = |arguments: &[&str], recursive| {
            let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
            let how = Walk {
                recursive,
                exclude: Vec::new(),
            };
            find(&arguments, &how).map(|found| names(&found, root.path()))
        };
        assert_eq!(find(&[&folder], false).unwrap(), ["a.yml", "b.yaml", "c.json"]);
        assert_eq!(
            find(&[&folder], true).unwrap(),
            ["a.yml", "b.yaml", "c.json", "sub/e.yaml"]
        );
        let text = format!("{folder}/d.txt");
        assert_eq!(find(&[&text, "-", "-"], false).unwrap(), ["d.txt", "<stdin>"]);
        let twice = [&*format!("{folder}/b.yaml"), &folder];
        assert_eq!(find(&twice, false).unwrap(), ["b.yaml", "a.yml", "c.json"]);
        let none = format!("{folder}/none.yaml");
        assert_eq!(find(&[&none], false).unwrap_err().code, 2);
        let url = find(&["https://h/a.yaml"], false).unwrap_err();
        assert!(url.hint.starts_with("use standard input: curl"), "{url:?}");
        fs::create_dir(root.path().join("empty")).unwrap();
        let empty = find(&[&format!("{folder}/empty")], false).unwrap_err();
        assert!(
            empty.message.contains("no file") && empty.hint.contains("-R"),
            "{empty:?}"
        );
    }

    #[test]
    fn templates_of_charts_and_what_is_excluded_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "chart/Chart.yaml",
            "chart/templates/a.yaml",
            "chart/charts/sub/Chart.yaml",
            "chart/charts/sub/templates/b.yaml",
            "templates/c.yaml",
            "deploy/d.yaml",
            "deploy/old/e.yaml",
            "deploy/older.yaml",
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let path = |name: &str| root.path().join(name).display().to_string();
        let find = |arguments: &[&str], exclude: &[&str]| {
            let arguments: Vec<_> = arguments.iter().copied().map(path).collect();
            let how = Walk {
                recursive: true,
                exclude: exclude.iter().copied().map(path).collect(),
            };
            find(&arguments, &how).map(|found| names(&found, root.path()))
        };
        let all = [
            "chart/Chart.yaml",
            "chart/charts/sub/Chart.yaml",
            "deploy/d.yaml",
            "deploy/old/e.yaml",
            "deploy/older.yaml",
            "templates/c.yaml",
        ];
        assert_eq!(find(&[""], &[]).unwrap(), all);
        assert_eq!(
            find(&[""], &["chart", "deploy/old", "templates/c.yaml"]).unwrap(),
            ["deploy/d.yaml", "deploy/older.yaml"]
        );
        // A folder that is named is meant.
        assert_eq!(
            find(&["chart/templates"], &[]).unwrap(),
            ["chart/templates/a.yaml"]
        );
        assert_eq!(
            find(&["deploy/d.yaml", "chart/Chart.yaml"], &["deploy"]).unwrap(),
            ["chart/Chart.yaml"]
        );
        let error = find(&[""], &["none"]).unwrap_err();
        assert!(
            error.message.starts_with("--exclude ") && error.code == 2,
            "{error:?}"
        );
    }

    #[test]
    fn texts_are_utf8_and_lose_their_byte_order_mark() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.yaml");
        fs::write(&file, "\u{feff}a: 1\n").unwrap();
        assert_eq!(Input::File(file.clone()).read().unwrap(), "a: 1\n");
        fs::write(&file, b"a: 1\nb: \xff\n").unwrap();
        let error = Input::File(file).read().unwrap_err();
        assert_eq!(error.to_string(), "not UTF-8 in line 2; save the file as UTF-8");
    }
}
