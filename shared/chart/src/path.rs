//! The path of a folder in a repository or bucket.

use std::fmt;

use bounded_text::cut;
use thiserror::Error;

/// The longest path, in bytes.
const MAX_PATH: usize = 512;
/// The longest text in a message, in bytes.
const MAX_SHOWN: usize = 100;

/// The path of a folder in a repository or bucket, without `.`, `..` and slashes at its ends. It is empty for the folder of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChartPath(String);

/// Why a text is no path of a folder.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "path {text:?} {problem}; write the folder of the chart as it is in the repository, such as charts/web, or leave it out for the top"
)]
pub struct ChartPathError {
    /// The text, cut.
    text: String,
    /// What is wrong with it.
    problem: &'static str,
}

impl ChartPath {
    /// Reads a path. It may begin with `./` and end with `/`.
    ///
    /// # Errors
    /// If it leads out of the repository, or has parts that no file has.
    pub fn parse(text: &str) -> Result<Self, ChartPathError> {
        let path = text.strip_prefix("./").unwrap_or(text);
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = if path == "." { "" } else { path };
        let has_part = |part: &str| !path.is_empty() && path.split('/').any(|other| other == part);
        let problems = [
            (text.len() > MAX_PATH, "is too long"),
            (text.starts_with('/'), "is absolute"),
            (
                path.contains(|c: char| bounded_text::is_control(c) || matches!(c, '\n' | '\t')),
                "contains a control character",
            ),
            (path.contains('\\'), "contains a backslash"),
            (has_part(".."), "contains .."),
            (has_part(".") || has_part(""), "contains . or an empty part"),
        ];
        match problems.iter().find(|(is, _)| *is) {
            None => Ok(Self(path.to_owned())),
            Some((_, problem)) => Err(ChartPathError {
                text: cut(text.to_owned(), MAX_SHOWN),
                problem,
            }),
        }
    }

    /// The folder that a path names which is relative to this one; `None` if it leads out of the repository or is no path.
    pub(crate) fn join(&self, relative: &str) -> Option<Self> {
        let mut parts: Vec<_> = self.parts().collect();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        Self::parse(&parts.join("/")).ok()
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The path of something in it.
    pub fn below(&self, name: &str) -> String {
        match &*self.0 {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChartPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            "" => f.write_str("the top of the repository"),
            path => write!(f, "{path:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_repository() {
        for (text, expected) in [
            ("", Ok("")),
            (".", Ok("")),
            ("./", Ok("")),
            ("charts/web", Ok("charts/web")),
            ("./charts/web/", Ok("charts/web")),
            ("/charts", Err("is absolute")),
            ("../charts", Err("contains ..")),
            ("a/../../b", Err("contains ..")),
            ("a//b", Err("empty part")),
            ("a/./b", Err("contains .")),
            ("a\\b", Err("backslash")),
            ("a\u{202e}b", Err("control")),
            ("a\nb", Err("control")),
        ] {
            match (ChartPath::parse(text), expected) {
                (Ok(path), Ok(expected)) => assert_eq!(path.as_str(), expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (other, _) => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_relative_path_is_joined() {
        let base = ChartPath::parse("charts/web").unwrap();
        for (relative, expected) in [
            ("../common", Some("charts/common")),
            ("./charts/sub", Some("charts/web/charts/sub")),
            ("../../lib/", Some("lib")),
            ("../..", Some("")),
            ("../../..", None),
            ("../a\\b", None),
        ] {
            let joined = base.join(relative);
            assert_eq!(joined.as_ref().map(ChartPath::as_str), expected, "{relative}");
        }
    }
}
