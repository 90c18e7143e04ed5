//! A HelmOp that is to be created, the objects that it needs, and what the user has to know about both.

use std::collections::BTreeMap;

use go_formats::strvals::Kind;
use helmops_api::HelmOp;
use helmops_core::admit::{ValidHelmOp, nulls, warnings};
use helmops_model::reason::Reason;
use serde_json::{Map, Value, json};

use super::{
    in_git::ChartInGit,
    note::{Gap, Loss, Note, Position, is_followed},
};
use crate::{
    failure::Failure,
    validate::{IN_FILES, metadata},
};

/// The field of a HelmOp with its values.
const VALUES: &str = "spec.helm.values";

/// A HelmOp before it is created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub helmop: HelmOp,
    /// Secrets that it needs, in its namespace.
    pub objects: Vec<Value>,
    /// What could not be converted as it was.
    pub notes: Vec<Note>,
    /// Its chart, if it is in Git and no flag names where it is published.
    pub git: Option<ChartInGit>,
    /// How often the other tool looks for a newer version, and what to do if a HelmOp cannot.
    pub interval: Option<(String, Note)>,
    /// The object that it was converted from.
    pub origin: Option<Origin>,
    /// Where the nulls of its values are, by their paths, such as `.limits.cpu`.
    nulls: BTreeMap<String, Position>,
}

/// An object of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its kind, namespace and name.
    pub title: String,
    /// Where its name is.
    pub position: Option<Position>,
}

impl Draft {
    /// A HelmOp with nothing but a name.
    pub fn named(name: &str) -> Self {
        let mut draft = Self::default();
        draft.helmop.metadata.name = Some(name.to_owned());
        draft
    }

    pub fn name(&self) -> &str {
        self.helmop.metadata.name.as_deref().unwrap_or_default()
    }

    /// Decides what depends on flags, which are set now: where the chart is, what is not missing any more, and whether there is something to
    /// poll.
    pub fn settle(&mut self) {
        if let Some(git) = self.git.take() {
            git.settle(self);
        }
        if let Some(helm) = &self.helmop.spec.bundle.options.helm {
            self.notes.retain(|note| !note.gap.is_filled(helm));
        }
        let Some((interval, note)) = self.interval.take() else {
            return;
        };
        let helm = self.helmop.spec.bundle.options.helm.as_ref();
        if !helm.is_some_and(is_followed) {
            return;
        }
        let mut polled = self.helmop.clone();
        polled.spec.polling_interval.get_or_insert(interval);
        match ValidHelmOp::try_from(&polled) {
            Ok(valid) if valid.polling.is_none() => {}
            Ok(_) => self.helmop = polled,
            Err(errors) => {
                let mut reported = errors.reported().iter();
                if reported.any(|error| error.path == "spec.pollingInterval") {
                    self.notes.push(note);
                }
            }
        }
    }

    /// Why it must not be created: what it lacks, and if that is nothing, what is invalid.
    pub fn refusals(&self, accepted: &[Loss]) -> Vec<Note> {
        let notes = self.notes.iter();
        let mut found: Vec<_> = notes.filter(|note| note.is_refusal(accepted)).cloned().collect();
        // Several objects may have a source in common.
        if let Some(origin) = &self.origin {
            let others = found.iter_mut().filter(|note| note.object != origin.title);
            others.for_each(|note| note.object = format!("{}: {}", origin.title, note.object));
        }
        if let (true, Some(origin), Err(failure)) = (found.is_empty(), &self.origin, self.check()) {
            found.push(origin.note("", failure.message, Gap::Valid));
        }
        found
    }

    /// Remembers where the nulls of values are that become values of the HelmOp. `place` finds a path such as `.limits.cpu`. Later values
    /// override earlier ones.
    pub fn locate_nulls(&mut self, values: &Map<String, Value>, place: impl Fn(&str) -> Option<Position>) {
        let found = nulls::of_values(values).into_iter();
        self.nulls
            .extend(found.filter_map(|path| place(&path).map(|position| (path, position))));
    }

    /// The same for a value that is set as by `--set`.
    pub fn locate_null(&mut self, (name, text, kind): (&str, &str, Kind), position: Option<Position>) {
        if kind == Kind::Typed && text.eq_ignore_ascii_case("null") {
            self.nulls
                .extend(position.map(|position| (format!(".{name}"), position)));
        }
    }

    /// Notes what `kubectl apply` would drop of the HelmOp if it is applied as it is printed.
    pub fn note_nulls(&mut self) {
        let object = match &self.origin {
            Some(origin) => origin.title.clone(),
            None => format!("HelmOp {}", self.name()),
        };
        for path in nulls::nulls(&self.helmop) {
            let place = path.strip_prefix(VALUES);
            self.notes.push(Note {
                object: object.clone(),
                position: place.and_then(|place| self.nulls.get(place).cloned()),
                path,
                text: IN_FILES.to_owned(),
                gap: Gap::None,
            });
        }
    }

    /// The notes, and the warnings that the webhook returns too. `is_one` says that no other HelmOp is created.
    pub fn warnings(&self, is_one: bool) -> Vec<Note> {
        let object = match &self.origin {
            _ if is_one => String::new(),
            Some(origin) => origin.title.clone(),
            None => format!("HelmOp {}", self.name()),
        };
        let of_admission = warnings(&self.helmop).into_iter().map(|text| Note {
            object: object.clone(),
            path: String::new(),
            position: None,
            text,
            gap: Gap::None,
        });
        self.notes.iter().cloned().chain(of_admission).collect()
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

impl Origin {
    /// A note about the object.
    pub fn note(&self, path: &str, text: String, gap: Gap) -> Note {
        Note {
            object: self.title.clone(),
            path: path.to_owned(),
            position: self.position.clone(),
            text,
            gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOptions;

    use super::*;

    fn valid() -> Draft {
        let mut draft = Draft::named("web");
        draft.helmop.metadata.namespace = Some("fleet-default".to_owned());
        draft.helmop.spec.bundle.options.helm = Some(HelmOptions {
            repo: "https://charts.example.com".to_owned(),
            chart: "web".to_owned(),
            ..HelmOptions::default()
        });
        draft
    }

    #[test]
    fn a_name_that_the_api_server_rejects_is_invalid() {
        let check = |name: &str, namespace: &str| {
            let mut draft = valid();
            draft.helmop.metadata.name = Some(name.to_owned());
            draft.helmop.metadata.namespace = Some(namespace.to_owned());
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
    fn what_is_missing_hides_what_is_invalid_because_of_it() {
        let mut draft = valid();
        let origin = Origin {
            title: "HelmRelease shop/web".to_owned(),
            position: None,
        };
        draft.notes = vec![origin.note("spec.interval", "text".to_owned(), Gap::None)];
        draft.origin = Some(origin.clone());
        assert_eq!(draft.refusals(&[]), []);
        draft.helmop.spec.polling_interval = Some("often".to_owned());
        let causes = |draft: &Draft| {
            draft
                .refusals(&[])
                .iter()
                .map(|note| note.gap)
                .collect::<Vec<_>>()
        };
        assert_eq!(causes(&draft), [Gap::Valid]);
        draft.notes.push(origin.note("", "text".to_owned(), Gap::Source));
        assert_eq!(causes(&draft), [Gap::Source]);
    }
}
