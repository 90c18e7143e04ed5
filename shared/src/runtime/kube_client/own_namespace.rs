//! Where this process runs.

/// Where a pod finds the namespace of its ServiceAccount.
const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of the pod's ServiceAccount; `None` outside of a pod, and in one without a ServiceAccount.
pub fn own_namespace() -> Option<String> {
    let told = std::fs::read_to_string(FILE).ok()?;
    let told = told.trim();
    (!told.is_empty()).then(|| told.to_owned())
}
