//! The life cycle of a HelmChart: what k3s does when Helm fails. It awaits no objects.

use go_formats::duration;
use helmops_api::lifecycle::{ActionPolicy, WaitPolicy};

use crate::create::{
    draft::Draft,
    note::{Gap, Loss},
    objects::{fields::Fields, pauses::MAX_RETRIES, timeout},
};

const BOOTSTRAP: &str = "the agent runs in the network of Pods, so it installs nothing that network or nodes need first, such as a CNI or a cloud controller: leave \
                         such a chart to k3s";
const ABORT: &str = "a HelmOp tries again once an hour after a failure; suspend it to look at one: kubectl helmop suspend NAME";
const CONFLICTS: &str = "an upgrade fails if another manager has set a field; with lifecycle.drift.mode: enabled it overrides such fields";

/// Converts everything that happens around a run of Helm. Settings of the HelmChartConfig override those of the HelmChart.
pub fn convert(spec: &mut Fields<'_>, mut config: Option<&mut Fields<'_>>, draft: &mut Draft) {
    let own = draft.helmop.spec.bundle.options.lifecycle.take();
    let mut lifecycle = own.unwrap_or_default();
    if let Some(config) = config.as_deref_mut() {
        for name in ["serverSide", "forceConflicts"] {
            if config.has(name) {
                spec.drop(name);
            }
        }
    }
    let overriding = config
        .as_deref_mut()
        .and_then(|config| server_side(config, draft));
    let method = server_side(spec, draft).or(overriding);
    let own = spec.text("failurePolicy");
    let retries = spec.number("backOffLimit");
    let policy = match config {
        Some(config) if config.has("failurePolicy") => {
            let text = config.text("failurePolicy").or(own);
            action(config, text.as_deref(), retries, draft)
        }
        _ => action(spec, own.as_deref(), retries, draft),
    };
    let policy = ActionPolicy {
        server_side_apply: method.unwrap_or_default().to_owned(),
        ..policy
    };
    lifecycle.install = Some(policy.clone());
    lifecycle.upgrade = Some(policy);
    lifecycle.wait = Some(WaitPolicy {
        disable: true,
        ..WaitPolicy::default()
    });
    draft.helmop.spec.bundle.options.lifecycle = Some(lifecycle);
    hooks(spec, draft);
    if spec.flag("bootstrap") == Some(true) {
        let gap = Gap::Field(Loss::Bootstrap);
        draft.notes.push(spec.refusal("bootstrap", gap, BOOTSTRAP));
    }
    if let Some(version) = spec.text("helmVersion").filter(|version| version != "v3") {
        let text = format!(
            "k3s does not deploy a chart for Helm {version}, and neither does a HelmOp: remove the field"
        );
        draft.notes.push(spec.refusal("helmVersion", Gap::Valid, text));
    }
}

/// How a failure is treated. The container of the Job is restarted after 10 seconds, then later and later, up to 5 minutes.
fn action(
    fields: &Fields<'_>,
    failure_policy: Option<&str>,
    retries: Option<i64>,
    draft: &mut Draft,
) -> ActionPolicy {
    let mut policy = ActionPolicy {
        retries: retries.unwrap_or(MAX_RETRIES).min(MAX_RETRIES),
        ..ActionPolicy::default()
    };
    match failure_policy {
        None | Some("reinstall") => {
            "uninstall".clone_into(&mut policy.remediation);
            // k3s uninstalls before the next attempt only.
            policy.remediate_last_failure = retries.map(|_| false);
        }
        Some("retry") => {}
        Some("abort") => {
            policy.retries = 0;
            draft.notes.push(fields.note("failurePolicy", ABORT));
        }
        Some(other) => {
            let text = format!("{other:?} is no policy; write abort, reinstall or retry");
            draft
                .notes
                .push(fields.refusal("failurePolicy", Gap::Valid, text));
        }
    }
    policy
}

/// How long hooks may take.
fn hooks(spec: &mut Fields<'_>, draft: &mut Draft) {
    let Some(text) = spec.text("timeout") else { return };
    match duration::parse(&text) {
        Ok(parsed) => {
            let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
            helm.timeout_seconds = timeout::of_hooks(parsed);
        }
        Err(error) => {
            let text = format!("{text:?} is no duration: {error}");
            draft.notes.push(spec.refusal("timeout", Gap::Valid, text));
        }
    }
}

/// How objects are applied, if the fields say it.
fn server_side(fields: &mut Fields<'_>, draft: &mut Draft) -> Option<&'static str> {
    if fields.flag("forceConflicts") == Some(true) {
        draft.notes.push(fields.note("forceConflicts", CONFLICTS));
    }
    match fields.text("serverSide").as_deref() {
        Some("true") => Some("enabled"),
        Some("false") => Some("disabled"),
        _ => None,
    }
}
