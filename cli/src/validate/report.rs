//! The problems of all files.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bounded_text::numbered;
use helmops_core::policy::Policies;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    cycles,
    files::Input,
    kind::Kind,
    locate::locate,
    object, parallel,
    problem::{Problem, Related, Severity, rule},
    review::{self, Checked},
    schema::Finding,
    source::{Region, Source},
};

/// What is wrong in some files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many files were named or found.
    pub files: usize,
    /// How many of them cannot be read.
    pub unreadable: usize,
    /// How many HelmOps are in them.
    pub helmops: usize,
    /// How many HelmOps have no error.
    pub valid: usize,
    /// How many Policies are in them.
    pub policies: usize,
    pub alert_providers: Count,
    pub alerts: Count,
    pub receivers: Count,
    /// Schedules.
    pub schedules: Count,
    /// How many other objects are in them.
    pub skipped: usize,
    /// How many problems are errors.
    pub errors: usize,
    /// How many problems are warnings.
    pub warnings: usize,
    /// The problems, in the order of files and lines.
    pub problems: Vec<Problem>,
}

/// How many objects of a kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All of them.
    pub total: usize,
    /// Those without an error.
    pub valid: usize,
}

/// A problem, and which file and object it belongs to.
struct Entry {
    file: usize,
    object: Option<usize>,
    problem: Problem,
}

impl Report {
    /// The counts in a line.
    pub fn summary(&self) -> String {
        let helmops = Count {
            total: self.helmops,
            valid: self.valid,
        };
        let mut parts: Vec<_> = [
            (Kind::HelmOp, helmops),
            (Kind::AlertProvider, self.alert_providers),
            (Kind::Alert, self.alerts),
            (Kind::Receiver, self.receivers),
            (Kind::Schedule, self.schedules),
        ]
        .into_iter()
        .filter(|(_, count)| count.total > 0)
        .map(|(kind, count)| format!("{} of {} valid", count.valid, kind.count(count.total)))
        .collect();
        if parts.is_empty() {
            parts.push(format!("0 of {} valid", Kind::HelmOp.count(0)));
        }
        if self.policies > 0 {
            parts.push(Kind::Policy.count(self.policies));
        }
        if self.skipped > 0 {
            parts.push(format!("{} skipped", numbered(self.skipped, "other object")));
        }
        format!(
            "{}: {}; {}, {}",
            numbered(self.files, "file"),
            parts.join(", "),
            numbered(self.errors, "error"),
            numbered(self.warnings, "warning")
        )
    }
}

/// A file after the first pass.
struct File {
    objects: Vec<Checked>,
    problems: Vec<Problem>,
    skipped: usize,
    is_unreadable: bool,
}

/// How files are validated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The namespace of the flag.
    pub namespace: Option<&'a str>,
    /// Whether warnings count as errors.
    pub warnings_as_errors: bool,
    /// The time: a Schedule without another window is an error.
    pub now: Timestamp,
}

pub fn validate(inputs: &[Input], options: Options<'_>) -> Report {
    let namespace = options.namespace;
    let files = parallel::map(inputs, |input| read(input, namespace));
    let policies = review::policies(files.iter().flat_map(|file| &file.objects));
    let without = Policies::default();
    let objects: Vec<_> = files
        .iter()
        .enumerate()
        .flat_map(|(index, file)| file.objects.iter().map(move |object| (index, object)))
        .collect();
    let findings = parallel::map(&objects, |(_, object)| {
        let policies = policies.get(&*object.name.0).unwrap_or(&without);
        review::review(object, policies, options.now)
            .iter()
            .map(|finding| problem(&object.object.source, finding, &shown(object)))
            .collect::<Vec<_>>()
    });
    let mut entries = Vec::new();
    for (index, file) in files.iter().enumerate() {
        entries.extend(file.problems.iter().map(|problem| Entry {
            file: index,
            object: None,
            problem: problem.clone(),
        }));
    }
    let repeated = repeated(&objects);
    let cycles = cycles::find(&objects.iter().map(|(_, object)| *object).collect::<Vec<_>>());
    for (index, ((file, object), problems)) in objects.iter().zip(findings).enumerate() {
        let duplicate = repeated.get(&index).cloned();
        let cycle = cycles.get(&index);
        let cycle = cycle.map(|finding| problem(&object.object.source, finding, &shown(object)));
        entries.extend(
            problems
                .into_iter()
                .chain(duplicate)
                .chain(cycle)
                .map(|problem| Entry {
                    file: *file,
                    object: Some(index),
                    problem,
                }),
        );
    }
    entries.sort_by_key(|entry| (entry.file, entry.problem.region));
    if options.warnings_as_errors {
        for entry in &mut entries {
            entry.problem.severity = Severity::Error;
        }
    }
    let denied: BTreeSet<_> = entries
        .iter()
        .filter(|entry| entry.problem.severity == Severity::Error)
        .filter_map(|entry| entry.object)
        .collect();
    let of_kind = |kind| {
        let of_kind = objects.iter().enumerate();
        let of_kind = of_kind.filter(|(_, (_, object))| object.object.kind == kind);
        of_kind.fold(Count::default(), |count, (index, _)| Count {
            total: count.total + 1,
            valid: count.valid + usize::from(!denied.contains(&index)),
        })
    };
    let helmops = of_kind(Kind::HelmOp);
    let of_severity = |severity| {
        entries
            .iter()
            .filter(|entry| entry.problem.severity == severity)
            .count()
    };
    Report {
        files: files.len(),
        unreadable: files.iter().filter(|file| file.is_unreadable).count(),
        helmops: helmops.total,
        valid: helmops.valid,
        policies: of_kind(Kind::Policy).total,
        alert_providers: of_kind(Kind::AlertProvider),
        alerts: of_kind(Kind::Alert),
        receivers: of_kind(Kind::Receiver),
        schedules: of_kind(Kind::Schedule),
        skipped: files.iter().map(|file| file.skipped).sum(),
        errors: of_severity(Severity::Error),
        warnings: of_severity(Severity::Warning),
        problems: entries.into_iter().map(|entry| entry.problem).collect(),
    }
}

fn read(input: &Input, namespace: Option<&str>) -> File {
    let name = input.name();
    let text = match input.read() {
        Ok(text) => text,
        Err(error) => {
            return File {
                objects: Vec::new(),
                problems: vec![unreadable(name, error.to_string())],
                skipped: 0,
                is_unreadable: true,
            };
        }
    };
    let source = Arc::new(Source::new(name, text));
    let contents = object::read(&source);
    let problems = contents
        .findings
        .iter()
        .map(|finding| problem(&source, finding, ""))
        .collect();
    let objects = contents.objects.into_iter();
    File {
        objects: objects.map(|object| review::check(object, namespace)).collect(),
        problems,
        skipped: contents.skipped,
        is_unreadable: false,
    }
}

fn unreadable(file: String, message: String) -> Problem {
    Problem {
        file,
        region: None,
        severity: Severity::Error,
        reason: rule::UNREADABLE,
        object: String::new(),
        field: String::new(),
        message,
        fix: String::new(),
        related: None,
        line: None,
    }
}

/// The object, for messages.
fn shown(object: &Checked) -> String {
    let (namespace, name) = &object.name;
    format!("{} {namespace}/{name}", object.object.kind.as_str())
}

fn problem(source: &Source, finding: &Finding, object: &str) -> Problem {
    let message = if finding.rule == rule::DUPLICATE_KEY {
        "the first one is here"
    } else {
        "it is used here"
    };
    Problem {
        file: source.file.clone(),
        region: Some(source.region(finding.span)),
        severity: finding.severity,
        reason: finding.rule,
        object: object.to_owned(),
        field: finding.path.clone(),
        message: finding.message.clone(),
        fix: finding.fix.clone(),
        related: finding.alias.map(|alias| Related {
            file: source.file.clone(),
            region: source.region(alias),
            message: message.to_owned(),
        }),
        line: Some(source.line(finding.span)),
    }
}

/// The objects that others have the kind, namespace and name of, by their index.
fn repeated(objects: &[(usize, &Checked)]) -> BTreeMap<usize, Problem> {
    let mut first: BTreeMap<(Kind, &str, &str), (&Source, Region)> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (index, (_, object)) in objects.iter().enumerate() {
        let (namespace, name) = &object.name;
        if name.is_empty() {
            continue;
        }
        let source = &*object.object.source;
        let span = locate(source, &object.object.place, "metadata.name", name).span;
        let key = (object.object.kind, namespace.as_str(), name.as_str());
        let Some((other, region)) = first.get(&key) else {
            first.insert(key, (source, source.region(span)));
            continue;
        };
        let finding = Finding {
            severity: Severity::Error,
            rule: rule::DUPLICATE_OBJECT,
            path: "metadata.name".to_owned(),
            span,
            alias: None,
            message: format!(
                "{} is defined twice; the last one would be applied",
                shown(object)
            ),
            fix: "remove or rename one of them".to_owned(),
        };
        let mut problem = problem(source, &finding, &shown(object));
        problem.related = Some(Related {
            file: other.file.clone(),
            region: *region,
            message: "the first one is here".to_owned(),
        });
        found.insert(index, problem);
    }
    found
}
