//! The permissions of the ServiceAccounts, according to the API server.

use std::collections::BTreeSet;

use helmops_bed::helm::Helm;
use helmops_bed::helmops::{NAMESPACE, manifests, objects};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::permissions::{Permission, granted};
use helmops_bed::service_account::service_account_kubeconfig;
use helmops_bed::test_bed::TestBed;

use super::empty;
use super::manifests::apply;
use crate::harness::run;

/// kubectl with the token of a ServiceAccount of helmops.
async fn as_account(bed: &TestBed, account: &str) -> Kubectl {
    let kubeconfig = service_account_kubeconfig(bed, NAMESPACE, account).await.unwrap();
    bed.kubectl().with_kubeconfig(&kubeconfig)
}

/// The permissions for objects that `kubectl auth can-i --list` prints, without self reviews, which every user may create.
async fn list_permissions(kubectl: &Kubectl, namespace: &str) -> BTreeSet<Permission> {
    let list = [
        "auth",
        "can-i",
        "--list",
        "--no-headers",
        "--namespace",
        namespace,
    ];
    let printed = kubectl.run(&list).await.unwrap().ok().unwrap();
    let mut permissions = BTreeSet::new();
    for line in printed.lines() {
        let (resource, rest) = line.split_once(char::is_whitespace).unwrap();
        if resource.is_empty() || resource.starts_with("self") {
            continue;
        }
        let lists: Vec<Vec<String>> = rest
            .split('[')
            .skip(1)
            .map(|list| {
                list.split_once(']')
                    .unwrap()
                    .0
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect()
            })
            .collect();
        let [_, names, verbs] = <[Vec<String>; 3]>::try_from(lists).unwrap();
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (group, part) = group.split_once('/').unwrap_or((group, ""));
        let slash = if part.is_empty() { "" } else { "/" };
        for verb in verbs {
            let permission = |name| Permission {
                verb: verb.clone(),
                resource: format!("{resource}{slash}{part}"),
                group: group.to_owned(),
                name,
            };
            permissions.extend(names.iter().map(|name| permission(Some(name.clone()))));
            if names.is_empty() {
                permissions.insert(permission(None));
            }
        }
    }
    permissions
}

#[tokio::test]
async fn each_account_has_exactly_the_permissions_of_the_manifests() {
    let bed = empty().await;
    apply(&bed.kubectl(), "beside-fleet", &[]).await;
    let all = granted(&objects(&bed.tools, "beside-fleet").await.unwrap()).unwrap();
    for account in ["helmops-controller", "helmops-webhook"] {
        let granted = all.iter().filter(|granted| granted.role.ends_with(account));
        let granted: BTreeSet<_> = granted.map(|granted| granted.permission.clone()).collect();
        assert!(granted.len() > 5, "{granted:?}");
        let kubectl = as_account(&bed, account).await;
        assert_eq!(list_permissions(&kubectl, NAMESPACE).await, granted, "{account}");
    }
}

#[tokio::test]
async fn a_namespaced_controller_reads_no_secret_of_another_namespace() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    for namespace in [NAMESPACE, "team-a", "team-b"] {
        run(&kubectl, &["create", "namespace", namespace]).await;
    }
    let chart = manifests();
    let helm = Helm::new(&bed.tools, &bed.directory);
    let rendered = helm
        .run(&[
            "template",
            "helmops",
            chart.to_str().unwrap(),
            "--namespace",
            NAMESPACE,
            "--set=controller.watchNamespaces={team-a}",
        ])
        .await
        .unwrap();
    kubectl.apply(&rendered).await.unwrap().ok().unwrap();
    let controller = as_account(&bed, "helmops-controller").await;
    let secrets = async |namespace| {
        let get = ["get", "secrets", "--namespace", namespace];
        controller.run(&get).await.unwrap()
    };
    assert_eq!(
        secrets("team-a").await.stderr,
        "No resources found in team-a namespace.\n"
    );
    for foreign in ["team-b", NAMESPACE, "kube-system"] {
        let error = secrets(foreign).await.stderr;
        assert!(error.contains("secrets is forbidden"), "{foreign}: {error}");
    }
    assert_eq!(list_permissions(&controller, "team-b").await, BTreeSet::new());
}
