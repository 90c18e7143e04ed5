//! How releases are installed, upgraded, rolled back, tested, awaited and uninstalled.

use std::time::Duration;

use helmops_api::{
    Lifecycle,
    lifecycle::{ActionPolicy, TestPolicy, WaitPolicy},
};
use helmops_model::validation::{FieldErrors, Path};

use super::{REASON, one_of};
use crate::admit::MAX_HELM_RUN;

/// More retries are no policy: after them it is tried once an hour anyway.
const MAX_RETRIES: i64 = 1_000;

/// The shortest time between attempts and the shortest timeout. Below it the agent would do nothing else.
const MIN_DURATION: Duration = Duration::from_secs(1);

/// The longest one. A failure has to be noticed on the same day.
const MAX_DURATION: Duration = Duration::from_hours(24);

/// The value of `serverSideApply` that excludes `force`.
pub const ENABLED: &str = "enabled";

/// Why `force` is not possible.
const NOT_REPLACED: &str = "the API server merges objects with serverSideApply: enabled, and force replaces them; remove one of them";

/// Checks the values of a block.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, lifecycle: &Lifecycle) {
    let install = path.field("install");
    if let Some(policy) = &lifecycle.install {
        check_action(errors, &install, policy);
        check_install_remediation(errors, &install.field("remediation"), policy);
        check_install_cleanup(errors, &install.field("cleanupOnFail"), policy);
    }
    if let Some(policy) = &lifecycle.upgrade {
        let path = path.field("upgrade");
        check_action(errors, &path, policy);
        let supported = ["none", "rollback", "uninstall"];
        one_of(
            errors,
            &path.field("remediation"),
            &policy.remediation,
            &supported,
        );
    }
    if let Some(policy) = &lifecycle.rollback {
        let path = path.field("rollback");
        check_duration(errors, &path.field("timeout"), policy.timeout.as_deref());
        check_apply(errors, &path, &policy.server_side_apply, policy.force);
    }
    if let Some(policy) = &lifecycle.test {
        check_test(errors, &path.field("test"), policy);
    }
    if let Some(policy) = &lifecycle.uninstall {
        let path = path.field("uninstall");
        check_duration(errors, &path.field("timeout"), policy.timeout.as_deref());
        one_of(
            errors,
            &path.field("deletionPropagation"),
            &policy.deletion_propagation,
            &["background", "foreground", "orphan"],
        );
    }
    if let Some(policy) = &lifecycle.wait {
        check_wait(errors, &path.field("wait"), policy);
    }
}

fn check_action(errors: &mut FieldErrors, path: &Path<'_>, policy: &ActionPolicy) {
    if !(0..=MAX_RETRIES).contains(&policy.retries) {
        let retries = policy.retries;
        let detail = format!(
            "must be from 0 to {MAX_RETRIES}; after the retries it is tried once an hour without end"
        );
        errors.invalid(&path.field("retries"), REASON, &retries.to_string(), detail);
    }
    check_duration(
        errors,
        &path.field("retryInterval"),
        policy.retry_interval.as_deref(),
    );
    one_of(
        errors,
        &path.field("crds"),
        &policy.crds,
        &["Skip", "Create", "CreateReplace"],
    );
    check_duration(errors, &path.field("timeout"), policy.timeout.as_deref());
    check_apply(errors, path, &policy.server_side_apply, policy.force);
}

/// How objects are applied.
fn check_apply(errors: &mut FieldErrors, path: &Path<'_>, server_side: &str, force: Option<bool>) {
    let field = path.field("serverSideApply");
    one_of(errors, &field, server_side, &["auto", "enabled", "disabled"]);
    if server_side == ENABLED && force == Some(true) {
        errors.invalid(&path.field("force"), REASON, "true", NOT_REPLACED);
    }
}

fn check_install_remediation(errors: &mut FieldErrors, path: &Path<'_>, policy: &ActionPolicy) {
    if policy.remediation == "rollback" {
        errors.invalid(
            path,
            REASON,
            "rollback",
            "a failed installation has no earlier revision to roll back to; use uninstall or none, and set rollback in upgrade.remediation",
        );
    } else {
        one_of(errors, path, &policy.remediation, &["none", "uninstall"]);
    }
}

fn check_install_cleanup(errors: &mut FieldErrors, path: &Path<'_>, policy: &ActionPolicy) {
    if policy.cleanup_on_fail {
        let detail = "Helm deletes nothing after a failed installation; use install.remediation: uninstall";
        errors.invalid(path, REASON, "true", detail);
    }
}

fn check_test(errors: &mut FieldErrors, path: &Path<'_>, policy: &TestPolicy) {
    check_duration(errors, &path.field("timeout"), policy.timeout.as_deref());
    let path = path.field("filters");
    for (index, filter) in policy.filters.iter().enumerate() {
        let path = path.index(index);
        let path = path.field("name");
        let mut earlier = policy.filters.iter().take(index);
        if filter.name.is_empty() {
            errors.required(
                &path,
                REASON,
                "name the test: the name of its Pod or Job, as in helm get hooks",
            );
        } else if let Some(other) = earlier.find(|other| other.name == filter.name) {
            let detail = if other.exclude == filter.exclude {
                "an earlier filter has the same name; remove one of them"
            } else {
                "the test is included and excluded; remove one of the filters"
            };
            errors.invalid(&path, REASON, &filter.name, detail);
        }
    }
}

fn check_wait(errors: &mut FieldErrors, path: &Path<'_>, policy: &WaitPolicy) {
    check_duration(errors, &path.field("timeout"), policy.timeout.as_deref());
    if !policy.disable {
        return;
    }
    let detail = "has no effect with wait.disable; remove one of them";
    if let Some(timeout) = &policy.timeout {
        errors.forbidden(&path.field("timeout"), REASON, timeout, detail);
    }
    if !policy.expressions.is_empty() {
        errors.forbidden(&path.field("expressions"), REASON, "", detail);
    }
}

fn check_duration(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>) {
    let Some(text) = text else { return };
    let problem = match go_formats::duration::parse(text) {
        Err(error) => error.to_string(),
        Ok(duration) if duration < MIN_DURATION => "must be at least 1s".to_owned(),
        Ok(duration) if duration > MAX_DURATION => "must be at most 24h".to_owned(),
        Ok(_) => return,
    };
    errors.invalid(
        path,
        REASON,
        text,
        format!("{problem}; use a Go duration such as 30s, 5m or 1h30m"),
    );
}

/// Settings without an effect.
pub fn warnings(path: &str, lifecycle: &Lifecycle) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut add = |field: &str, text: &str| warnings.push(format!("{path}.{field}: {text}"));
    if lifecycle.requests.is_some() {
        add(
            "requests",
            "internal to Bundles and ignored in a HelmOp; use the annotations helmops.fleet.cattle.io/reconcile-requested-at, \
             force-requested-at and reset-requested-at",
        );
    }
    for (field, policy) in [("install", &lifecycle.install), ("upgrade", &lifecycle.upgrade)] {
        let Some(policy) = policy else { continue };
        let remediates = !matches!(&*policy.remediation, "" | "none");
        if policy.remediate_last_failure.is_some() && !remediates {
            add(
                &format!("{field}.remediateLastFailure"),
                "has no effect without remediation; set remediation, or remove it",
            );
        }
        if policy.remediate_last_failure == Some(false) && remediates && policy.retries == 0 {
            add(
                &format!("{field}.remediation"),
                "never happens: without retries the first failure is the last one, and remediateLastFailure is false",
            );
        }
        if policy.retry_interval.is_some() && policy.retries == 0 {
            add(
                &format!("{field}.retryInterval"),
                "has no effect without retries: a failed attempt is repeated once an hour; set retries",
            );
        }
    }
    let timeouts = [
        (
            "install",
            lifecycle.install.as_ref().map(|policy| &policy.timeout),
        ),
        (
            "upgrade",
            lifecycle.upgrade.as_ref().map(|policy| &policy.timeout),
        ),
        (
            "rollback",
            lifecycle.rollback.as_ref().map(|policy| &policy.timeout),
        ),
        (
            "uninstall",
            lifecycle.uninstall.as_ref().map(|policy| &policy.timeout),
        ),
    ];
    for (field, timeout) in timeouts {
        let timeout = timeout.and_then(Option::as_deref).unwrap_or_default();
        if go_formats::duration::parse(timeout).is_ok_and(|timeout| timeout > MAX_HELM_RUN) {
            let hours = MAX_HELM_RUN.as_secs() / 3600;
            add(
                &format!("{field}.timeout"),
                &format!("{timeout} is longer than the agent lets Helm run hooks: {hours}h"),
            );
        }
    }
    if let Some(test) = &lifecycle.test {
        let has_settings = test.ignore_failures || test.timeout.is_some() || !test.filters.is_empty();
        if !test.enable && has_settings {
            add("test", "has no effect, because no tests run; set test.enable");
        }
    }
    if let Some(drift) = &lifecycle.drift
        && drift.mode == "disabled"
        && !drift.ignore.is_empty()
    {
        add("drift.ignore", "has no effect, because drift.mode is disabled");
    }
    let changes_objects = !lifecycle.post_renderers.is_empty() || lifecycle.common_metadata.is_some();
    if !lifecycle.post_render_strategy.is_empty() && !changes_objects {
        add(
            "postRenderStrategy",
            "has no effect without postRenderers and commonMetadata",
        );
    }
    warnings
}
