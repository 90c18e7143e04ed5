//! The namespace and name of the Lease, and the identity of this process in it.

use std::{env, fs};

use helmops_process::own_namespace;
use thiserror::Error;

/// The name of the Lease of Fleet's own HelmOps controller; that of another shard has the shard as suffix.
const NAME: &str = "fleet-helmops-leader-election-shard";

/// The file in which Linux has the host name, which in a pod is the name of the pod.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The maximum length of an object name.
const MAX_LENGTH: usize = 253;

/// The namespace and name of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The namespace or name of the Lease is missing or invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// No namespace was set, and the process is not in a pod.
    #[error(
        "no namespace for the Lease: the process is not in a pod with a ServiceAccount; set --namespace, or --leader-elect=false if no other replica runs"
    )]
    NoNamespace,
    /// The shard gives no valid object name.
    #[error(
        "--shard-id {0:?} is invalid: use lower-case letters, digits, '-' and '.', and end with a letter or digit"
    )]
    InvalidShard(String),
}

impl LeaseName {
    /// The Lease of a shard, or of the default shard, in `namespace` or else in the namespace of the pod.
    ///
    /// # Errors
    /// If there is no namespace, or the shard is invalid.
    pub fn new(namespace: Option<&str>, shard: Option<&str>) -> Result<Self, NameError> {
        let namespace = namespace
            .map(str::to_owned)
            .or_else(own_namespace)
            .unwrap_or_default();
        let namespace = namespace.trim();
        if namespace.is_empty() {
            return Err(NameError::NoNamespace);
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: of_shard(shard.unwrap_or_default())?,
        })
    }
}

fn of_shard(shard: &str) -> Result<String, NameError> {
    if shard.is_empty() {
        return Ok(NAME.to_owned());
    }
    let name = format!("{NAME}-{shard}");
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        label.bytes().all(inner) && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() <= MAX_LENGTH && name.split('.').all(is_label) {
        Ok(name)
    } else {
        Err(NameError::InvalidShard(shard.to_owned()))
    }
}

/// A unique name of this process, different after each restart: `pod` or the host name, and a random suffix.
pub fn identity(pod: Option<&str>) -> String {
    let pod = pod.filter(|name| !name.is_empty()).map(str::to_owned);
    let host = || {
        fs::read_to_string(HOST_NAME_FILE)
            .or_else(|_| env::var("HOSTNAME"))
            .ok()
    };
    let name = pod
        .or_else(host)
        .unwrap_or_else(|| "helmops-controller".to_owned());
    format!("{}_{:016x}", name.trim(), fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_has_the_name_of_fleets_own_controller() {
        let lease = |shard| LeaseName::new(Some("system"), shard).unwrap().name;
        assert_eq!(lease(None), "fleet-helmops-leader-election-shard");
        assert_eq!(lease(Some("")), "fleet-helmops-leader-election-shard");
        assert_eq!(lease(Some("blue")), "fleet-helmops-leader-election-shard-blue");
    }

    #[test]
    fn invalid_names_are_rejected() {
        for shard in ["Blue", "a b", "a-", "a..b", "a_b", &"a".repeat(250)] {
            let error = LeaseName::new(Some("system"), Some(shard)).unwrap_err();
            assert_eq!(error, NameError::InvalidShard(shard.to_owned()));
        }
        assert_eq!(LeaseName::new(Some(" "), None), Err(NameError::NoNamespace));
    }

    #[test]
    fn an_identity_names_the_pod_and_is_unique() {
        let one = identity(Some("pod-1"));
        assert!(
            one.starts_with("pod-1_") && one.len() == "pod-1_".len() + 16,
            "{one}"
        );
        assert_ne!(one, identity(Some("pod-1")));
        assert!(!identity(None).starts_with('_'));
    }
}
