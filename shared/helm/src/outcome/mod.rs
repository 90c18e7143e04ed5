//! What a run of Helm has led to.

mod object;
mod reason;
mod redact;
mod response;
mod secret_texts;
mod texts;

use std::fmt;

use bounded_text::printable;
use helmops_model::chart::url::redacted_urls;
use helmops_release::{object::ObjectId, report::ConflictingField};
use kube::core::Status;

pub use self::{
    reason::{Class, FailureReason},
    secret_texts::SecretTexts,
};
use super::{
    child::{CROWDED, End, Output},
    protocol::EngineOutcome,
};

/// With this signal the kernel ends a process of a container that needs more memory than its limit.
const SIGKILL: i32 = 9;
/// Maximum bytes of a message.
pub const MAX_MESSAGE: usize = 4 << 10;
/// The same before what to do, which an Event has to have too.
const MAX_MESSAGE_OF_HOOK: usize = 600;
/// Maximum number of warnings that are kept, and bytes of each.
const MAX_WARNINGS: usize = 20;
const MAX_WARNING: usize = 512;

/// Why a run whose result is of no use any more was ended, or did not start.
pub const SUPERSEDED: &str = "Helm was interrupted because the BundleDeployment was changed or deleted";

/// How Helm names the hooks of an uninstallation that keep it from deleting objects.
const HOOKS: [&str; 2] = ["Hook pre-delete ", "for deleting hook "];
/// What to do about a hook that keeps a release from being uninstalled.
const UNINSTALL: &str = "To uninstall without the hooks, set lifecycle.uninstall.disableHooks.";
/// The same, if the BundleDeployment is gone.
const UNINSTALL_DELETED: &str = "To uninstall without the hooks, deploy the HelmOp to this cluster again as it was, with \
    lifecycle.uninstall.disableHooks: true, wait until it is Ready, and remove it again.";

/// Helm did what was requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Success {
    /// The revision that an installation or upgrade has written.
    pub revision: Option<u64>,
    /// Warnings of the API server, such as `unknown field "spec.x"`: with client-side apply it drops such fields.
    pub warnings: Vec<String>,
    /// The patches of `lifecycle.postRenderers` whose target selects no object.
    pub unmatched_patches: Vec<String>,
    /// The CRDs or objects that were requested, as YAML documents.
    pub printed: String,
}

/// Helm failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: FailureReason,
    /// Helm's text, at most [`MAX_MESSAGE`] bytes.
    pub message: String,
    /// The object that it is about, as far as the error names one.
    pub object: Option<Box<ObjectId>>,
    /// The fields that other managers own, of a conflict.
    pub conflicts: Vec<ConflictingField>,
}

impl Failure {
    /// A failure. Its message is without control characters and the credentials of URLs, whatever wrote it: it goes into conditions,
    /// Events, logs and spans.
    pub fn new(reason: FailureReason, message: impl AsRef<str>) -> Self {
        // Before it is cut: the start of a password does not look like one.
        // First of all: with a control character in it, a URL does not look like one.
        let message = printable(message.as_ref());
        let message = redacted_urls(&message).into_owned();
        Self {
            reason,
            message: bounded_text::cut(message, MAX_MESSAGE),
            object: None,
            conflicts: Vec::new(),
        }
    }

    /// The failure of a text of Helm or of the API server, with the response in it, if there is one.
    pub fn of_text(text: &str, response: Option<&Status>) -> Self {
        Self::without_secrets(text, None, response, &SecretTexts::default())
    }

    /// The same without values of Secrets in its message. `known` is its reason, if `helmops-helm` knows it.
    fn without_secrets(
        text: &str,
        known: Option<FailureReason>,
        response: Option<&Status>,
        secrets: &SecretTexts,
    ) -> Self {
        let reason = known.or_else(|| texts::reason(text));
        let reason = reason.or_else(|| response.map(response::reason));
        let reason = reason.unwrap_or_else(|| texts::reason_without_response(text));
        let object = object::object(text).or_else(|| response::object(response?));
        let message = redact::redacted(&secrets.hide(text), reason, object.as_ref());
        Self {
            conflicts: response.map(response::conflicts).unwrap_or_default(),
            object: object.map(Box::new),
            ..Self::new(reason, message)
        }
    }

    /// What to do. A deletion is suggested for nothing but kinds that have no data of their own: the next attempt creates them again.
    fn fix(&self) -> Option<&'static str> {
        let kind = self.object.as_ref().map_or("", |object| &*object.kind);
        match (self.reason, kind) {
            (FailureReason::FieldImmutable, "Job") => Some(
                "A Job cannot be changed, also not with force. Give it another name with each version, or make it a hook. Or delete this one \
                 once it has ended: the next attempt creates it again.",
            ),
            (
                FailureReason::FieldImmutable,
                "Deployment" | "DaemonSet" | "Service" | "RoleBinding" | "ClusterRoleBinding"
                | "StorageClass",
            ) => Some(
                "Undo the change of this field in the chart or its values, or delete the object: the next attempt creates it again.",
            ),
            _ => self.reason.fix(),
        }
    }

    /// The failure of an uninstallation, with the way out if it is a hook that fails. `is_deleted`: the BundleDeployment is gone, so that
    /// nothing can be changed in it.
    #[must_use]
    pub fn of_uninstallation(mut self, is_deleted: bool) -> Self {
        // One that the API server rejects fails for another reason.
        let is_hook = self.class() == Class::Hook || HOOKS.iter().any(|hook| self.message.contains(hook));
        // Everything is deleted before those, so that the next attempt has nothing to do.
        if is_hook && !self.message.contains("Hook post-delete ") {
            let fix = if is_deleted { UNINSTALL_DELETED } else { UNINSTALL };
            let message = bounded_text::cut(self.message, MAX_MESSAGE_OF_HOOK);
            self.message = format!("{message}\n{fix}");
        }
        self
    }

    /// The same, with the limit that was reached.
    #[must_use]
    pub fn of_memory(mut self, limit: Option<u64>) -> Self {
        if let (FailureReason::OutOfMemory, Some(limit)) = (self.reason, limit) {
            self.message = format!(
                "Helm needs more than {} MiB of memory for this release",
                limit >> 20
            );
        }
        self
    }

    /// Its class.
    pub const fn class(&self) -> Class {
        self.reason.class()
    }

    /// Whether Fleet keeps this failure until there is another deployment ID, with no release in the status.
    pub const fn is_captured(&self) -> bool {
        self.reason.is_captured()
    }
}

/// For people, with the fix of what they can fix.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.fix() {
            Some(fix) => write!(f, "\n{fix}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// The outcome of a run of `helmops-helm`, without values of `secrets`.
pub(super) fn of_engine(output: &Output, secrets: &SecretTexts) -> Result<Success, Failure> {
    let written: Option<EngineOutcome> = serde_json::from_str(&output.stdout).ok();
    let error = match (output.end, written) {
        (
            End::Exited(0),
            Some(EngineOutcome {
                error: None,
                revision,
                warnings: texts,
                unmatched_patches,
                printed,
            }),
        ) => {
            return Ok(Success {
                revision,
                warnings: warnings(&texts),
                unmatched_patches,
                printed,
            });
        }
        (_, written) => written.and_then(|written| written.error),
    };
    Err(match (output.end, error) {
        (End::Exited(_), Some(error)) => match error.reason() {
            Some(FailureReason::OutOfMemory) => out_of_memory(),
            known => Failure::without_secrets(&error.text, known, error.response.as_ref(), secrets),
        },
        (End::Exited(_), None) if texts::is_out_of_memory(&output.stderr) => out_of_memory(),
        (End::Exited(code), None) => unknown(code, &output.stderr, secrets),
        (end, error) => ended(
            end,
            error.as_ref().map(|error| &*error.text),
            &output.stderr,
            secrets,
        ),
    })
}

/// The outcome of a rendering by a person's Helm.
pub(super) fn of_command(output: &Output, secrets: &SecretTexts) -> Result<Success, Failure> {
    let text = texts::error(&output.stderr);
    match output.end {
        End::Exited(0) => Ok(Success::default()),
        End::Exited(code) => Err(match text {
            Some(text) => Failure::without_secrets(text, None, None, secrets),
            None => without_start(code, &last_lines(&secrets.hide(&output.stderr))),
        }),
        end => Err(ended(end, text, &output.stderr, secrets)),
    }
}

/// The failure of a program that has written no outcome: of another one than `helmops-helm`, or of one that has crashed.
fn unknown(code: i32, stderr: &str, secrets: &SecretTexts) -> Failure {
    match texts::error(stderr).or_else(|| texts::unread_request(stderr)) {
        Some(text) => Failure::new(FailureReason::OtherHelm, secrets.hide(text)),
        None => without_start(code, &last_lines(&secrets.hide(stderr))),
    }
}

/// The failure of a run that did not end by itself. `text` is what it says of its end.
fn ended(end: End, text: Option<&str>, stderr: &str, secrets: &SecretTexts) -> Failure {
    match end {
        End::Exited(code) => without_start(code, &last_lines(&secrets.hide(stderr))),
        End::Killed(signal) => {
            let cause = if signal == SIGKILL {
                " (the kernel does this if the memory limit of the agent is too low)"
            } else {
                ""
            };
            let last = last_lines(&secrets.hide(stderr));
            let text = format!("Helm was killed by signal {signal}{cause}: {last}");
            Failure::new(FailureReason::Crashed, text)
        }
        End::Deadline => Failure::new(
            FailureReason::Deadline,
            format!(
                "Helm did not end before its deadline{}",
                text.map(|text| format!(": {}", secrets.hide(text)))
                    .unwrap_or_default()
            ),
        ),
        End::Stopped => Failure::new(
            FailureReason::Stopped,
            "Helm was interrupted because the agent stops",
        ),
        End::Superseded => Failure::new(FailureReason::Superseded, SUPERSEDED),
        End::CrowdedOut => Failure::new(FailureReason::Deadline, crowded_out()),
    }
}

fn out_of_memory() -> Failure {
    Failure::new(
        FailureReason::OutOfMemory,
        "Helm needs more memory than it may use",
    )
}

fn crowded_out() -> String {
    format!(
        "Helm was ended although its hook may take longer: other releases have waited for Helm for {} minutes, and too many runs wait for \
         hooks. Raise --helm-processes and the memory limit of the agent, or use fewer hooks that take long",
        CROWDED.as_secs() / 60
    )
}

/// The failure of which only the end of the text is known: of a panic, or of a template that calls itself.
fn without_start(code: i32, end: &str) -> Failure {
    let of_chart = texts::reason(end).filter(|reason| reason.class() == Class::Chart);
    let reason = of_chart.unwrap_or(FailureReason::Crashed);
    Failure::new(reason, format!("Helm ended with code {code}: {end}"))
}

/// Warnings of the API server, each once. They may have anything in them.
fn warnings(texts: &[String]) -> Vec<String> {
    let texts = texts
        .iter()
        .map(|text| redacted_urls(&printable(text)).into_owned());
    let mut warnings: Vec<_> = texts.map(|text| bounded_text::cut(text, MAX_WARNING)).collect();
    warnings.sort();
    warnings.dedup();
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// The end of an output without an error of Helm: of a panic, for example.
fn last_lines(stderr: &str) -> String {
    // Before it is cut: the end of a URL does not look like one.
    let stderr = redacted_urls(stderr);
    let start = stderr.len().saturating_sub(MAX_MESSAGE / 2);
    let start = stderr.ceil_char_boundary(start);
    let text = stderr.get(start..).unwrap_or_default().trim();
    if text.is_empty() {
        "it wrote nothing".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
