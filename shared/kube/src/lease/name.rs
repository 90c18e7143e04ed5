//! The namespace and name of the Lease, and the identity of this process in it.

use std::{env, fs};

use helmops_process::own_namespace;
use thiserror::Error;

/// The file in which Linux has the host name, which in a pod is the name of the pod.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The namespace and name of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// No namespace was set for the Lease, and the process is not in a pod.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "no namespace for the Lease: the process is not in a pod with a ServiceAccount; set --namespace, or --leader-elect=false if no other replica runs"
)]
pub struct NoNamespace;

impl LeaseName {
    /// The Lease `name` in `namespace`, or else in the namespace of the pod.
    ///
    /// # Errors
    /// If there is no namespace.
    pub fn new(namespace: Option<&str>, name: String) -> Result<Self, NoNamespace> {
        let namespace = namespace
            .map(str::to_owned)
            .or_else(own_namespace)
            .unwrap_or_default();
        let namespace = namespace.trim().to_owned();
        if namespace.is_empty() {
            return Err(NoNamespace);
        }
        Ok(Self { namespace, name })
    }
}

/// A unique name of this process, different after each restart: `pod`, or the host name, or else `program`, and a random suffix.
pub fn identity(pod: Option<&str>, program: &str) -> String {
    let pod = pod.filter(|name| !name.is_empty()).map(str::to_owned);
    let host = || {
        fs::read_to_string(HOST_NAME_FILE)
            .or_else(|_| env::var("HOSTNAME"))
            .ok()
    };
    let name = pod.or_else(host).unwrap_or_else(|| program.to_owned());
    format!("{}_{:016x}", name.trim(), fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_namespace() {
        let lease = LeaseName::new(Some(" system\n"), "leader".to_owned()).unwrap();
        assert_eq!((&*lease.namespace, &*lease.name), ("system", "leader"));
        assert_eq!(LeaseName::new(Some(" "), "leader".to_owned()), Err(NoNamespace));
    }

    #[test]
    fn an_identity_names_the_pod_and_is_unique() {
        let one = identity(Some("pod-1"), "program");
        assert!(
            one.starts_with("pod-1_") && one.len() == "pod-1_".len() + 16,
            "{one}"
        );
        assert_ne!(one, identity(Some("pod-1"), "program"));
        assert!(!identity(None, "program").starts_with('_'));
    }
}
