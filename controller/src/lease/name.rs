//! Where the Lease is, and under which name this process holds it.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
};

use helmops_shared::runtime::kube_client::own_namespace;
use thiserror::Error;

/// The name that Fleet gives the Lease of its own HelmOps controller; another shard's has the shard behind it.
const NAME: &str = "fleet-helmops-leader-election-shard";

/// Where Linux tells the name of the host, which in a pod is the pod's.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Longest name of an object.
const LONGEST: usize = 253;

/// Which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Which Lease cannot be told.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// Neither told nor in a pod.
    #[error(
        "no namespace for the Lease of the leader: not in a pod with a ServiceAccount; give --namespace, or --leader-elect=false where no other replica runs"
    )]
    NoNamespace,
    /// No name of an object can be made with it.
    #[error(
        "--shard-id {0:?} is no shard: lower-case letters, digits, '-' and '.', ending with a letter or digit"
    )]
    Shard(String),
}

impl LeaseName {
    /// The Lease of a shard, or of all that belongs to none, in `namespace` or else in that of the pod.
    ///
    /// # Errors
    /// Where there is no namespace, or no such name.
    pub fn new(namespace: Option<&str>, shard: Option<&str>) -> Result<Self, NameError> {
        let given = namespace
            .map(str::to_owned)
            .or_else(own_namespace)
            .unwrap_or_default();
        let namespace = given.trim();
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
    if name.len() <= LONGEST && name.split('.').all(is_label) {
        Ok(name)
    } else {
        Err(NameError::Shard(shard.to_owned()))
    }
}

/// A name that no other process has, nor this one after a restart: `pod`, or the host's name, and a word by chance.
pub fn identity(pod: Option<&str>) -> String {
    let told = pod.filter(|name| !name.is_empty()).map(str::to_owned);
    let host = || {
        fs::read_to_string(HOST_NAME_FILE)
            .or_else(|_| env::var("HOSTNAME"))
            .ok()
    };
    let name = told
        .or_else(host)
        .unwrap_or_else(|| "helmops-controller".to_owned());
    format!(
        "{}_{:016x}",
        name.trim(),
        RandomState::new().hash_one(std::process::id())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_is_the_one_of_fleets_own_controller() {
        let lease = |shard| LeaseName::new(Some("system"), shard).unwrap().name;
        assert_eq!(lease(None), "fleet-helmops-leader-election-shard");
        assert_eq!(lease(Some("")), "fleet-helmops-leader-election-shard");
        assert_eq!(lease(Some("blue")), "fleet-helmops-leader-election-shard-blue");
    }

    #[test]
    fn what_makes_no_name_is_refused() {
        for shard in ["Blue", "a b", "a-", "a..b", "a_b", &"a".repeat(250)] {
            let error = LeaseName::new(Some("system"), Some(shard)).unwrap_err();
            assert_eq!(error, NameError::Shard(shard.to_owned()));
        }
        assert_eq!(LeaseName::new(Some(" "), None), Err(NameError::NoNamespace));
    }

    #[test]
    fn an_identity_names_the_pod_and_is_never_the_same() {
        let one = identity(Some("pod-1"));
        assert!(
            one.starts_with("pod-1_") && one.len() == "pod-1_".len() + 16,
            "{one}"
        );
        assert_ne!(one, identity(Some("pod-1")));
        assert!(!identity(None).starts_with('_'));
    }
}
