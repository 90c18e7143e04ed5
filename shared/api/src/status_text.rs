//! Objects of a status in a line of text, as in Fleet: an agent writes them into conditions, the controller into messages.

use std::fmt;

use super::status::{ModifiedStatus, NonReadyStatus, ObjectSummary};

/// An object in a message, `deployment.apps shop/web`: the kind in lower case, the first part of the API version (so `v1` for the
/// core group), and namespace and name.
#[derive(Clone, Copy, Debug)]
pub struct ObjectName<'a> {
    /// For example `apps/v1`; may be empty.
    pub api_version: &'a str,
    /// For example `Deployment`.
    pub kind: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl fmt::Display for ObjectName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.to_lowercase())?;
        let group = self.api_version.split('/').next();
        if let Some(group) = group.filter(|group| !group.is_empty()) {
            write!(f, ".{group}")?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)
    }
}

/// The object and how it differs: ` missing`, ` is not owned by us`, ` extra`, or ` modified ` and the patch.
impl fmt::Display for ModifiedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ObjectName {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        };
        name.fmt(f)?;
        match (self.missing, self.exist, self.delete) {
            (true, true, _) => f.write_str(" is not owned by us"),
            (true, false, _) => f.write_str(" missing"),
            (false, _, true) => f.write_str(" extra"),
            (false, _, false) => write!(f, " modified {}", self.patch),
        }
    }
}

/// The object and its summary.
impl fmt::Display for NonReadyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ObjectName {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        };
        name.fmt(f)?;
        match &self.summary {
            Some(summary) => write!(f, " {summary}"),
            None => Ok(()),
        }
    }
}

/// The state, or whether the object is progressing or has an error, and the messages. Fleet omits the bracket before a
/// single `error]`.
impl fmt::Display for ObjectSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.transitioning, self.error) {
            (false, false) => return f.write_str(&self.state),
            (true, false) => "[progressing]",
            (true, true) => "[progressing,error]",
            (false, true) => "[error]",
        })?;
        if self.message.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.messages())
    }
}

impl ObjectSummary {
    /// The messages as one text. Some of Kubernetes end with a full stop, and some do not.
    pub fn messages(&self) -> String {
        let messages: Vec<_> = self
            .message
            .iter()
            .map(|message| message.trim_end_matches('.'))
            .collect();
        messages.join(", ")
    }
}
