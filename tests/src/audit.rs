//! Who wrote what, as the API server's audit log tells it.

pub(crate) mod event;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use event::Event;

/// The ServiceAccount of the controller.
const CONTROLLER: &str = "system:serviceaccount:helmops-system:helmops-controller";
/// Which of its tokens somebody came with.
const TOKEN: &str = "authentication.kubernetes.io/credential-id";
const READS: [&str; 3] = ["get", "list", "watch"];
const LEASES: &str = "leases";

/// A write of a controller, whatever came of it.
#[derive(Clone, Debug)]
pub struct Write {
    /// The token that it came with: each start of a process has one of its own.
    pub writer: String,
    /// The resource, such as `bundles`.
    pub resource: String,
    /// The subresource, such as `status`, or nothing.
    pub subresource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The status that it was answered with.
    pub code: u16,
    /// What was sent; of Bundles alone.
    pub body: Option<Value>,
    received: String,
}

/// How the Lease went from hand to hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How often it was taken.
    pub hands: usize,
    /// What else was written, all of it by the one who held it.
    pub others: usize,
}

impl Write {
    /// Whether the API server did it.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether the writer went away before the API server could tell what had come of it: it may be done or not.
    pub fn is_open(&self) -> bool {
        // 504: the client cancelled the request. A process that was stopped between its check of the Lease and the request sends
        // it when it continues, and cancels it immediately; the resource version or the name makes it fail otherwise.
        self.code == 0 || self.code >= 500 && self.code != 504
    }

    /// Resource and name, such as `bundles/web`.
    pub fn object(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }
}

/// All writes of controllers, in the order in which the API server received them.
///
/// # Errors
/// Where the log cannot be read.
pub fn writes(log: &Path) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    event::read(log, |event| {
        writes.extend(write(event)?);
        Ok(())
    })?;
    // Those of the same moment stay in the order in which they were answered.
    writes.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(writes)
}

fn write(event: Event) -> Result<Option<Write>> {
    if event.user.username != CONTROLLER || READS.contains(&&*event.verb) {
        return Ok(None);
    }
    let token = event.user.extra.get(TOKEN).and_then(|tokens| tokens.first());
    let object = event.object_ref.unwrap_or_default();
    Ok(Some(Write {
        writer: token
            .context("a write of the controller without a token")?
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

/// Checks that nobody wrote anything while another held the Lease.
///
/// # Errors
/// With the first write that did not keep to it.
pub fn terms(writes: &[Write]) -> Result<Terms> {
    let mut holder = None;
    let mut terms = Terms { hands: 0, others: 0 };
    let done = |write: &&Write| write.is_accepted() || write.is_open() && write.resource != LEASES;
    for write in writes.iter().filter(done) {
        let is_holder = holder == Some(&write.writer);
        if write.resource == LEASES {
            terms.hands += usize::from(!is_holder);
            holder = Some(&write.writer);
        } else {
            ensure!(is_holder, "{} wrote without the Lease: {write:?}", write.writer);
            terms.others += usize::from(write.is_accepted());
        }
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(writes: &[(&str, &str, u16)]) -> Vec<Write> {
        let event = |(second, (writer, resource, code)): (usize, &(&str, &str, u16))| {
            json!({
                "verb": "update",
                "user": { "username": CONTROLLER, "extra": { TOKEN: [writer] } },
                "objectRef": { "resource": resource, "name": "web" },
                "responseStatus": { "code": code },
                "requestReceivedTimestamp": format!("2026-01-01T00:00:{second:02}.000000Z"),
            })
        };
        // Answered the other way round.
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
    fn who_holds_the_lease_writes() {
        let writes = written(&[
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
        assert_eq!(terms(&writes).unwrap(), Terms { hands: 2, others: 3 });
    }

    #[test]
    fn a_write_out_of_turn_is_found() {
        for writes in [
            &[("a", "bundles", 200)][..],
            &[("a", "leases", 200), ("b", "bundles", 200)],
            &[("a", "leases", 200), ("b", "bundles", 504)],
            &[("a", "leases", 200), ("b", "leases", 200), ("a", "bundles", 200)],
        ] {
            let error = terms(&written(writes)).unwrap_err().to_string();
            assert!(error.contains("wrote without the Lease"), "{error}");
        }
    }
}
