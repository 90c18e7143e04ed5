//! Before an installation: the version of Kubernetes, the permissions of the user, and whether Fleet is there.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{
    finding::{Finding, Group},
    installed::Installed,
};
use crate::cluster::{api_error, permission, permission::Permission};

/// The oldest minor version of Kubernetes 1 that works.
const OLDEST: u32 = 30;
/// Where Fleet is installed.
const FLEET: &str = "cattle-fleet-system";
/// Fleet's own controller of HelmOps, which must not run beside helmops.
const FLEETS_HELMOPS: &str = "helmops";
/// Fleet's controller of Bundles, which must not run beside helmops without Fleet.
const FLEETS_BUNDLES: &str = "fleet-controller";

/// What an installation creates.
const CREATED: [(&str, &str); 8] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("", "namespaces"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("apps", "deployments"),
];

/// Checks what an installation needs.
pub async fn check(client: &Client, installed: &[Installed]) -> Vec<Finding> {
    let mut findings = vec![kubernetes(client).await, permissions(client).await];
    findings.push(fleet(client).await);
    if let Some(one) = installed.first() {
        let text = format!(
            "helmops is installed already: Deployment {}/{}",
            one.namespace, one.name
        );
        findings.push(Finding::warning(
            Group::Cluster,
            text,
            "check it with: kubectl helmop check",
        ));
    }
    findings
}

/// The version of the API server.
pub async fn kubernetes(client: &Client) -> Finding {
    match client.apiserver_version().await {
        Ok(version) => judge_version(&version.major, &version.minor, &version.git_version),
        Err(error) => Finding::error(
            Group::Cluster,
            format!("the API server does not respond: {}", api_error::text(&error)),
            "check --context",
        ),
    }
}

fn judge_version(major: &str, minor: &str, full: &str) -> Finding {
    // Some distributions have a suffix, as in "30+".
    let minor: u32 = minor
        .trim_end_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap_or_default();
    if major != "1" || minor >= OLDEST {
        Finding::ok(Group::Cluster, format!("Kubernetes {full}"))
    } else {
        let text = format!("Kubernetes {full} is older than 1.{OLDEST}");
        Finding::error(
            Group::Cluster,
            text,
            "upgrade Kubernetes: matchConditions of webhooks are needed",
        )
    }
}

async fn permissions(client: &Client) -> Finding {
    let needed = CREATED.map(|(group, resource)| Permission::new("create", group, resource));
    match permission::missing(client, &needed).await {
        Ok(missing) => judge_permissions(&missing),
        Err(error) => Finding::error(
            Group::Permissions,
            format!("they cannot be checked: {}", api_error::text(&error)),
            "",
        ),
    }
}

fn judge_permissions(missing: &[Permission]) -> Finding {
    if missing.is_empty() {
        return Finding::ok(Group::Permissions, "you may install helmops");
    }
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let text = format!("missing for an installation: {}", names.join(", "));
    Finding::error(Group::Permissions, text, "use the context of an administrator")
}

async fn fleet(client: &Client) -> Finding {
    match Api::<Deployment>::namespaced(client.clone(), FLEET)
        .list(&ListParams::default())
        .await
    {
        Ok(found) => {
            let names: Vec<_> = found.items.iter().map(ResourceExt::name_any).collect();
            judge_fleet(&names)
        }
        Err(error) => Finding::skipped(
            Group::Cluster,
            format!(
                "whether Fleet is installed is unknown: {}",
                api_error::text(&error)
            ),
        ),
    }
}

fn judge_fleet(deployments: &[String]) -> Finding {
    let has = |name: &str| deployments.iter().any(|found| found == name);
    if has(FLEETS_HELMOPS) {
        let text = format!(
            "Fleet's own HelmOps controller is installed (Deployment {FLEET}/{FLEETS_HELMOPS}): both would write the same objects"
        );
        return Finding::error(
            Group::Cluster,
            text,
            "disable it first: docs/from-fleet.md#migrate-to-helmops",
        );
    }
    if has(FLEETS_BUNDLES) {
        let text = "Fleet is installed, without its HelmOps controller: use manifests/beside-fleet";
        return Finding::ok(Group::Cluster, text);
    }
    Finding::ok(
        Group::Cluster,
        "Fleet is not installed: use manifests/standalone, or manifests/local with an agent for this cluster itself",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;

    #[test]
    fn kubernetes_must_be_new_enough() {
        for (major, minor, level) in [
            ("1", "36", Level::Ok),
            ("1", "30+", Level::Ok),
            ("1", "29", Level::Error),
            ("2", "0", Level::Ok),
        ] {
            assert_eq!(judge_version(major, minor, "v").level, level, "{major}.{minor}");
        }
    }

    #[test]
    fn fleet_decides_which_manifests_are_used() {
        for (deployments, level, text) in [
            (&[][..], Level::Ok, "manifests/standalone"),
            (&["fleet-controller"], Level::Ok, "manifests/beside-fleet"),
            (
                &["fleet-controller", "helmops"],
                Level::Error,
                "Fleet's own HelmOps controller",
            ),
        ] {
            let deployments: Vec<_> = deployments.iter().map(|&name| name.to_owned()).collect();
            let finding = judge_fleet(&deployments);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn missing_permissions_are_named() {
        assert_eq!(judge_permissions(&[]).level, Level::Ok);
        let finding = judge_permissions(&[Permission::new("create", "apps", "deployments")]);
        assert_eq!(finding.level, Level::Error);
        assert!(
            finding.message.ends_with("create deployments.apps"),
            "{finding:?}"
        );
    }
}
