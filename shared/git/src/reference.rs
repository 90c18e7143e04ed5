//! Which commit of a repository is meant: a commit itself, the highest tag of a range, a tag, a branch, or the default branch.

use std::fmt;

use bounded_text::{cut, listed};
use masterminds_semver::{Constraint, ConstraintError, Version};
use thiserror::Error;

use crate::{
    ObjectId,
    wire::{ReferenceQuery, References},
};

/// The longest name of a branch or a tag, in bytes.
const MAX_NAME: usize = 255;
/// The longest text in a message, in bytes.
const MAX_SHOWN: usize = 100;
/// How many tags a message names.
const MAX_LISTED: usize = 5;
/// What the full names of tags begin with.
const TAGS: &str = "refs/tags/";

/// The fields of a reference, each empty if it is not set. Of several the first of this order counts, as in Flux: commit, semver, tag, branch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceFields<'a> {
    /// The full name of a commit.
    pub commit: &'a str,
    /// A range of versions.
    pub semver: &'a str,
    /// The name of a tag.
    pub tag: &'a str,
    /// The name of a branch.
    pub branch: &'a str,
}

/// Which commit is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// What the server checks out by default.
    Head,
    /// The newest commit of a branch.
    Branch(String),
    /// That of a tag.
    Tag(String),
    /// That of the tag with the highest version in a range.
    Range {
        /// The range as written.
        text: String,
        /// What it means.
        constraint: Constraint,
    },
    /// This one, whatever happens to branches and tags.
    Commit(ObjectId),
}

/// Why a reference is invalid: the field, its text, and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReferenceError {
    /// The commit is none.
    #[error(
        "{field} {text:?} is not the full name of a commit; use its 40 or 64 hexadecimal digits in lower case (git rev-parse HEAD)"
    )]
    Commit {
        /// The field.
        field: &'static str,
        /// The text, cut.
        text: String,
    },
    /// The range is none.
    #[error("{field}: {source}")]
    Range {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        source: ConstraintError,
    },
    /// The name is none.
    #[error(
        "{field} {text:?} {problem}; use the name that `git branch --remotes` or `git tag` shows, without refs/heads/, refs/tags/ and the remote"
    )]
    Name {
        /// The field.
        field: &'static str,
        /// The text, cut.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A commit, and which reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The full name of the reference; that of the commit if it is named by itself.
    pub name: String,
    /// The commit, or a tag that points to it.
    pub commit: ObjectId,
}

/// Why a repository has no such commit.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectError {
    /// The repository has no commits.
    #[error(
        "the repository has no default branch (HEAD), or no commit yet; push one, or name a branch or a tag in ref"
    )]
    NoHead,
    /// There is no such branch.
    #[error(
        "the repository has no branch {0:?}; correct ref.branch: `git ls-remote --heads` lists those that exist"
    )]
    NoBranch(String),
    /// There is no such tag.
    #[error(
        "the repository has no tag {0:?}; correct ref.tag: `git ls-remote --tags` lists those that exist"
    )]
    NoTag(String),
    /// No tag is in the range.
    #[error(
        "no tag of the repository is a version in the range {range:?}; {tags}; push such a tag, or correct ref.semver"
    )]
    NoMatch {
        /// The range.
        range: String,
        /// Which tags there are.
        tags: String,
    },
}

impl Reference {
    /// What the fields mean. Fields that do not count are not checked.
    ///
    /// # Errors
    /// If the field that counts is invalid.
    pub fn parse(fields: ReferenceFields<'_>) -> Result<Self, ReferenceError> {
        let ReferenceFields {
            commit,
            semver,
            tag,
            branch,
        } = fields;
        if !commit.is_empty() {
            let invalid = || ReferenceError::Commit {
                field: "ref.commit",
                text: cut(commit.to_owned(), MAX_SHOWN),
            };
            ObjectId::from_hex(commit).map(Self::Commit).ok_or_else(invalid)
        } else if !semver.is_empty() {
            let constraint = Constraint::parse(semver).map_err(|source| ReferenceError::Range {
                field: "ref.semver",
                source,
            })?;
            Ok(Self::Range {
                text: semver.to_owned(),
                constraint,
            })
        } else if !tag.is_empty() {
            name("ref.tag", tag).map(Self::Tag)
        } else if !branch.is_empty() {
            name("ref.branch", branch).map(Self::Branch)
        } else {
            Ok(Self::Head)
        }
    }

    /// Which references of the repository are needed; `None` for a commit, which is known.
    pub fn query(&self) -> Option<ReferenceQuery> {
        match self {
            Self::Head => Some(ReferenceQuery::Head),
            Self::Branch(name) => Some(ReferenceQuery::Branch(name.clone())),
            Self::Tag(name) => Some(ReferenceQuery::Tag(name.clone())),
            Self::Range { .. } => Some(ReferenceQuery::Tags),
            Self::Commit(_) => None,
        }
    }

    /// The commit that is meant, of these references.
    ///
    /// # Errors
    /// If there is none.
    pub fn select(&self, references: &References) -> Result<Selected, SelectError> {
        let named = |query: ReferenceQuery| {
            let entry = references.get(&query.prefix())?;
            Some(Selected {
                name: entry.name.clone(),
                commit: entry.commit,
            })
        };
        match self {
            Self::Head => named(ReferenceQuery::Head).ok_or(SelectError::NoHead),
            Self::Branch(name) => {
                named(ReferenceQuery::Branch(name.clone())).ok_or_else(|| SelectError::NoBranch(name.clone()))
            }
            Self::Tag(name) => {
                named(ReferenceQuery::Tag(name.clone())).ok_or_else(|| SelectError::NoTag(name.clone()))
            }
            Self::Range { text, constraint } => highest(text, constraint, references),
            Self::Commit(commit) => Ok(Selected {
                name: commit.to_string(),
                commit: *commit,
            }),
        }
    }
}

/// As it is written in a message.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("the default branch"),
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Range { text, .. } => write!(f, "tags {text}"),
            Self::Commit(commit) => write!(f, "commit {commit}"),
        }
    }
}

/// The tag with the highest version. Of versions that differ in build metadata only, the tag that comes last in the order of texts.
fn highest(range: &str, constraint: &Constraint, references: &References) -> Result<Selected, SelectError> {
    let versions = || {
        references.iter().filter_map(|entry| {
            let version = Version::parse(entry.name.strip_prefix(TAGS)?).ok()?;
            Some((version, entry))
        })
    };
    let matching = versions().filter(|(version, _)| constraint.matches(version));
    let highest = matching.reduce(|best, next| {
        let order = next
            .0
            .precedence(&best.0)
            .then_with(|| next.1.name.cmp(&best.1.name));
        if order.is_gt() { next } else { best }
    });
    match highest {
        Some((_, entry)) => Ok(Selected {
            name: entry.name.clone(),
            commit: entry.commit,
        }),
        None => Err(SelectError::NoMatch {
            range: cut(range.to_owned(), MAX_SHOWN),
            tags: newest(versions().map(|(version, _)| version).collect()),
        }),
    }
}

/// The tags that are versions, for a message.
fn newest(mut versions: Vec<Version>) -> String {
    versions.sort_by(|one, other| other.precedence(one));
    let shown: Vec<_> = versions.iter().map(Version::original).collect();
    match &*shown {
        [] => "none of its tags is a version".to_owned(),
        shown => format!("the newest ones are {}", listed(shown, MAX_LISTED)),
    }
}

/// The name of a branch or a tag, as `git check-ref-format` allows it.
fn name(field: &'static str, text: &str) -> Result<String, ReferenceError> {
    let problem = name_problem(text);
    problem.map_or_else(
        || Ok(text.to_owned()),
        |problem| {
            Err(ReferenceError::Name {
                field,
                text: cut(text.to_owned(), MAX_SHOWN),
                problem,
            })
        },
    )
}

fn name_problem(text: &str) -> Option<&'static str> {
    let is_forbidden = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let has_part = |is: fn(&str) -> bool| text.split('/').any(is);
    let problems = [
        (
            text.len() > MAX_NAME,
            "is too long for the name of a branch or a tag",
        ),
        (text.starts_with("refs/"), "begins with refs/"),
        (
            text.contains(is_forbidden),
            "contains a character that no branch or tag has",
        ),
        (
            text.contains("..") || text.contains("@{") || text == "@",
            "is an expression and not a name",
        ),
        (text.starts_with('-'), "begins with a hyphen"),
        (has_part(str::is_empty), "has a slash too many"),
        (
            has_part(|part| part.starts_with('.') || part.ends_with('.')),
            "has a part that begins or ends with a dot",
        ),
        (
            has_part(|part| part.strip_suffix(".lock").is_some()),
            "ends with .lock",
        ),
    ];
    problems.iter().find(|(is, _)| *is).map(|(_, problem)| *problem)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use helm_index::Unmetered;

    use super::*;
    use crate::{Limits, wire};

    const A: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn references(names: &[&str]) -> References {
        let mut list = String::new();
        for name in names {
            let line = format!("{A} {TAGS}{name}\n");
            write!(list, "{:04x}{line}", line.len() + 4).unwrap();
        }
        list += "0000";
        wire::references(
            list.as_bytes(),
            &ReferenceQuery::Tags,
            Limits::default(),
            &mut Unmetered,
        )
        .unwrap()
    }

    fn parse(fields: ReferenceFields<'_>) -> Result<Reference, String> {
        Reference::parse(fields).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_field_of_the_order_counts() {
        let mut fields = ReferenceFields {
            commit: A,
            semver: "^1",
            tag: "v1",
            branch: "main",
        };
        assert_eq!(parse(fields).unwrap().to_string(), format!("commit {A}"));
        fields.commit = "";
        assert_eq!(parse(fields).unwrap().to_string(), "tags ^1");
        fields.semver = "";
        assert_eq!(parse(fields), Ok(Reference::Tag("v1".to_owned())));
        fields.tag = "";
        assert_eq!(parse(fields), Ok(Reference::Branch("main".to_owned())));
        fields.branch = "";
        assert_eq!(parse(fields), Ok(Reference::Head));
    }

    #[test]
    fn an_invalid_field_is_reported_with_the_fix() {
        let commit = |commit| ReferenceFields {
            commit,
            ..ReferenceFields::default()
        };
        let semver = |semver| ReferenceFields {
            semver,
            ..ReferenceFields::default()
        };
        let branch = |branch| ReferenceFields {
            branch,
            ..ReferenceFields::default()
        };
        for (fields, expected) in [
            (commit("e69de29"), &["ref.commit \"e69de29\"", "40 or 64"][..]),
            (semver("not a range"), &["ref.semver"]),
            (branch("a b"), &["ref.branch \"a b\"", "character"]),
            (branch("refs/heads/main"), &["begins with refs/"]),
            (branch("main^"), &["character"]),
            (branch("a..b"), &["expression"]),
            (branch("-x"), &["hyphen"]),
            (branch("a//b"), &["slash"]),
            (branch("a/"), &["slash"]),
            (branch("a/.b"), &["dot"]),
            (branch("a.lock"), &[".lock"]),
        ] {
            let error = parse(fields).unwrap_err();
            for part in expected {
                assert!(error.contains(part), "{error}");
            }
        }
        assert!(parse(branch("feature/a-b_c.d")).is_ok());
    }

    #[test]
    fn the_highest_tag_of_the_range_is_selected() {
        let all = references(&[
            "v1.0.0",
            "v1.10.0",
            "v1.9.0",
            "v2.0.0-rc.1",
            "latest",
            "1.2",
            "v1.10.0+b",
        ]);
        for (range, expected) in [
            ("^1", Some("refs/tags/v1.10.0+b")),
            ("1.x", Some("refs/tags/v1.10.0+b")),
            ("<1.5", Some("refs/tags/1.2")),
            (">=2.0.0-0", Some("refs/tags/v2.0.0-rc.1")),
            (">=2", None),
        ] {
            let fields = ReferenceFields {
                semver: range,
                ..ReferenceFields::default()
            };
            let selected = parse(fields).unwrap().select(&all);
            assert_eq!(
                selected.ok().map(|selected| selected.name).as_deref(),
                expected,
                "{range}"
            );
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let none = references(&[]);
        let some = references(&["v1.0.0", "v2.0.0"]);
        let range = |semver| {
            parse(ReferenceFields {
                semver,
                ..ReferenceFields::default()
            })
            .unwrap()
        };
        for (reference, references, expected) in [
            (Reference::Head, &none, "no default branch"),
            (Reference::Branch("x".to_owned()), &none, "no branch \"x\""),
            (Reference::Tag("x".to_owned()), &none, "no tag \"x\""),
            (range("^3"), &none, "none of its tags is a version"),
            (range("^3"), &some, "the newest ones are v2.0.0, v1.0.0"),
        ] {
            let error = reference.select(references).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
