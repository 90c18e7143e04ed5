//! The writes of controllers, from the audit log of the API server.

pub(crate) mod event;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use event::Event;

/// The ServiceAccount of the controller.
const CONTROLLER: &str = "system:serviceaccount:helmops-system:helmops-controller";
/// Identifies the token of a request.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const READS: [&str; 3] = ["get", "list", "watch"];
const DELETE: &str = "delete";
const LEASES: &str = "leases";

/// A write of a process, successful or not.
#[derive(Clone, Debug)]
pub struct Write {
    /// The id of its token: each process has its own token.
    pub writer: String,
    /// The resource, such as `bundles`.
    pub resource: String,
    /// The subresource, such as `status`, or empty.
    pub subresource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The status of the response.
    pub code: u16,
    /// The request body; recorded for Bundles only.
    pub body: Option<Value>,
    /// When the API server received it: RFC 3339, in microseconds.
    pub received: String,
}

/// A successful deletion of an object.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// When the API server received it: RFC 3339, in microseconds.
    pub received: String,
}

/// A request of a process, successful or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does, as a verb of RBAC.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// The program that sent it, such as `helmops-agent/0.1.0`.
    pub user_agent: String,
}

/// The terms of the leaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How often a replica acquired the Lease.
    pub acquisitions: usize,
    /// The number of other writes, each by the holder of the Lease.
    pub other_writes: usize,
}

impl Write {
    /// Whether the API server accepted it.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether its outcome is unknown, because the client disconnected before the response: it may have been applied.
    pub fn is_undetermined(&self) -> bool {
        self.code == 0 || self.code >= 500
    }

    /// Whether the client cancelled it.
    fn is_cancelled(&self) -> bool {
        self.code == 504
    }

    /// Resource and name, such as `bundles/web`.
    pub fn object(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }
}

/// All writes of controllers, in the order in which the API server received them.
///
/// # Errors
/// If the log cannot be read.
pub fn writes(log: &Path) -> Result<Vec<Write>> {
    writes_of(log, CONTROLLER)
}

/// All writes of a user, such as `system:serviceaccount:web:agent`, in the order in which the API server received them.
///
/// # Errors
/// If the log cannot be read.
pub fn writes_of(log: &Path, user: &str) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    event::read(log, |event| {
        writes.extend(write(event, user)?);
        Ok(())
    })?;
    // Writes with the same timestamp stay in the order of their responses.
    writes.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(writes)
}

/// When objects of a resource were deleted, by whatever user, in the order in which the API server received the requests.
///
/// # Errors
/// If the log cannot be read.
pub fn deletions(log: &Path, resource: &str) -> Result<Vec<Deletion>> {
    let mut deletions = Vec::new();
    event::read(log, |event| {
        let object = event.object_ref.unwrap_or_default();
        if event.verb == DELETE && object.resource == resource && event.response_status.code == 200 {
            deletions.push(Deletion {
                namespace: object.namespace,
                name: object.name,
                received: event.request_received_timestamp,
            });
        }
        Ok(())
    })?;
    deletions.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(deletions)
}

/// All requests of a user, in the order of the responses.
///
/// # Errors
/// If the log cannot be read.
pub fn requests_of(log: &Path, user: &str) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    event::read(log, |event| {
        if event.user.username == user {
            requests.push(Request {
                verb: event.verb,
                uri: event.request_uri,
                user_agent: event.user_agent,
            });
        }
        Ok(())
    })?;
    Ok(requests)
}

fn write(event: Event, user: &str) -> Result<Option<Write>> {
    if event.user.username != user || READS.contains(&&*event.verb) {
        return Ok(None);
    }
    let token = event
        .user
        .extra
        .get(CREDENTIAL_ID)
        .and_then(|tokens| tokens.first());
    let object = event.object_ref.unwrap_or_default();
    Ok(Some(Write {
        writer: token
            .context("a write of a ServiceAccount without a token")?
            .clone(),
        resource: object.resource,
        subresource: object.subresource,
        namespace: object.namespace,
        name: object.name,
        code: event.response_status.code,
        body: event.request_object,
        received: event.request_received_timestamp,
    }))
}

/// Checks that only the holder of the Lease wrote.
///
/// # Errors
/// With the first write of another replica.
pub fn check_terms(writes: &[Write]) -> Result<Terms> {
    let mut holder = None;
    let mut terms = Terms {
        acquisitions: 0,
        other_writes: 0,
    };
    // A process that was stopped between its check of the Lease and a request sends the request when it continues, and cancels it
    // immediately. Without the cancellation, the resource version or the name makes it fail.
    let counts_although_undetermined = |write: &Write| write.is_undetermined() && !write.is_cancelled();
    let is_applied = |write: &&Write| {
        write.is_accepted() || counts_although_undetermined(write) && write.resource != LEASES
    };
    for write in writes.iter().filter(is_applied) {
        let is_holder = holder == Some(&write.writer);
        if write.resource == LEASES {
            terms.acquisitions += usize::from(!is_holder);
            holder = Some(&write.writer);
        } else {
            ensure!(is_holder, "{} wrote without the Lease: {write:?}", write.writer);
            terms.other_writes += usize::from(write.is_accepted());
        }
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writes_from_log(writes: &[(&str, &str, u16)]) -> Vec<Write> {
        let event = |(second, (writer, resource, code)): (usize, &(&str, &str, u16))| {
            json!({
                "verb": "update",
                "user": { "username": CONTROLLER, "extra": { CREDENTIAL_ID: [writer] } },
                "objectRef": { "resource": resource, "name": "web" },
                "responseStatus": { "code": code },
                "requestReceivedTimestamp": format!("2026-01-01T00:00:{second:02}.000000Z"),
            })
        };
        // The responses are in the reverse order.
        let mut events: Vec<_> = writes.iter().enumerate().map(event).collect();
        events.reverse();
        events.push(
            json!({ "verb": "get", "user": { "username": CONTROLLER }, "requestReceivedTimestamp": "" }),
        );
        events.push(
            json!({ "verb": "update", "user": { "username": "admin" }, "requestReceivedTimestamp": "" }),
        );
        let lines: Vec<_> = events.iter().map(Value::to_string).collect();
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), lines.join("\n") + "\n{\"verb\": \"upd").unwrap();
        super::writes(log.path()).unwrap()
    }

    #[test]
    fn the_lease_holder_may_write() {
        let writes = writes_from_log(&[
            ("a", "leases", 200),
            ("a", "bundles", 201),
            ("b", "leases", 409),
            ("a", "bundles", 200),
            ("b", "leases", 200),
            ("a", "bundles", 409),
            ("b", "bundles", 200),
            ("b", "bundles", 504),
            ("a", "leases", 504),
        ]);
        let expected = Terms {
            acquisitions: 2,
            other_writes: 3,
        };
        assert_eq!(check_terms(&writes).unwrap(), expected);
    }

    #[test]
    fn a_write_without_the_lease_is_an_error() {
        for writes in [
            &[("a", "bundles", 200)][..],
            &[("a", "leases", 200), ("b", "bundles", 200)],
            &[("a", "leases", 200), ("b", "bundles", 500)],
            &[("a", "leases", 200), ("b", "leases", 200), ("a", "bundles", 200)],
        ] {
            let error = check_terms(&writes_from_log(writes)).unwrap_err().to_string();
            assert!(error.contains("wrote without the Lease"), "{error}");
        }
    }
}
