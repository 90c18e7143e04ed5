//! The namespace of this process.

/// The file with the namespace of the pod's ServiceAccount.
const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of the pod's ServiceAccount; `None` outside of a pod, and in one without a ServiceAccount.
pub fn own_namespace() -> Option<String> {
    let namespace = std::fs::read_to_string(FILE).ok()?;
    let namespace = namespace.trim();
    (!namespace.is_empty()).then(|| namespace.to_owned())
}
