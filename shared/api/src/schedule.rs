//! The Schedule: the maintenance windows of clusters.

use serde_json::Value;

use super::{
    condition::Condition,
    kind::{TypeMeta, kind},
    limits::{self, DURATION, LABEL, Limit, Measure, NAME, SELECTOR_PARTS, TARGETS},
    metadata::Metadata,
    target::ClusterCriteria,
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

/// Targets of a Schedule. Each is compared with each cluster of its namespace.
const MAX_TARGETS: usize = 256;
/// Bytes of a cron expression: a list of every minute and every year that is worth naming.
const EXPRESSION: usize = 1_024;
/// Names in the status, each of at most 253 bytes: an API server stores at most 1.5 MiB.
pub const MAX_MATCHING: usize = 4_000;
/// The `kind` of a Schedule whose windows allow deployments: the default.
pub const ALLOW: &str = "Allow";
/// The `kind` of a Schedule whose windows forbid deployments.
pub const DENY: &str = "Deny";

/// Limits of a Schedule.
pub const LIMITS: &[Limit] = &[
    ("schedule", Measure::Length, EXPRESSION),
    ("duration", Measure::Length, DURATION),
    ("location", Measure::Length, NAME),
    ("kind", Measure::Length, LABEL),
    ("targets.clusters", Measure::Items, MAX_TARGETS),
    ("targets.clusters[].name", Measure::Length, NAME),
    ("targets.clusters[].clusterName", Measure::Length, NAME),
    ("targets.clusters[].clusterGroup", Measure::Length, NAME),
    (
        "targets.clusters[].clusterSelector.matchLabels",
        Measure::Entries,
        SELECTOR_PARTS,
    ),
    (
        "targets.clusters[].clusterSelector.matchExpressions",
        Measure::Items,
        SELECTOR_PARTS,
    ),
    (
        "targets.clusters[].clusterSelector.matchExpressions[].values",
        Measure::Items,
        TARGETS,
    ),
    (
        "targets.clusters[].clusterGroupSelector.matchLabels",
        Measure::Entries,
        SELECTOR_PARTS,
    ),
    (
        "targets.clusters[].clusterGroupSelector.matchExpressions",
        Measure::Items,
        SELECTOR_PARTS,
    ),
    (
        "targets.clusters[].clusterGroupSelector.matchExpressions[].values",
        Measure::Items,
        TARGETS,
    ),
];

wire! {
    /// A Schedule has windows of time, which begin again and again. The clusters that it selects are changed only in a window of one of
    /// their Schedules, and never in one of a Schedule of kind `Deny`.
    pub struct Schedule: [type_meta: TypeMeta<Schedule>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on. The Schedule selects clusters of this namespace.
        "metadata" => metadata: Metadata,
        /// When the windows are, and for which clusters.
        "spec" => spec: ScheduleSpec,
        /// The observed state.
        "status" => status: ScheduleStatus,
    }
}

kind!(Schedule, "schedules");

wire! {
    /// When the windows are, and for which clusters.
    pub struct ScheduleSpec {
        /// When windows begin: a cron expression of Quartz with the fields second, minute, hour, day of month, month, day of week (1 is
        /// Sunday) and, optionally, year. One of both day fields is `?` or `*`. `0 0 2 ? * MON-FRI` is 02:00 on working days.
        "schedule" => schedule: String,
        /// How long each window is, such as `2h` or `1h30m`: shorter than the time until the next one begins.
        "duration" => duration: String,
        /// The time zone of `schedule`, by its name in the database of IANA, such as `Europe/Berlin`. By default UTC.
        "location" => location: String,
        /// `Allow` (the default): the clusters are changed only in the windows of these Schedules. `Deny`: they are never changed in a
        /// window of this Schedule. Fleet has no such field; its windows allow.
        "kind" => kind: String,
        /// What the Schedule applies to.
        "targets" => targets: ScheduleTargets,
    }
}

wire! {
    /// What a Schedule applies to.
    pub struct ScheduleTargets {
        /// The clusters: each that one of these entries selects.
        "clusters" => clusters: Vec<ScheduleTarget>,
    }
}

wire! {
    /// A set of clusters: each that fulfils every criterion of the entry. Without any, it is empty.
    pub struct ScheduleTarget: [criteria: ClusterCriteria] {
        /// Name of the entry, for people.
        "name" | nullable => name: String,
    }
}

wire! {
    /// The observed state of a Schedule.
    pub struct ScheduleStatus {
        /// Whether there is a window now.
        "active" => active: bool,
        /// When the next window begins.
        "nextStartTime" | nullable => next_start_time: String,
        /// The object's conditions.
        "conditions" | nullable => conditions: Vec<Condition>,
        /// Names of the clusters that are selected; the first 4,000 of them.
        "matchingClusters" | nullable => matching_clusters: Vec<String>,
    }
}

wire! {
    /// What the Schedules of a cluster have decided.
    pub struct ClusterWindow {
        /// Names of the Schedules that select the cluster; the first 16 of them.
        "schedules" => schedules: Vec<String>,
        /// When `activeSchedule` changes the next time: the next window begins, or the current one ends. Empty if it never does, or not
        /// within the next 200 starts and ends of windows.
        "until" => until: String,
    }
}

/// Adds the limits to the schema. A missing field is admitted here, since the message of the webhook names the fix.
pub(crate) fn add_limits(schema: &mut Value) {
    let of_spec = LIMITS.iter();
    limits::add(
        schema,
        of_spec.map(|(path, measure, max)| (format!("spec.{path}"), *measure, *max)),
    );
}
