//! What the options of a BundleDeployment mean for Helm.

use std::time::Duration;

use helmops_api::{Lifecycle, options::BundleDeploymentOptions};

use super::request::{Apply, DEFAULT_HOOK_TIMEOUT};

/// What the options of a BundleDeployment mean for Helm. `atomic`, `waitForJobs` and the part of `timeoutSeconds` that is about
/// objects are not here: Helm never waits for objects, the agent does.
#[expect(clippy::struct_excessive_bools, reason = "they are options of Fleet")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmSettings {
    /// How an installation applies objects.
    pub install: Apply,
    /// How an upgrade or a rollback applies them.
    pub upgrade: Apply,
    /// Whether an installation takes over objects of others. An upgrade always does.
    pub install_takes_ownership: bool,
    /// Whether an installation creates the namespace.
    pub creates_namespace: bool,
    /// How long each hook may take.
    pub hook_timeout: Duration,
    /// Whether templates may resolve names of hosts.
    pub enables_dns: bool,
    /// Whether values are not checked with the schema of the chart.
    pub skips_schema: bool,
}

impl HelmSettings {
    /// The settings of these options: those of Fleet, except the timeout of hooks. Fleet takes over objects of others with client-side
    /// apply, after which all upgrades are client-side too. With a policy for installations, server-side apply overrides the others.
    pub fn of(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        let none = helmops_api::helm::HelmOptions::default();
        let helm = options.helm.as_ref().unwrap_or(&none);
        let corrects_with_force = options.correct_drift.as_ref().is_some_and(|drift| drift.force);
        let is_forced = helm.force || corrects_with_force;
        let has_policy = lifecycle.is_some_and(|lifecycle| lifecycle.install.is_some());
        let install = match (is_forced, helm.take_ownership) {
            (true, _) => Apply::Replace,
            (false, true) if has_policy => Apply::Override,
            (false, true) => Apply::Client,
            (false, false) => Apply::Server,
        };
        Self {
            install,
            upgrade: if is_forced {
                Apply::Replace
            } else {
                Apply::AsBefore
            },
            install_takes_ownership: helm.take_ownership,
            creates_namespace: options.create_namespace.unwrap_or(true),
            hook_timeout: u64::try_from(helm.timeout_seconds)
                .ok()
                .filter(|seconds| *seconds > 0)
                .map_or(DEFAULT_HOOK_TIMEOUT, Duration::from_secs),
            enables_dns: !helm.disable_dns,
            skips_schema: helm.skip_schema_validation,
        }
    }

    /// The same, overriding other field managers with server-side apply.
    #[must_use]
    pub fn overriding(self) -> Self {
        let overriding = |apply| match apply {
            Apply::Server | Apply::AsBefore => Apply::Override,
            other => other,
        };
        Self {
            install: overriding(self.install),
            upgrade: overriding(self.upgrade),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{helm::HelmOptions, options::CorrectDrift};
    use serde_json::json;

    use super::*;

    fn settings(change: impl Fn(&mut HelmOptions)) -> HelmSettings {
        let mut helm = HelmOptions::default();
        change(&mut helm);
        let options = BundleDeploymentOptions {
            helm: Some(helm),
            ..BundleDeploymentOptions::default()
        };
        HelmSettings::of(&options, None)
    }

    #[test]
    fn defaults_are_those_of_fleet() {
        let expected = HelmSettings {
            install: Apply::Server,
            upgrade: Apply::AsBefore,
            install_takes_ownership: false,
            creates_namespace: true,
            hook_timeout: Duration::from_mins(5),
            enables_dns: true,
            skips_schema: false,
        };
        assert_eq!(
            HelmSettings::of(&BundleDeploymentOptions::default(), None),
            expected
        );
    }

    #[test]
    fn options_select_how_objects_are_applied() {
        let applied = |change: fn(&mut HelmOptions)| {
            let settings = settings(change);
            (
                settings.install,
                settings.upgrade,
                settings.install_takes_ownership,
            )
        };
        assert_eq!(
            applied(|helm| helm.force = true),
            (Apply::Replace, Apply::Replace, false)
        );
        assert_eq!(
            applied(|helm| helm.take_ownership = true),
            (Apply::Client, Apply::AsBefore, true)
        );
        let both = applied(|helm| {
            helm.take_ownership = true;
            helm.force = true;
        });
        assert_eq!(both, (Apply::Replace, Apply::Replace, true));
        let options = BundleDeploymentOptions {
            correct_drift: Some(CorrectDrift {
                force: true,
                ..CorrectDrift::default()
            }),
            ..BundleDeploymentOptions::default()
        };
        assert_eq!(HelmSettings::of(&options, None).upgrade, Apply::Replace);
    }

    #[test]
    fn with_a_policy_for_installations_objects_are_taken_over_with_server_side_apply() {
        let install = |lifecycle: serde_json::Value, helm: &serde_json::Value| {
            let lifecycle: Lifecycle = serde_json::from_value(lifecycle).unwrap();
            let options = serde_json::from_value(json!({ "helm": helm })).unwrap();
            let settings = HelmSettings::of(&options, Some(&lifecycle));
            (settings.install, settings.install_takes_ownership)
        };
        let owner = json!({ "takeOwnership": true });
        for (lifecycle, helm, expected) in [
            (json!({ "install": {} }), &owner, (Apply::Override, true)),
            (json!({ "upgrade": {} }), &owner, (Apply::Client, true)),
            (json!({ "install": {} }), &json!({}), (Apply::Server, false)),
            (
                json!({ "install": {} }),
                &json!({ "takeOwnership": true, "force": true }),
                (Apply::Replace, true),
            ),
        ] {
            assert_eq!(install(lifecycle.clone(), helm), expected, "{lifecycle} {helm}");
        }
    }

    #[test]
    fn what_is_not_applied_by_the_server_overrides_as_it_is() {
        let applied = |change: fn(&mut HelmOptions)| {
            let settings = settings(change).overriding();
            (settings.install, settings.upgrade)
        };
        assert_eq!(applied(|_| ()), (Apply::Override, Apply::Override));
        assert_eq!(
            applied(|helm| helm.take_ownership = true),
            (Apply::Client, Apply::Override)
        );
        assert_eq!(
            applied(|helm| helm.force = true),
            (Apply::Replace, Apply::Replace)
        );
    }

    #[test]
    fn invalid_numbers_are_defaults() {
        for (seconds, timeout) in [(-1, 300), (0, 300), (7, 7)] {
            let settings = settings(|helm| helm.timeout_seconds = seconds);
            assert_eq!(settings.hook_timeout, Duration::from_secs(timeout));
        }
    }
}
