//! The Events of releases, without I/O.
//!
//! What concerns a release regards the namespace that the release is in, so `kubectl events -n NAMESPACE` shows it among the Events of
//! the workloads, also after an uninstallation. No object of a release would do: its record is deleted after some upgrades, and before
//! an installation there is none. Drift regards the object that has drifted, where `kubectl describe` shows it.

use bounded_text::numbered;
use helmops_model::{
    event::{Event, MAX_NOTE},
    reason::Reason,
};
use helmops_release::{drift::ObjectDrift, names::ReleaseKey, object::ObjectId, report::TestResult};
use k8s_openapi::api::core::v1::ObjectReference;

/// What a deployment has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Installed,
    Upgraded,
    Uninstalled,
}

/// What was done about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remediation {
    /// An earlier revision was restored.
    Rollback,
    /// The release was uninstalled.
    Uninstall,
}

/// What the Events of a release regard.
pub fn of_release(release: &ReleaseKey) -> ObjectReference {
    of_namespace(&release.namespace)
}

/// What Events regard that concern a namespace.
pub fn of_namespace(namespace: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(namespace.to_owned()),
        // Where the Event is.
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

/// What the Events of an object regard. Those of cluster-scoped objects are in the namespace `default`.
pub fn of_object(id: &ObjectId, uid: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some(id.api_version.clone()),
        kind: Some(id.kind.clone()),
        name: Some(id.name.clone()),
        namespace: Some(id.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        // `kubectl describe` looks for it.
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// A release was changed; `what` is its chart and revision, or why it was uninstalled.
pub fn done(done: Done, release: &ReleaseKey, what: &str) -> Event {
    let (reason, action) = match done {
        Done::Installed => (Reason::Installed, "Install"),
        Done::Upgraded => (Reason::Upgraded, "Upgrade"),
        Done::Uninstalled => (Reason::Uninstalled, "Uninstall"),
    };
    event(false, reason, action, format!("release {release}: {what}"))
}

/// Objects that the record of a release has stay as they are; `what` says what is not done with which, and why.
pub fn kept(release: &ReleaseKey, what: &str) -> Event {
    let note = format!("release {release}: {what}");
    event(true, Reason::ObjectsKept, "Keep", note)
}

/// A release is upgraded, because the values of these objects may have changed.
pub fn values_changed(release: &ReleaseKey, objects: &str) -> Event {
    let note = format!("release {release}: other values in {objects}; it is upgraded");
    event(false, Reason::ValuesChanged, "Upgrade", note)
}

/// Patches have changed nothing; `what` says which.
pub fn unmatched(release: &ReleaseKey, what: &str) -> Event {
    event(
        true,
        Reason::PatchMatchedNothing,
        "Patch",
        format!("release {release}: {what}"),
    )
}

/// Something was done about a failed attempt.
pub fn remediated(remediation: Remediation, release: &ReleaseKey, what: &str) -> Event {
    let (reason, action) = match remediation {
        Remediation::Rollback => (Reason::RolledBack, "Rollback"),
        Remediation::Uninstall => (Reason::Uninstalled, "Uninstall"),
    };
    event(true, reason, action, format!("release {release}: {what}"))
}

/// The tests of a revision have ended; `None` if they have not, or if there are none.
pub fn tested(release: &ReleaseKey, revision: u64, result: &TestResult) -> Option<Event> {
    let about = |text: &str| format!("release {release}: revision {revision}: {text}");
    match result {
        TestResult::NoTests | TestResult::Pending => None,
        TestResult::Succeeded { tests } => {
            let (noun, text) = (if *tests == 1 { "test" } else { "tests" }, "succeeded");
            let note = about(&format!("{tests} {noun} {text}"));
            Some(event(false, Reason::TestSucceeded, "Test", note))
        }
        TestResult::Failed(cause) => Some(event(true, Reason::TestFailed, "Test", about(cause))),
    }
}

/// The retries are used up after so many attempts.
pub fn exhausted(release: &ReleaseKey, attempts: u32) -> Event {
    let note = format!(
        "release {release}: {} failed; from now on, there is one an hour; a change is deployed immediately",
        numbered(attempts, "attempt")
    );
    event(true, Reason::RetriesExhausted, "Deploy", note)
}

/// A release was suspended or resumed.
pub fn suspended(release: &ReleaseKey, is_suspended: bool) -> Event {
    let (reason, action, text) = if is_suspended {
        (Reason::Suspended, "Suspend", "suspended; it is left as it is")
    } else {
        (Reason::Resumed, "Resume", "resumed")
    };
    event(false, reason, action, format!("release {release}: {text}"))
}

/// A release could not be deployed or removed.
pub fn failed(release: &ReleaseKey, reason: Reason, error: &str) -> Event {
    event(true, reason, "Deploy", format!("release {release}: {error}"))
}

/// Releases whose BundleDeployments are gone are not removed.
pub fn removal_refused(why: &str) -> Event {
    event(true, Reason::RemovalRefused, "Uninstall", why)
}

/// Others depend on a release that is removed; `what` says which, and what follows. If it `is_warning`, it is uninstalled nevertheless.
pub fn dependents_remain(release: &ReleaseKey, is_warning: bool, what: &str) -> Event {
    let note = format!("release {release}: {what}");
    event(is_warning, Reason::DependentsRemain, "Uninstall", note)
}

pub fn drifted(release: &ReleaseKey, drift: &ObjectDrift) -> Event {
    let note = format!("{} (release {release})", drift.to_status());
    event(true, Reason::DriftDetected, "Compare", note)
}

/// An object is again as desired.
pub fn corrected(release: &ReleaseKey, id: &ObjectId) -> Event {
    let note = format!("{id} is again as release {release} has it");
    event(false, Reason::DriftCorrected, "Correct", note)
}

fn event(is_warning: bool, reason: Reason, action: &'static str, note: impl AsRef<str>) -> Event {
    Event {
        is_warning,
        reason: reason.to_string(),
        action,
        note: bounded_text::excerpt(note.as_ref(), MAX_NOTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> ReleaseKey {
        ReleaseKey::parse("shop/web").unwrap()
    }

    #[test]
    fn events_of_a_release_are_in_its_namespace() {
        let regarding = of_release(&web());
        assert_eq!(regarding.kind.as_deref(), Some("Namespace"));
        assert_eq!(regarding.name.as_deref(), Some("shop"));
        assert_eq!(regarding.namespace.as_deref(), Some("shop"));
    }

    #[test]
    fn events_of_a_cluster_scoped_object_have_no_namespace() {
        let id = ObjectId {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: "a".to_owned(),
        };
        let regarding = of_object(&id, Some("1-2"));
        assert_eq!(
            (regarding.namespace, regarding.uid),
            (None, Some("1-2".to_owned()))
        );
    }

    #[test]
    fn results_of_tests_are_events_when_tests_have_run() {
        let reason =
            |result| tested(&web(), 2, &result).map(|event| (event.is_warning, event.reason, event.note));
        assert_eq!(reason(TestResult::NoTests), None);
        assert_eq!(reason(TestResult::Pending), None);
        let (is_warning, name, note) = reason(TestResult::Succeeded { tests: 1 }).unwrap();
        assert_eq!((is_warning, &*name), (false, "TestSucceeded"));
        assert_eq!(note, "release shop/web: revision 2: 1 test succeeded");
        let (is_warning, name, note) =
            reason(TestResult::Failed("Pod shop/check failed".to_owned())).unwrap();
        assert_eq!((is_warning, &*name), (true, "TestFailed"));
        assert_eq!(note, "release shop/web: revision 2: Pod shop/check failed");
    }

    #[test]
    fn a_message_is_no_longer_than_the_api_server_accepts() {
        let event = failed(&web(), Reason::HelmFailed, &"x".repeat(5000));
        assert!(event.is_warning);
        assert_eq!(event.reason, "HelmFailed");
        assert_eq!(event.note.len(), MAX_NOTE);
    }
}
