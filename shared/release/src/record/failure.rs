//! Why a revision failed, as its record shows it.
//!
//! Helm writes the error of an operation into the description of its record. What Helm does not wait for is the agent's to decide, and
//! it writes that into the record in the same place. So `helm history` shows it, and a restart of the agent loses nothing.

use bounded_text::printable;
use helmops_model::chart::url::redacted_urls;

use super::{Record, Status};
use crate::error_text::without_long_values;

const INTERRUPTED: &str = "The agent stopped while the release was in status ";
/// What Helm writes when the agent has stopped it.
const STOPPED: &str = "context canceled";
/// What the agent writes in its place if Helm had reached its deadline.
const LATE: &str = "Helm did not end before its deadline";
/// How Helm's descriptions of errors start: of installations, upgrades and rollbacks.
const ACTIONS_OF_HELM: [&str; 3] = ["Release", "Upgrade", "Rollback"];
/// How the description of a rollback starts that the agent has marked as failed.
pub(super) const ROLLBACK: &str = "Rollback: ";
const NOT_READY: &str = "not ready: ";
const TEST_FAILED: &str = "test failed: ";
const REMEDIATED: &str = "uninstalled after a failure: ";

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Helm failed, with its error.
    Helm(String),
    /// The objects were not ready in time, or one of them failed for good.
    NotReady(String),
    /// A test failed.
    Test(String),
    /// It failed, and was uninstalled because of that.
    Uninstalled(String),
}

/// Maximum bytes of a description that is kept: anyone may write records.
const MAX_TEXT: usize = 16 << 10;

impl Failure {
    /// The failure of a record; `None` if it did not fail, or only because its Helm was stopped or killed.
    pub fn of(record: &Record) -> Option<Self> {
        // Helm's errors have the URLs of charts, with their credentials.
        let text = without_long_values(&redacted_urls(&printable(&record.info.description)));
        let text = &*bounded_text::cut(text, MAX_TEXT);
        match record.info.status {
            Status::Failed | Status::Superseded if is_interrupted(text) => None,
            Status::Failed => Some(Self::marked(text).unwrap_or_else(|| Self::Helm(text.to_owned()))),
            // Helm supersedes what failed too: when the rollback of it fails, or with the next upgrade. The description stays.
            Status::Superseded if is_of_helm(text) => Some(Self::Helm(text.to_owned())),
            Status::Superseded => Self::marked(text),
            Status::Uninstalled => {
                let cause = text.strip_prefix(REMEDIATED)?;
                Some(Self::Uninstalled(cause.to_owned()))
            }
            _ => None,
        }
    }

    /// A failure that the agent has found.
    fn marked(text: &str) -> Option<Self> {
        let text = text.strip_prefix(ROLLBACK).unwrap_or(text);
        let marked = |mark| text.strip_prefix(mark).map(ToOwned::to_owned);
        let not_ready = || marked(NOT_READY).map(Self::NotReady);
        not_ready().or_else(|| marked(TEST_FAILED).map(Self::Test))
    }

    /// The description of the record.
    pub fn description(&self) -> String {
        match self {
            Self::Helm(text) => text.clone(),
            Self::NotReady(cause) => format!("{NOT_READY}{cause}"),
            Self::Test(cause) => format!("{TEST_FAILED}{cause}"),
            Self::Uninstalled(cause) => format!("{REMEDIATED}{cause}"),
        }
    }

    /// What failed, for a message.
    pub fn cause(&self) -> String {
        match self {
            Self::Uninstalled(cause) => cause.clone(),
            failure => failure.description(),
        }
    }
}

/// Whether a description shows that Helm was stopped or killed.
pub fn is_interrupted(text: &str) -> bool {
    text.starts_with(INTERRUPTED) || (text.ends_with(STOPPED) && is_of_helm(text))
}

/// Whether Helm has written a description because of an error.
fn is_of_helm(text: &str) -> bool {
    let rest = ACTIONS_OF_HELM
        .iter()
        .find_map(|action| text.strip_prefix(action)?.strip_prefix(" \""));
    rest.is_some_and(|rest| rest.contains("\" failed: "))
}

/// The description of a record whose Helm was stopped at its deadline: that is a failure, but Helm records it like an
/// interruption, or not at all if it was killed. `None` if the record shows neither.
pub fn at_deadline(record: &Record) -> Option<String> {
    let text = &*record.info.description;
    let action = match record.info.status {
        Status::PendingInstall => "Release",
        Status::PendingUpgrade => "Upgrade",
        Status::PendingRollback => "Rollback",
        Status::Failed if is_of_helm(text) => return Some(format!("{}{LATE}", text.strip_suffix(STOPPED)?)),
        _ => return None,
    };
    Some(format!("{action} \"{}\" failed: {LATE}", record.name))
}

/// The description of a record whose Helm was killed.
pub fn interrupted(was: Status) -> String {
    format!("{INTERRUPTED}{was}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: Status, description: &str) -> Record {
        Record::default().with_status(status, description.to_owned())
    }

    #[test]
    fn a_failure_is_read_from_the_record_that_it_is_written_to() {
        let cause = || "Deployment shop/web: 0 of 1 replicas are available".to_owned();
        for (failure, status) in [
            (
                Failure::Helm("Upgrade \"web\" failed: x".to_owned()),
                Status::Failed,
            ),
            (Failure::NotReady(cause()), Status::Failed),
            (Failure::Test(cause()), Status::Failed),
            (Failure::Uninstalled(cause()), Status::Uninstalled),
        ] {
            assert_eq!(
                Failure::of(&record(status, &failure.description())),
                Some(failure)
            );
        }
    }

    #[test]
    fn an_interrupted_operation_is_no_failure() {
        for text in [
            &*interrupted(Status::PendingUpgrade),
            "Upgrade \"web\" failed: pre-upgrade hooks failed: context canceled",
        ] {
            assert_eq!(Failure::of(&record(Status::Failed, text)), None, "{text}");
        }
    }

    /// Otherwise it would be repeated without an end and without a remediation, and its hooks with it.
    #[test]
    fn a_run_that_reached_its_deadline_is_a_failure_also_when_helm_supersedes_it() {
        let late = |cause: &str| format!("{cause}Helm did not end before its deadline");
        for (status, text, expected) in [
            (
                Status::PendingInstall,
                "Initial install underway",
                late("Release \"web\" failed: "),
            ),
            (
                Status::PendingUpgrade,
                "Preparing upgrade",
                late("Upgrade \"web\" failed: "),
            ),
            (
                Status::PendingRollback,
                "Rollback to 1",
                late("Rollback \"web\" failed: "),
            ),
            (
                Status::Failed,
                "Upgrade \"web\" failed: pre-upgrade hooks failed: context canceled",
                late("Upgrade \"web\" failed: pre-upgrade hooks failed: "),
            ),
        ] {
            let named = Record {
                name: "web".to_owned(),
                ..record(status, text)
            };
            let description = at_deadline(&named).unwrap();
            assert_eq!(description, expected);
            for status in [Status::Failed, Status::Superseded] {
                let failure = Failure::of(&record(status, &description));
                assert_eq!(failure, Some(Failure::Helm(expected.clone())), "{status}");
            }
        }
        for (status, text) in [
            (Status::Failed, "Upgrade \"web\" failed: no such host"),
            (Status::Failed, &*interrupted(Status::PendingUpgrade)),
            (Status::Deployed, "Upgrade complete"),
            (Status::Superseded, "Upgrade \"web\" failed: context canceled"),
        ] {
            assert_eq!(at_deadline(&record(status, text)), None, "{text}");
        }
    }

    /// Helm does so when a rollback fails, and when an upgrade follows what the agent has marked as failed.
    #[test]
    fn a_failure_stays_one_when_helm_supersedes_its_record() {
        let cause = || "Deployment shop/web: 0 of 1 replicas are available".to_owned();
        let helm = |action: &str| Failure::Helm(format!("{action} \"web\" failed: no such host"));
        for failure in [
            helm("Release"),
            helm("Upgrade"),
            helm("Rollback"),
            Failure::NotReady(cause()),
            Failure::Test(cause()),
        ] {
            let superseded = record(Status::Superseded, &failure.description());
            assert_eq!(Failure::of(&superseded), Some(failure));
        }
        for text in [
            "Install complete",
            "Upgrade complete",
            "Rollback to 1",
            "Upgrade to deployment :1, because of a change, attempt 2",
            "Release the new \"web\"",
            &*interrupted(Status::PendingUpgrade),
            "Upgrade \"web\" failed: context canceled",
        ] {
            assert_eq!(Failure::of(&record(Status::Superseded, text)), None, "{text}");
        }
    }

    #[test]
    fn credentials_of_urls_are_no_part_of_a_failure() {
        for text in [
            "Upgrade \"web\" failed: Get \"https://u:geheim@h.example/x?token=geheim\": EOF",
            "test failed: Pod shop/check failed: Error\ncurl https://u:geheim@h.example",
        ] {
            let failure = Failure::of(&record(Status::Failed, text)).unwrap();
            let cause = failure.cause();
            assert!(
                cause.contains("https://h.example") && !cause.contains("geheim"),
                "{cause}"
            );
        }
    }

    #[test]
    fn only_failed_and_uninstalled_revisions_have_a_failure() {
        for status in Status::ALL {
            let marked = Failure::Uninstalled("x".to_owned()).description();
            let expected = matches!(status, Status::Failed | Status::Uninstalled);
            assert_eq!(
                Failure::of(&record(status, &marked)).is_some(),
                expected,
                "{status}"
            );
        }
        assert_eq!(
            Failure::of(&record(Status::Uninstalled, "Uninstallation complete")),
            None
        );
    }
}
