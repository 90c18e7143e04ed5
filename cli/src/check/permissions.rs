//! What the commands of this program need, and whether the user may do it.

use kube::Client;

use super::finding::{Finding, Group};
use crate::cluster::{api_error, permission, permission::Permission};

const GROUP: &str = "fleet.cattle.io";

/// What the user cannot do without a permission.
struct Need {
    permissions: Vec<Permission>,
    /// The commands.
    used_for: &'static str,
    /// Whether every user needs it.
    is_basic: bool,
}

fn needs(namespace: &str) -> Vec<Need> {
    let on =
        |verb: &str, group: &str, resource: &str| Permission::new(verb, group, resource).within(namespace);
    let need = |permissions: Vec<Permission>, used_for, is_basic| Need {
        permissions,
        used_for,
        is_basic,
    };
    vec![
        need(
            vec![
                on("get", GROUP, "helmops"),
                on("list", GROUP, "helmops"),
                on("list", GROUP, "bundles"),
            ],
            "status, history, tree, wait",
            true,
        ),
        need(
            vec![on("create", GROUP, "helmops"), on("patch", GROUP, "helmops")],
            "create, reconcile, poll, suspend, rollback",
            false,
        ),
        need(
            vec![Permission::new("list", GROUP, "bundledeployments")],
            "status and diff for each cluster",
            false,
        ),
        need(
            vec![on("get", "", "secrets")],
            "resolve and diff of HelmOps with a helmSecretName",
            false,
        ),
        need(
            vec![on("list", GROUP, "clusters"), on("create", GROUP, "clusters")],
            "cluster list, cluster join",
            false,
        ),
    ]
}

/// Checks the permissions in a namespace.
pub async fn check(client: &Client, namespace: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for need in needs(namespace) {
        findings.push(match permission::missing(client, &need.permissions).await {
            Ok(missing) => judge(&need, namespace, &missing),
            Err(error) => Finding::error(
                Group::Permissions,
                format!("they cannot be checked: {}", api_error::text(&error)),
                "",
            ),
        });
    }
    findings
}

fn judge(need: &Need, namespace: &str, missing: &[Permission]) -> Finding {
    if missing.is_empty() {
        return Finding::ok(
            Group::Permissions,
            format!("{}, in namespace {namespace}", need.used_for),
        );
    }
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let message = format!("missing for {}: {}", need.used_for, names.join(", "));
    if need.is_basic {
        Finding::warning(
            Group::Permissions,
            message,
            "an administrator can grant it with a Role, or select another namespace with --namespace",
        )
    } else {
        Finding::skipped(Group::Permissions, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;

    #[test]
    fn only_basic_permissions_are_missed() {
        for need in needs("a") {
            let level = if need.is_basic {
                Level::Warning
            } else {
                Level::Skipped
            };
            let finding = judge(&need, "a", &need.permissions);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(
                finding.message.contains("fleet.cattle.io")
                    || finding.message.contains("get secrets in namespace a")
            );
            assert_eq!(judge(&need, "a", &[]).level, Level::Ok);
        }
    }
}
