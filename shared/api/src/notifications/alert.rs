//! The Alert: which objects are reported to an AlertProvider.

use std::collections::BTreeMap;

use super::LocalReference;
use crate::{
    condition::Condition,
    kind::{OWN_GROUP, TypeMeta, kind},
    metadata::Metadata,
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// An Alert sends a message when a HelmOp, a Bundle or a Cluster fails, and another one when it is ready again.
    pub struct Alert: [type_meta: TypeMeta<Alert>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Which objects are reported, and where.
        "spec" => spec: AlertSpec,
        /// The observed state.
        "status" => status: Option<AlertStatus>,
    }
}

kind!(Alert, "alerts", OWN_GROUP);

wire! {
    /// Which objects are reported, and where.
    pub struct AlertSpec {
        /// AlertProvider in the same namespace.
        "providerRef" => provider_ref: LocalReference,
        /// `error`, the default: failures, and their end. `info`: also each version that is ready on all its clusters.
        "eventSeverity" | nullable => event_severity: String,
        /// The objects. One of the entries must select an object.
        "eventSources" => event_sources: Vec<EventSource>,
        /// Regular expressions (Go). If there are any, one of them must match the message.
        "inclusionList" | nullable => inclusion_list: Vec<String>,
        /// Regular expressions (Go). No message is sent if one of them matches it.
        "exclusionList" | nullable => exclusion_list: Vec<String>,
        /// Added to the metadata of each message, such as `cluster: production`.
        "eventMetadata" | nullable => event_metadata: BTreeMap<String, String>,
        /// Added to each message: its impact, or the address of a runbook.
        "summary" | nullable => summary: String,
        /// How messages about many objects become one.
        "grouping" | nullable => grouping: Option<Grouping>,
        /// Send nothing. What happens meanwhile is sent afterwards if it is still true.
        "suspend" => suspend: bool,
    }
}

wire! {
    /// Objects that an Alert reports.
    pub struct EventSource {
        /// `HelmOp`, `Bundle` or `Cluster`.
        "kind" => kind: String,
        /// Name of the object, or `*` for all.
        "name" => name: String,
        /// Namespace of the object: that of the Alert by default. Only Alerts in the namespace of helmops may select objects of other
        /// namespaces, and `*` for all of them.
        "namespace" | nullable => namespace: String,
        /// Labels that the object must have.
        "matchLabels" | nullable => match_labels: BTreeMap<String, String>,
    }
}

wire! {
    /// How messages about many objects become one.
    pub struct Grouping {
        /// How long changes are collected before messages are sent. `5s` by default.
        "wait" | duration => wait: Option<String>,
        /// Maximum number of objects that fail for the same reason within that time with a message each; more of them have one message.
        /// 10 by default, 0 for no maximum. Alertmanager groups alerts itself, and gets each.
        "maxMessages" | nullable => max_messages: Option<i64>,
    }
}

wire! {
    /// The observed state of an Alert.
    pub struct AlertStatus {
        /// The `metadata.generation` that the status is for.
        "observedGeneration" => observed_generation: Option<i64>,
        /// `Ready`: whether messages are delivered.
        "conditions" => conditions: Vec<Condition>,
        /// Number of objects whose failure was reported and that are not ready again.
        "failing" => failing: i64,
        /// Number of messages that were delivered.
        "delivered" => delivered: i64,
        /// When the last message was delivered.
        #[schemars(extend("format" = "date-time"))]
        "lastDelivered" | nullable => last_delivered: String,
        /// Number of messages that wait for their delivery.
        "undelivered" => undelivered: i64,
        /// The first few messages that wait for their delivery.
        "undeliveredMessages" => undelivered_messages: Vec<UndeliveredMessage>,
        /// What was reported about which object. It keeps a restart from repeating messages.
        "reported" => reported: Vec<ReportedObject>,
    }
}

wire! {
    /// A message that waits for its delivery.
    pub struct UndeliveredMessage {
        /// The object: kind, namespace and name, such as `HelmOp/default/podinfo`.
        "object" => object: String,
        /// The reason of the message.
        "reason" => reason: String,
        /// Since when the message waits.
        #[schemars(extend("format" = "date-time"))]
        "since" => since: String,
    }
}

wire! {
    /// What was reported about an object.
    pub struct ReportedObject {
        /// The object: kind, namespace and name, such as `HelmOp/default/podinfo`.
        "object" => object: String,
        /// The reasons of its failure that were reported since it was ready, the newest last. Empty if it is ready.
        "reasons" => reasons: Vec<String>,
        /// The version of its chart then.
        "version" => version: String,
        /// Since when it fails, or is ready.
        #[schemars(extend("format" = "date-time"))]
        "since" => since: String,
        /// What was reported about its chart, such as a newer version outside of the range: the reason, and the beginning of a hash of the
        /// message.
        "notices" => notices: Vec<String>,
    }
}
