//! What the ServiceAccounts may do, as the API server says it.

use std::collections::BTreeSet;

use helmops_tests::helm::Helm;
use helmops_tests::helmops::{NAMESPACE, manifests, objects};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::rights::{Right, granted};
use helmops_tests::service_account::service_account_kubeconfig;
use helmops_tests::test_bed::TestBed;

use crate::empty;
use crate::manifests::apply;

/// kubectl with the token of a ServiceAccount of helmops.
async fn as_account(bed: &TestBed, account: &str) -> Kubectl {
    let kubeconfig = service_account_kubeconfig(bed, NAMESPACE, account).await.unwrap();
    bed.kubectl().with_kubeconfig(&kubeconfig)
}

/// What `kubectl auth can-i --list` prints of objects, without what everybody may: to ask for one's own rights.
async fn can(kubectl: &Kubectl, namespace: &str) -> BTreeSet<Right> {
    let list = [
        "auth",
        "can-i",
        "--list",
        "--no-headers",
        "--namespace",
        namespace,
    ];
    let printed = kubectl.run(&list).await.unwrap().ok().unwrap();
    let mut rights = BTreeSet::new();
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
            let right = |name| Right {
                verb: verb.clone(),
                resource: format!("{resource}{slash}{part}"),
                group: group.to_owned(),
                name,
            };
            rights.extend(names.iter().map(|name| right(Some(name.clone()))));
            if names.is_empty() {
                rights.insert(right(None));
            }
        }
    }
    rights
}

#[tokio::test]
async fn each_account_may_do_what_the_manifests_say_and_nothing_else() {
    let bed = empty().await;
    apply(&bed.kubectl(), "beside-fleet", &[]).await;
    let given = granted(&objects(&bed.tools, "beside-fleet").await.unwrap()).unwrap();
    for account in ["helmops-controller", "helmops-webhook"] {
        let given = given.iter().filter(|granted| granted.role.ends_with(account));
        let given: BTreeSet<_> = given.map(|granted| granted.right.clone()).collect();
        assert!(given.len() > 5, "{given:?}");
        let kubectl = as_account(&bed, account).await;
        assert_eq!(can(&kubectl, NAMESPACE).await, given, "{account}");
    }
}

#[tokio::test]
async fn with_rights_in_some_namespaces_the_controller_reads_no_secret_of_another() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    for namespace in [NAMESPACE, "team-a", "team-b"] {
        kubectl
            .run(&["create", "namespace", namespace])
            .await
            .unwrap()
            .ok()
            .unwrap();
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
        let told = secrets(foreign).await.stderr;
        assert!(told.contains("secrets is forbidden"), "{foreign}: {told}");
    }
    assert_eq!(can(&controller, "team-b").await, BTreeSet::new());
}
