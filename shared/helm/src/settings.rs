//! What the options of a BundleDeployment mean for Helm.

use std::time::Duration;

use helmops_api::{
    HelmOptions, Lifecycle,
    lifecycle::{ActionPolicy, RollbackPolicy},
    options::BundleDeploymentOptions,
};
use helmops_release::{lifecycle, record::AttemptAction};

use super::request::DEFAULT_HOOK_TIMEOUT;

/// How objects are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// As in the newest revision; server-side if there is none.
    AsBefore,
    /// With server-side apply. A conflict with another field manager is an error.
    Server,
    /// With server-side apply that overrides other field managers.
    Override,
    /// With patches that the client computes.
    Client,
    /// By replacing the whole object.
    Replace,
}

/// What the options of a BundleDeployment mean for Helm. `atomic`, `waitForJobs` and what timeouts say about objects is not here: Helm
/// never waits for objects, the agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmSettings {
    /// How Helm installs.
    pub install: ActionSettings,
    /// How it upgrades.
    pub upgrade: ActionSettings,
    /// How it restores a revision.
    pub rollback: ActionSettings,
    /// Whether an installation creates the namespace.
    pub creates_namespace: bool,
    /// How long each hook may take, if the action has no time of its own.
    pub hook_timeout: Duration,
    /// Whether templates may resolve names of hosts.
    pub enables_dns: bool,
}

/// How Helm does one kind of action.
#[expect(clippy::struct_excessive_bools, reason = "they are options of Helm")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionSettings {
    /// How objects are applied.
    pub apply: Apply,
    /// Whether objects of others are taken over. A rollback never does.
    pub takes_ownership: bool,
    /// Whether hooks run.
    pub runs_hooks: bool,
    /// How long each hook may take.
    pub hook_timeout: Duration,
    /// Whether values are not checked with the schema of the chart.
    pub skips_schema: bool,
    /// Whether objects are deleted that a failed action has created.
    pub cleans_up: bool,
}

/// Those of an upgrade in Fleet, with a timeout of hooks.
impl Default for ActionSettings {
    fn default() -> Self {
        Self {
            apply: Apply::AsBefore,
            takes_ownership: true,
            runs_hooks: true,
            hook_timeout: DEFAULT_HOOK_TIMEOUT,
            skips_schema: false,
            cleans_up: false,
        }
    }
}

/// What a life cycle says of an action.
#[derive(Default)]
struct OwnSettings<'l> {
    server_side: &'l str,
    force: Option<bool>,
    takes_ownership: Option<bool>,
    disables_hooks: bool,
    timeout: Option<&'l str>,
    skips_schema: Option<bool>,
    cleans_up: bool,
}

impl HelmSettings {
    /// The settings of these options: those of Fleet, except the timeout of hooks, unless the life cycle has others. Fleet takes over
    /// objects of others with client-side apply, after which all upgrades are client-side too. With a policy for installations, server-side
    /// apply overrides the others.
    pub fn of(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        let none = HelmOptions::default();
        let helm = options.helm.as_ref().unwrap_or(&none);
        let corrects_with_force = options.correct_drift.as_ref().is_some_and(|drift| drift.force);
        let of_action = |policy: fn(&Lifecycle) -> Option<&ActionPolicy>| lifecycle.and_then(policy);
        let install_policy = of_action(|lifecycle| lifecycle.install.as_ref());
        let upgrade_policy = of_action(|lifecycle| lifecycle.upgrade.as_ref());
        let fleet = ActionSettings {
            apply: if helm.force || corrects_with_force {
                Apply::Replace
            } else {
                Apply::AsBefore
            },
            hook_timeout: u64::try_from(helm.timeout_seconds)
                .ok()
                .filter(|seconds| *seconds > 0)
                .map_or(DEFAULT_HOOK_TIMEOUT, Duration::from_secs),
            skips_schema: helm.skip_schema_validation,
            ..ActionSettings::default()
        };
        let upgrade = OwnSettings::of(upgrade_policy).over(fleet);
        let rollback = lifecycle.and_then(|lifecycle| lifecycle.rollback.as_ref());
        let mut install = OwnSettings::of(install_policy).over(ActionSettings {
            takes_ownership: helm.take_ownership,
            ..fleet
        });
        if install.apply == Apply::AsBefore {
            install.apply = Apply::Server;
        }
        if install.takes_ownership {
            install.apply = match (install.apply, install_policy) {
                (Apply::Server, Some(_)) => Apply::Override,
                (Apply::Server, None) => Apply::Client,
                (apply, _) => apply,
            };
        }
        Self {
            install,
            upgrade,
            rollback: OwnSettings::of_rollback(rollback).over(ActionSettings {
                runs_hooks: true,
                cleans_up: false,
                ..upgrade
            }),
            creates_namespace: options.create_namespace.unwrap_or(true),
            hook_timeout: fleet.hook_timeout,
            enables_dns: !helm.disable_dns,
        }
    }

    /// The settings of an installation or an upgrade.
    pub const fn for_action(&self, action: AttemptAction) -> &ActionSettings {
        match action {
            AttemptAction::Install => &self.install,
            AttemptAction::Upgrade => &self.upgrade,
        }
    }

    /// The same, overriding other field managers with server-side apply.
    #[must_use]
    pub fn overriding(mut self) -> Self {
        for action in [&mut self.install, &mut self.upgrade, &mut self.rollback] {
            if matches!(action.apply, Apply::Server | Apply::AsBefore) {
                action.apply = Apply::Override;
            }
        }
        self
    }
}

impl<'l> OwnSettings<'l> {
    fn of(policy: Option<&'l ActionPolicy>) -> Self {
        let own = |policy: &'l ActionPolicy| Self {
            server_side: &policy.server_side_apply,
            force: policy.force,
            takes_ownership: policy.take_ownership,
            disables_hooks: policy.disable_hooks,
            timeout: policy.timeout.as_deref(),
            skips_schema: policy.disable_schema_validation,
            cleans_up: policy.cleanup_on_fail,
        };
        policy.map(own).unwrap_or_default()
    }

    fn of_rollback(policy: Option<&'l RollbackPolicy>) -> Self {
        let own = |policy: &'l RollbackPolicy| Self {
            server_side: &policy.server_side_apply,
            force: policy.force,
            disables_hooks: policy.disable_hooks,
            timeout: policy.timeout.as_deref(),
            cleans_up: policy.cleanup_on_fail,
            ..Self::default()
        };
        policy.map(own).unwrap_or_default()
    }

    /// The settings of the action, which has those of `base` where the life cycle says nothing.
    fn over(&self, base: ActionSettings) -> ActionSettings {
        let is_forced = self.force.unwrap_or(base.apply == Apply::Replace);
        let apply = match (self.server_side, is_forced) {
            ("enabled", _) => Apply::Server,
            (_, true) => Apply::Replace,
            ("disabled", false) => Apply::Client,
            ("auto", false) => Apply::AsBefore,
            _ if base.apply == Apply::Replace => Apply::AsBefore,
            _ => base.apply,
        };
        ActionSettings {
            apply,
            takes_ownership: self.takes_ownership.unwrap_or(base.takes_ownership),
            runs_hooks: base.runs_hooks && !self.disables_hooks,
            hook_timeout: lifecycle::time(self.timeout).unwrap_or(base.hook_timeout),
            skips_schema: self.skips_schema.unwrap_or(base.skips_schema),
            cleans_up: self.cleans_up || base.cleans_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{helm::HelmOptions, options::CorrectDrift};
    use serde_json::{Value, json};

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

    fn of(options: &Value, lifecycle: &Value) -> HelmSettings {
        let options = serde_json::from_str(&options.to_string()).unwrap();
        let lifecycle: Lifecycle = serde_json::from_str(&lifecycle.to_string()).unwrap();
        HelmSettings::of(&options, Some(&lifecycle))
    }

    #[test]
    fn defaults_are_those_of_fleet() {
        let upgrade = ActionSettings {
            apply: Apply::AsBefore,
            takes_ownership: true,
            runs_hooks: true,
            hook_timeout: Duration::from_mins(5),
            skips_schema: false,
            cleans_up: false,
        };
        let expected = HelmSettings {
            install: ActionSettings {
                apply: Apply::Server,
                takes_ownership: false,
                ..upgrade
            },
            upgrade,
            rollback: upgrade,
            creates_namespace: true,
            hook_timeout: Duration::from_mins(5),
            enables_dns: true,
        };
        let none = BundleDeploymentOptions::default();
        assert_eq!(HelmSettings::of(&none, None), expected);
        let empty = json!({ "install": {}, "upgrade": {}, "rollback": {} });
        assert_eq!(of(&json!({}), &empty), expected);
    }

    #[test]
    fn each_action_has_options_of_its_own() {
        let own = json!({
            "timeout": "7s", "disableHooks": true, "serverSideApply": "disabled", "disableSchemaValidation": true, "cleanupOnFail": true,
        });
        let changed = |base: ActionSettings| ActionSettings {
            apply: Apply::Client,
            runs_hooks: false,
            hook_timeout: Duration::from_secs(7),
            cleans_up: true,
            ..base
        };
        let plain = of(&json!({}), &json!({}));
        let with_schema = |settings| ActionSettings {
            skips_schema: true,
            ..settings
        };
        let install = of(&json!({}), &json!({ "install": own }));
        assert_eq!(install.install, with_schema(changed(plain.install)));
        assert_eq!(
            (install.upgrade, install.rollback),
            (plain.upgrade, plain.rollback)
        );
        let upgrade = of(&json!({}), &json!({ "upgrade": own }));
        assert_eq!(upgrade.install, plain.install);
        assert_eq!(upgrade.upgrade, with_schema(changed(plain.upgrade)));
        let inherited = ActionSettings {
            runs_hooks: true,
            cleans_up: false,
            ..upgrade.upgrade
        };
        assert_eq!(upgrade.rollback, inherited, "hooks and cleanup are its own");
        let rollback = of(&json!({}), &json!({ "rollback": own }));
        assert_eq!(rollback.rollback, changed(plain.rollback));
        assert_eq!(
            (rollback.install, rollback.upgrade),
            (plain.install, plain.upgrade)
        );
        let helm = json!({ "helm": { "skipSchemaValidation": true, "timeoutSeconds": 90 } });
        let validated = of(&helm, &json!({ "install": { "disableSchemaValidation": false } }));
        assert_eq!(
            (validated.install.skips_schema, validated.upgrade.skips_schema),
            (false, true)
        );
        assert_eq!(validated.rollback.hook_timeout, Duration::from_secs(90));
    }

    #[test]
    fn objects_are_applied_as_the_life_cycle_says() {
        use Apply::{AsBefore, Client, Override, Replace, Server};
        for (helm, policy, install, upgrade) in [
            (json!({}), json!({ "serverSideApply": "enabled" }), Server, Server),
            (
                json!({}),
                json!({ "serverSideApply": "disabled" }),
                Client,
                Client,
            ),
            (json!({}), json!({ "serverSideApply": "auto" }), Server, AsBefore),
            (json!({}), json!({ "force": true }), Replace, Replace),
            (json!({ "force": true }), json!({}), Replace, Replace),
            (
                json!({ "force": true }),
                json!({ "serverSideApply": "auto" }),
                Replace,
                Replace,
            ),
            (
                json!({ "force": true }),
                json!({ "serverSideApply": "disabled" }),
                Replace,
                Replace,
            ),
            (
                json!({ "force": true }),
                json!({ "force": false }),
                Server,
                AsBefore,
            ),
            (
                json!({ "force": true }),
                json!({ "force": false, "serverSideApply": "disabled" }),
                Client,
                Client,
            ),
            (json!({}), json!({ "takeOwnership": true }), Override, AsBefore),
            (
                json!({}),
                json!({ "takeOwnership": true, "serverSideApply": "disabled" }),
                Client,
                Client,
            ),
            (
                json!({ "takeOwnership": true }),
                json!({ "takeOwnership": false }),
                Server,
                AsBefore,
            ),
        ] {
            let settings = of(
                &json!({ "helm": helm }),
                &json!({ "install": policy, "upgrade": policy }),
            );
            let applied = (settings.install.apply, settings.upgrade.apply);
            assert_eq!(applied, (install, upgrade), "{helm} {policy}");
            assert_eq!(settings.rollback.apply, upgrade, "{helm} {policy}");
        }
        // A rollback may be done in another way.
        let lifecycle = json!({ "upgrade": { "force": true }, "rollback": { "serverSideApply": "enabled" } });
        assert_eq!(of(&json!({}), &lifecycle).rollback.apply, Server);
        let lifecycle = json!({ "upgrade": { "serverSideApply": "disabled" }, "rollback": { "serverSideApply": "auto" } });
        assert_eq!(of(&json!({}), &lifecycle).rollback.apply, AsBefore);
    }

    #[test]
    fn options_select_how_objects_are_applied() {
        let applied = |change: fn(&mut HelmOptions)| {
            let settings = settings(change);
            (
                settings.install.apply,
                settings.upgrade.apply,
                settings.install.takes_ownership,
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
        assert_eq!(HelmSettings::of(&options, None).upgrade.apply, Apply::Replace);
    }

    #[test]
    fn with_a_policy_for_installations_objects_are_taken_over_with_server_side_apply() {
        let install = |lifecycle: &Value, helm: &Value| {
            let settings = of(&json!({ "helm": helm }), lifecycle);
            (settings.install.apply, settings.install.takes_ownership)
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
            assert_eq!(install(&lifecycle, helm), expected, "{lifecycle} {helm}");
        }
    }

    #[test]
    fn what_is_not_applied_by_the_server_overrides_as_it_is() {
        let applied = |change: fn(&mut HelmOptions)| {
            let settings = settings(change).overriding();
            (settings.install.apply, settings.upgrade.apply)
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
