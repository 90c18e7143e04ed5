//! Counts the removals that are refused.

use prometheus::{IntGaugeVec, Registry};

use super::Refusal;
use crate::metrics::gauges;

/// Metrics of removals.
#[derive(Clone, Debug)]
pub struct RemovalMetrics {
    refused: IntGaugeVec,
}

impl RemovalMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let refused = gauges(
            registry,
            "helmops_agent_removals_refused",
            "BundleDeployments that are gone, and whose releases are not removed, by reason: it is not certain that they were deleted.",
            "reason",
        )?;
        for refusal in Refusal::ALL {
            refused.with_label_values(&[refusal.as_str()]);
        }
        Ok(Self { refused })
    }

    /// Counts a change of what is refused for a BundleDeployment. Returns whether it is the first one with this reason.
    pub fn changed(&self, before: Option<Refusal>, after: Option<Refusal>) -> bool {
        if before == after {
            return false;
        }
        let gauge = |refusal: Refusal| self.refused.with_label_values(&[refusal.as_str()]);
        if let Some(before) = before {
            gauge(before).dec();
        }
        after.is_some_and(|after| {
            gauge(after).inc();
            gauge(after).get() == 1
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn removals_that_are_refused_are_counted_by_reason_until_they_are_not() {
        let registry = Registry::new();
        let metrics = RemovalMetrics::register(&registry).unwrap();
        let (restored, other) = (Some(Refusal::Restored), Some(Refusal::OtherNamespace));
        assert!(metrics.changed(None, restored));
        assert!(!metrics.changed(restored, restored) && !metrics.changed(None, restored));
        let has = |reason: &str, number: u8| {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            let line = format!("helmops_agent_removals_refused{{reason=\"{reason}\"}} {number}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        };
        has("restored", 2);
        assert!(metrics.changed(restored, other));
        assert!(!metrics.changed(restored, None) && !metrics.changed(other, None));
        for reason in Refusal::ALL.map(Refusal::as_str) {
            has(reason, 0);
        }
    }
}
