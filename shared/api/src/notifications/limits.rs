//! Size limits of Alerts, AlertProviders and Receivers: in their CRDs, and at admission.

use serde_json::Value;

use crate::limits::{self, DURATION, LABEL, Limit, Measure, NAME, URL};

/// Entries of an Alert that select objects. Each is compared with each object that changes.
pub const SOURCES: usize = 64;

/// Labels that an object must have.
pub const MATCH_LABELS: usize = 32;

/// Regular expressions of a list. Each is evaluated for each message.
pub const EXPRESSIONS: usize = 32;

/// Bytes of a regular expression.
pub const EXPRESSION: usize = 512;

/// Entries that are added to the metadata of messages.
pub const METADATA: usize = 32;

/// Bytes of a value of these entries, and of the summary.
pub const METADATA_VALUE: usize = 1_024;

/// Bytes of the name of a sender, and of a channel: what Slack and Discord accept.
pub const SENDER: usize = 80;

/// Events that a Receiver accepts.
pub const EVENTS: usize = 32;

/// Bytes of the name of an event. All Receivers share one Secret.
pub const EVENT: usize = 128;

/// Limits of an Alert.
pub const OF_ALERT: &[Limit] = &[
    ("providerRef.name", Measure::Length, NAME),
    ("eventSources", Measure::Items, SOURCES),
    ("eventSources[].name", Measure::Length, NAME),
    ("eventSources[].namespace", Measure::Length, LABEL),
    ("eventSources[].matchLabels", Measure::Entries, MATCH_LABELS),
    ("inclusionList", Measure::Items, EXPRESSIONS),
    ("inclusionList[]", Measure::Length, EXPRESSION),
    ("exclusionList", Measure::Items, EXPRESSIONS),
    ("exclusionList[]", Measure::Length, EXPRESSION),
    ("eventMetadata", Measure::Entries, METADATA),
    ("summary", Measure::Length, METADATA_VALUE),
    ("grouping.wait", Measure::Length, DURATION),
];

/// Limits of an AlertProvider.
pub const OF_ALERT_PROVIDER: &[Limit] = &[
    ("address", Measure::Length, URL),
    ("channel", Measure::Length, SENDER),
    ("username", Measure::Length, SENDER),
    ("secretRef.name", Measure::Length, NAME),
    ("certSecretRef.name", Measure::Length, NAME),
    ("proxySecretRef.name", Measure::Length, NAME),
    ("timeout", Measure::Length, DURATION),
];

/// Limits of a Receiver.
pub const OF_RECEIVER: &[Limit] = &[
    ("secretRef.name", Measure::Length, NAME),
    ("events", Measure::Items, EVENTS),
    ("events[]", Measure::Length, EVENT),
    ("resources", Measure::Items, SOURCES),
    ("resources[].name", Measure::Length, NAME),
    ("resources[].namespace", Measure::Length, LABEL),
    ("resources[].matchLabels", Measure::Entries, MATCH_LABELS),
];

/// Adds limits of `spec` to the schema of a kind.
pub(crate) fn add_to(schema: &mut Value, of_spec: &[Limit]) {
    let limits = of_spec.iter();
    limits::add(
        schema,
        limits.map(|(path, measure, max)| (format!("spec.{path}"), *measure, *max)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Alert, AlertProvider, Receiver, schema::structural};

    #[test]
    fn the_schemas_have_every_limit() {
        for (mut schema, limits) in [
            (structural::<Alert>(), OF_ALERT),
            (structural::<AlertProvider>(), OF_ALERT_PROVIDER),
            (structural::<Receiver>(), OF_RECEIVER),
        ] {
            add_to(&mut schema, limits);
            for (path, measure, max) in limits {
                let field = limits::field_of(&mut schema, &format!("spec.{path}"));
                let limit = field.and_then(|field| field.get(measure.keyword()).cloned());
                assert_eq!(limit, Some((*max).into()), "{path}");
            }
        }
    }
}
