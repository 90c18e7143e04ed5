//! A HelmOp that is to be created, the objects that it needs, and what the user has to know about both.

use std::fmt;

use helmops_api::HelmOp;
use helmops_core::{
    admit::{ValidHelmOp, warnings},
    reason::Reason,
};
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    terminal::{Console, style::Style},
    validate::metadata,
};

/// A HelmOp before it is created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The HelmOp.
    pub helmop: HelmOp,
    /// Secrets and ConfigMaps that it needs, in its namespace.
    pub objects: Vec<Value>,
    /// What could not be converted as it was.
    pub notes: Vec<Note>,
}

/// Something that has no equivalent in a HelmOp, or another meaning there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object, such as `HelmRelease shop/web`.
    pub object: String,
    /// Its field, such as `spec.postRenderers`; empty for the whole object.
    pub path: String,
    /// Line and column of the field in the file, from 1.
    pub position: Option<(usize, usize)>,
    /// What it means, and what to do.
    pub text: String,
    /// What is missing because of it.
    pub gap: Gap,
}

/// What a HelmOp lacks that only the user knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Nothing.
    #[default]
    None,
    /// The chart, which flags can name.
    Chart,
    /// Something that only another file has.
    Source,
}

impl Draft {
    /// A HelmOp with nothing but a name.
    pub fn named(name: &str) -> Self {
        let mut draft = Self::default();
        draft.helmop.metadata.name = Some(name.to_owned());
        draft
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.helmop.metadata.name.as_deref().unwrap_or_default()
    }

    /// What is missing that only the user knows.
    pub fn gap(&self) -> Gap {
        let helm = self.helmop.spec.bundle.options.helm.as_ref();
        let has_chart = helm.is_some_and(|helm| !helm.repo.is_empty() || helm.chart.contains("://"));
        let has = |gap| self.notes.iter().any(|note| note.gap == gap);
        if has(Gap::Source) {
            Gap::Source
        } else if has(Gap::Chart) && !has_chart {
            Gap::Chart
        } else {
            Gap::None
        }
    }

    /// Checks the metadata as the API server does, and the HelmOp as the webhook and the controller do.
    ///
    /// # Errors
    /// With all fields that are invalid.
    pub fn check(&self) -> Result<(), Failure> {
        let of_metadata = metadata::check(&self.helmop.metadata);
        let checked = if of_metadata.is_empty() {
            ValidHelmOp::try_from(&self.helmop).map(drop)
        } else {
            Err(of_metadata)
        };
        match checked {
            Ok(()) => Ok(()),
            Err(errors) => {
                let failure = Failure::negative(format!("HelmOp {:?} is invalid: {errors}", self.name()));
                let reason = errors.reason().map(Reason::as_str);
                Err(match reason {
                    Some(reason) => failure.with_hint(format!("kubectl helmop explain {reason}")),
                    None => failure,
                })
            }
        }
    }

    /// All objects, in the order in which they are created.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = self.objects.clone();
        objects.push(json!(self.helmop));
        objects
    }

    /// The names of all objects, as `kubectl` prints them.
    pub fn names(&self) -> Vec<String> {
        let of = |object: &Value| {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let kind = text("/kind").to_lowercase();
            let name = text("/metadata/name");
            match text("/apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        };
        self.objects().iter().map(of).collect()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object)?;
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        if let Some((line, column)) = self.position {
            write!(f, " (line {line}, column {column})")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Writes what the user has to know to standard error: the notes, and the warnings that the webhook returns too.
///
/// # Errors
/// If standard error cannot be written.
pub fn report(draft: &Draft, console: &mut Console<'_>) -> Result<(), Failure> {
    let warning = console.styles.paint(Style::Pending, "warning:");
    let notes = draft.notes.iter().map(ToString::to_string);
    for text in notes.chain(warnings(&draft.helmop)) {
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        writeln!(console.err, "{warning} {text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOptions;

    use super::*;

    #[test]
    fn a_name_that_the_api_server_rejects_is_invalid() {
        let check = |name: &str, namespace: &str| {
            let mut draft = Draft::named(name);
            draft.helmop.metadata.namespace = Some(namespace.to_owned());
            draft.helmop.spec.bundle.options.helm = Some(HelmOptions {
                repo: "https://charts.example.com".to_owned(),
                chart: "web".to_owned(),
                ..HelmOptions::default()
            });
            draft.check().map_err(|failure| failure.message)
        };
        assert_eq!(check("web-1", "fleet-default"), Ok(()));
        for (name, namespace, expected) in [
            ("Web_1", "team", "metadata.name: Invalid value: \"Web_1\""),
            ("web", "Bad NS", "metadata.namespace: Invalid value: \"Bad NS\""),
            ("", "team", "metadata.name: Required value"),
        ] {
            let message = check(name, namespace).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_draft_is_incomplete_until_the_user_has_named_the_chart() {
        let mut draft = Draft::named("web");
        assert_eq!(draft.gap(), Gap::None);
        draft.notes = vec![Note {
            object: "HelmRelease shop/web".to_owned(),
            path: "spec.chart".to_owned(),
            position: None,
            text: "the repository is not in the file".to_owned(),
            gap: Gap::Chart,
        }];
        assert_eq!(draft.gap(), Gap::Chart);
        draft.helmop.spec.bundle.options.helm = Some(HelmOptions {
            repo: "https://charts.example.com".to_owned(),
            ..HelmOptions::default()
        });
        assert_eq!(draft.gap(), Gap::None);
        draft.notes.push(Note {
            gap: Gap::Source,
            ..draft.notes[0].clone()
        });
        assert_eq!(draft.gap(), Gap::Source, "a chart is no Secret");
    }
}
