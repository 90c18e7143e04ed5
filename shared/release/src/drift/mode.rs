//! What is done about drift.

use helmops_api::{bundle_deployment::BundleDeploymentSpec, options::CorrectDrift};

/// What is done about drift: `lifecycle.drift.mode`, or else `correctDrift`.
#[derive(Clone, Debug, PartialEq)]
pub enum DriftMode {
    /// It is neither reported nor corrected.
    Disabled,
    /// It is reported.
    Reported,
    /// It is reported and corrected.
    Corrected(CorrectDrift),
}

impl DriftMode {
    /// The mode of a BundleDeployment.
    pub fn of(spec: &BundleDeploymentSpec) -> Self {
        let correction = spec
            .correct_drift
            .as_ref()
            .or(spec.options.correct_drift.as_ref());
        let correction = correction.cloned().unwrap_or_default();
        let drift = spec
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.drift.as_ref());
        match drift.map(|drift| &*drift.mode) {
            Some("disabled") => Self::Disabled,
            Some("enabled") => Self::Corrected(CorrectDrift {
                enabled: true,
                ..correction
            }),
            Some("warn") => Self::Reported,
            _ if correction.enabled => Self::Corrected(correction),
            _ => Self::Reported,
        }
    }

    /// Whether deployments override fields of other field managers, as corrections do. Only if the life cycle says that drift is
    /// corrected: Fleet reports a conflict.
    pub fn overrides_managers(spec: &BundleDeploymentSpec) -> bool {
        let lifecycle = spec.lifecycle.as_ref();
        let drift = lifecycle.and_then(|lifecycle| lifecycle.drift.as_ref());
        drift.is_some_and(|drift| drift.mode == "enabled")
    }

    /// How it is corrected; `None` if it is not.
    pub fn correction(&self) -> Option<CorrectDrift> {
        match self {
            Self::Corrected(correction) => Some(correction.clone()),
            Self::Disabled | Self::Reported => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mode_of_the_life_cycle_counts_before_that_of_fleet() {
        for (mode, corrects, expected) in [
            (None, None, "reported"),
            (None, Some(false), "reported"),
            (None, Some(true), "corrected"),
            (Some(""), Some(true), "corrected"),
            (Some("warn"), Some(true), "reported"),
            (Some("disabled"), Some(true), "disabled"),
            (Some("enabled"), None, "corrected"),
            (Some("enabled"), Some(false), "corrected"),
        ] {
            let spec = json!({
                "correctDrift": corrects.map(|enabled| json!({ "enabled": enabled, "force": true })),
                "lifecycle": mode.map(|mode| json!({ "drift": { "mode": mode } })),
            });
            let spec = serde_json::from_str(&spec.to_string()).unwrap();
            let found = match DriftMode::of(&spec) {
                DriftMode::Disabled => "disabled",
                DriftMode::Reported => "reported",
                DriftMode::Corrected(correction) => {
                    assert!(correction.enabled && (correction.force || corrects.is_none()));
                    "corrected"
                }
            };
            assert_eq!(found, expected, "{mode:?} {corrects:?}");
        }
    }
}
