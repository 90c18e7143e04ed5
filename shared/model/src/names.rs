//! Names of cluster namespaces, of copies of access Secrets, and of the Roles of agents.

use helmops_api::limits;

use crate::chart::digest::short_sha256_hex;

/// Name of the namespace, in the management cluster, with the BundleDeployments of a Cluster: the same as in Fleet.
pub fn cluster_namespace(namespace: &str, name: &str) -> String {
    let whole = format!("{namespace}::{name}");
    // Fleet hashes the first 100 bytes.
    let hashed = whole.as_bytes().get(..100).unwrap_or(whole.as_bytes());
    safe_concat(&["cluster", namespace, name, &short_sha256_hex(hashed, 12)])
}

/// Joins the parts of a name with dashes, and truncates it to 63 bytes with a hash at the end: as Fleet's `SafeConcatName`.
pub fn safe_concat(parts: &[&str]) -> String {
    let joined = parts.join("-");
    if joined.len() <= limits::LABEL {
        return joined;
    }
    let digest = short_sha256_hex(joined.as_bytes(), 6);
    let is_alphanumeric = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    // The kept part must not end in a dash.
    let (kept, digits) = match joined.as_bytes().get(56) {
        Some(last) if is_alphanumeric(last) => (57, 5),
        _ => (56, 6),
    };
    format!(
        "{}-{}",
        joined.get(..kept).unwrap_or(&joined),
        digest.get(..digits).unwrap_or_default()
    )
}

/// Name of the copy of a Bundle's access Secret in the namespaces of clusters. Each Bundle has its own copy: deleting one Bundle
/// does not affect others, and two namespaces can have Secrets of the same name.
pub fn access_secret(bundle_namespace: &str, bundle: &str, secret: &str) -> String {
    hashed(secret, &format!("{bundle_namespace}/{bundle}/{secret}"))
}

/// Name of the Role, in the namespace of a Cluster, for the status of this Cluster, and of its RoleBinding.
pub fn agent_role(cluster_namespace: &str, cluster: &str) -> String {
    let name = hashed(cluster, &format!("{cluster_namespace}/{cluster}"));
    format!("helmops-agent-{name}")
}

/// Name of the account of an agent that has registered itself, and of all that exists for its ClusterRegistration alone: only the API server
/// chooses UIDs, and the texts in a ClusterRegistration are those of a stranger.
pub fn registered_account(registration_uid: &str) -> String {
    format!("request-{registration_uid}")
}

/// Name of the account by which agents register themselves with a ClusterRegistrationToken.
pub fn registration_account(token_uid: &str) -> String {
    format!("registration-{token_uid}")
}

/// Name of the account that Fleet's controller creates for a ClusterRegistration or a ClusterRegistrationToken with this name and UID.
pub fn fleets_account(name: &str, uid: &str) -> String {
    safe_concat(&[name, uid])
}

/// Name of the Cluster of an agent that has registered itself with this ID: as Fleet's.
pub fn registered_cluster(client_id: &str) -> String {
    // Fleet hashes the first 100 bytes.
    let hashed = client_id.as_bytes().get(..100).unwrap_or(client_id.as_bytes());
    safe_concat(&["cluster", &short_sha256_hex(hashed, 12)])
}

/// Name of the Secret with the credential of an agent that has registered itself: as Fleet's. It follows from texts that the agent chooses, so
/// others may have the same name.
pub fn registration_credential(client_id: &str, client_random: &str) -> String {
    let digest = short_sha256_hex(
        format!("{client_id}{client_random}").as_bytes(),
        limits::LABEL - 2,
    );
    format!("c-{digest}")
}

/// The first part of a name, with a hash of what identifies the object. The hash keeps it distinct from names that users choose.
fn hashed(name: &str, identity: &str) -> String {
    const MAX_PREFIX: usize = 40;
    let digest = short_sha256_hex(identity.as_bytes(), 12);
    let kept = name.get(..MAX_PREFIX).unwrap_or(name);
    format!("{}-{digest}", kept.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_the_same_names_as_in_fleet() {
        assert_eq!(
            cluster_namespace("fleet-local", "local"),
            "cluster-fleet-local-local-1a3d67d0a899"
        );
    }

    #[test]
    fn each_bundle_has_its_own_copy() {
        let name = access_secret("fleet", "web", "access");
        assert!(
            name.starts_with("access-") && name.len() == "access-".len() + 12,
            "{name}"
        );
        for (namespace, bundle, secret) in [
            ("fleet", "db", "access"),
            ("other", "web", "access"),
            ("fleet", "web", "b"),
        ] {
            assert_ne!(name, access_secret(namespace, bundle, secret));
        }
        let long = access_secret(
            "fleet",
            "web",
            &format!("{}-.{}", "a".repeat(38), "b".repeat(200)),
        );
        assert!(long.len() <= limits::LABEL && !long.contains(".-"), "{long}");
    }

    #[test]
    fn each_cluster_has_its_own_role_with_a_name_of_bounded_length() {
        let name = agent_role("fleet", "edge-1");
        assert!(name.starts_with("helmops-agent-edge-1-"), "{name}");
        assert_ne!(name, agent_role("other", "edge-1"));
        let long = "a".repeat(200);
        let name = agent_role("fleet", &long);
        assert!(name.len() <= 70, "{name}");
        assert_ne!(name, agent_role("fleet", &format!("{long}x")));
    }

    #[test]
    fn long_names_are_truncated_to_valid_names() {
        let names = [
            "a".repeat(30),
            "b".repeat(40),
            format!("{}-{}", "c".repeat(33), "d".repeat(40)),
        ];
        for name in names {
            let namespace = cluster_namespace("fleet-default", &name);
            assert!(namespace.len() <= limits::LABEL, "{namespace}");
            assert!(
                !namespace.contains("--") && !namespace.ends_with('-'),
                "{namespace}"
            );
            assert_ne!(namespace, cluster_namespace("fleet-default", &format!("{name}x")));
        }
    }
}
