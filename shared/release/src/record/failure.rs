//! Why a revision failed, as its record shows it.
//!
//! Helm writes the error of an operation into the description of its record. What Helm does not wait for is the agent's to decide, and
//! it writes that into the record in the same place. So `helm history` shows it, and a restart of the agent loses nothing.

use super::{Record, Status};

const INTERRUPTED: &str = "The agent stopped while the release was in status ";
/// What Helm writes when the agent has stopped it.
const STOPPED: &str = "context canceled";
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

impl Failure {
    /// The failure of a record; `None` if it did not fail, or only because its Helm was stopped or killed.
    pub fn of(record: &Record) -> Option<Self> {
        let text = &*record.info.description;
        match record.info.status {
            Status::Failed => {
                let marked = |mark| text.strip_prefix(mark).map(ToOwned::to_owned);
                if text.starts_with(INTERRUPTED) || text.ends_with(STOPPED) {
                    None
                } else if let Some(cause) = marked(NOT_READY) {
                    Some(Self::NotReady(cause))
                } else if let Some(cause) = marked(TEST_FAILED) {
                    Some(Self::Test(cause))
                } else {
                    Some(Self::Helm(text.to_owned()))
                }
            }
            Status::Uninstalled => {
                let cause = text.strip_prefix(REMEDIATED)?;
                Some(Self::Uninstalled(cause.to_owned()))
            }
            _ => None,
        }
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
