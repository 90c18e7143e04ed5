//! Events about a HelmOp and what is made from it, each once.

use std::collections::BTreeMap;

use helmops_api::{BundleDeployment, Decoded, kind::GROUP};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde::Serialize;

use super::{clusters::name, times::relative};
use crate::terminal::{
    style::Style,
    table::{Cell, Table},
};

/// An Event, with its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventReport {
    /// The object, such as `HelmOp/web`, or with its namespace for a BundleDeployment.
    pub object: String,
    /// `Normal` or `Warning`.
    pub r#type: String,
    /// Why it was written.
    pub reason: String,
    /// What happened.
    pub message: String,
    pub count: i64,
    /// When it happened first.
    pub first: String,
    /// When it happened last.
    pub last: String,
    /// What wrote it.
    pub source: String,
}

/// The objects whose Events are wanted.
#[derive(Clone, Debug, Default)]
pub struct Subjects {
    namespace: String,
    name: String,
    /// Namespace and name of the BundleDeployments.
    deployments: Vec<String>,
}

impl Subjects {
    /// A HelmOp, its Bundle of the same name, and its BundleDeployments.
    pub fn new(namespace: &str, helmop: &str, deployments: &[Decoded<BundleDeployment>]) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: helmop.to_owned(),
            deployments: deployments.iter().map(name).collect(),
        }
    }

    /// The object of an Event, if it is one of these.
    fn object(&self, event: &Event) -> Option<String> {
        let regarding = event.regarding.as_ref()?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let group = text(&regarding.api_version);
        let (kind, name) = (text(&regarding.kind), text(&regarding.name));
        let namespace = text(&regarding.namespace);
        if group.split('/').next() != Some(GROUP) {
            return None;
        }
        match &*kind {
            "HelmOp" | "Bundle" => {
                ((&namespace, &name) == (&self.namespace, &self.name)).then(|| format!("{kind}/{name}"))
            }
            "BundleDeployment" => {
                let name = format!("{namespace}/{name}");
                self.deployments.contains(&name).then(|| format!("{kind}/{name}"))
            }
            _ => None,
        }
    }
}

/// The Events of these objects, the newest last. Equal ones are counted.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn log<'e>(events: impl IntoIterator<Item = &'e Event>, subjects: &Subjects) -> Vec<EventReport> {
    let mut unique: BTreeMap<[String; 4], EventReport> = BTreeMap::new();
    for event in events {
        let Some(object) = subjects.object(event) else {
            continue;
        };
        let report = EventReport::of(event, object);
        let key = [&report.object, &report.r#type, &report.reason, &report.message].map(Clone::clone);
        match unique.get_mut(&key) {
            Some(known) => known.merge(report),
            None => {
                unique.insert(key, report);
            }
        }
    }
    let mut log: Vec<_> = unique.into_values().collect();
    log.sort_by(|one, other| (&one.last, &one.object).cmp(&(&other.last, &other.object)));
    log
}

impl EventReport {
    fn of(event: &Event, object: String) -> Self {
        let seconds = |time: Timestamp| helmops_api::timestamp::timestamp(time);
        let created = event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| seconds(time.0));
        let at = event.event_time.as_ref().map(|time| seconds(time.0));
        let old_first = event
            .deprecated_first_timestamp
            .as_ref()
            .map(|time| seconds(time.0));
        let old_last = event
            .deprecated_last_timestamp
            .as_ref()
            .map(|time| seconds(time.0));
        let series = event.series.as_ref();
        let repeated = series.map(|series| seconds(series.last_observed_time.0));
        let first = at.or(old_first).or(created).unwrap_or_default();
        let source = event
            .reporting_controller
            .clone()
            .filter(|source| !source.is_empty());
        let old_source = || event.deprecated_source.as_ref()?.component.clone();
        Self {
            object,
            r#type: event.type_.clone().unwrap_or_default(),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.note.clone().unwrap_or_default(),
            count: series
                .map(|series| series.count)
                .or(event.deprecated_count)
                .map_or(1, i64::from)
                .max(1),
            last: repeated.or(old_last).unwrap_or_else(|| first.clone()),
            first,
            source: source.or_else(old_source).unwrap_or_default(),
        }
    }

    /// Whether both say the same of the same object.
    pub fn is_repetition_of(&self, other: &Self) -> bool {
        (&self.object, &self.r#type, &self.reason, &self.message)
            == (&other.object, &other.r#type, &other.reason, &other.message)
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = std::mem::take(&mut self.first).min(other.first);
        self.last = std::mem::take(&mut self.last).max(other.last);
    }
}

pub fn cells(event: &EventReport, now: Timestamp) -> [Cell; 5] {
    let last = relative(&event.last, now);
    let last = if event.count > 1 {
        format!("{last} (x{})", event.count)
    } else {
        last
    };
    let kind = match &*event.r#type {
        "Warning" => Cell::styled(Style::Pending, "Warning"),
        other => Cell::from(other),
    };
    [
        last.into(),
        kind,
        (&*event.reason).into(),
        (&*event.object).into(),
        Cell::or_blank(&*event.message),
    ]
}

pub fn table(events: &[EventReport], now: Timestamp) -> Table {
    let mut table = Table::new(&["LAST", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        table.row(cells(event, now));
    }
    table
}
