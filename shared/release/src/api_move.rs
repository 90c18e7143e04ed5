//! Kinds that Kubernetes has moved to another API group. Their objects are the same ones in both groups.

/// The groups in which the objects of a kind may be, that of the kind itself first.
pub fn groups<'g>(group: &'g str, kind: &str) -> impl Iterator<Item = &'g str> {
    [Some(group), moved_to(group, kind)].into_iter().flatten()
}

/// The table of `helm mapkubeapis` has no other moves between groups.
fn moved_to(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => Some("apps"),
        ("extensions", "Ingress" | "NetworkPolicy") => Some("networking.k8s.io"),
        ("extensions", "PodSecurityPolicy") => Some("policy"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_kinds_have_two_groups() {
        let all = |group, kind| groups(group, kind).collect::<Vec<_>>();
        assert_eq!(all("extensions", "Ingress"), ["extensions", "networking.k8s.io"]);
        assert_eq!(all("extensions", "Deployment"), ["extensions", "apps"]);
        assert_eq!(all("extensions", "Widget"), ["extensions"]);
        assert_eq!(all("policy", "PodDisruptionBudget"), ["policy"]);
        assert_eq!(all("", "ConfigMap"), [""]);
    }
}
