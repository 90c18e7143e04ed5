//! Which HelmOps are polled for pushes.

use helmops_api::{
    HelmOp, NamespacedName, PackedChartSource,
    notifications::{Push, ReceiverSpec},
};

use super::matching::Followed;
use crate::source::{Kind, Labels, ObjectId, Privileged, Selector};

/// The repositories that a HelmOp follows, for all its targets, each once.
pub fn followed_by(helmop: &HelmOp) -> Vec<Followed> {
    // Nothing else chooses the chart then.
    match helmop.spec.packed() {
        Some(PackedChartSource::Git(git)) => return Followed::of_git(&git.url).into_iter().collect(),
        Some(PackedChartSource::Artifact(source)) => {
            return Followed::of(&source.url, "").into_iter().collect();
        }
        // No server announces objects in one of the forms that are read, and ConfigMaps are watched.
        Some(PackedChartSource::Bucket(_) | PackedChartSource::ConfigMaps(_)) => return Vec::new(),
        None => {}
    }
    let bundle = &helmop.spec.bundle;
    let main = bundle.options.helm.as_ref();
    let of = |repo: &str, chart: &str| Followed::of(repo, chart);
    let mut all: Vec<Followed> = main
        .and_then(|helm| of(&helm.repo, &helm.chart))
        .into_iter()
        .collect();
    for own in bundle
        .targets
        .iter()
        .filter_map(|target| target.options.helm.as_ref())
    {
        // A target inherits what it does not set.
        let repo = if own.repo.is_empty() {
            main.map_or("", |helm| &helm.repo)
        } else {
            &own.repo
        };
        let chart = if own.chart.is_empty() {
            main.map_or("", |helm| &helm.chart)
        } else {
            &own.chart
        };
        all.extend(of(repo, chart).filter(|followed| !all.contains(followed)));
    }
    all
}

/// Whether a Receiver polls a HelmOp for these pushes: it may, and the HelmOp follows a repository that one of them names.
///
/// Only a Receiver in a privileged namespace selects HelmOps of other namespaces, whatever it says: admission can be bypassed.
pub fn is_polled<L: Labels + ?Sized>(
    spec: &ReceiverSpec,
    namespace: &str,
    privileged: &Privileged,
    pushes: &[&Push],
    (name, labels, followed): (&NamespacedName, &L, &[Followed]),
) -> bool {
    let is_named = || {
        let repositories = pushes.iter().map(|push| &*push.repository);
        let mut repositories = repositories;
        repositories.any(|repository| followed.iter().any(|followed| followed.is_named_by(repository)))
    };
    is_selected(spec, namespace, privileged, name, labels) && is_named()
}

fn is_selected<L: Labels + ?Sized>(
    spec: &ReceiverSpec,
    namespace: &str,
    privileged: &Privileged,
    name: &NamespacedName,
    labels: &L,
) -> bool {
    if spec.resources.is_empty() {
        return name.namespace == namespace;
    }
    let id = ObjectId {
        kind: Kind::HelmOp,
        name: name.clone(),
    };
    let mut selectors = spec.resources.iter().map(Selector::from);
    selectors.any(|selector| selector.selects(namespace, privileged, &id, labels))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn helmop(spec: &Value) -> HelmOp {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn a_helmop_follows_the_repositories_of_all_its_targets() {
        let helmop = helmop(&json!({
            "helm": { "repo": "https://h.example/stable", "chart": "web" },
            "targets": [
                { "clusterName": "a", "helm": { "version": "1.x" } },
                { "clusterName": "b", "helm": { "repo": "oci://r.example/web" } },
                { "clusterName": "c", "helm": { "repo": "https://h.example/edge" } },
                { "clusterName": "d" },
            ],
        }));
        let followed = followed_by(&helmop);
        for (repository, count) in [
            ("h.example/stable", 1),
            ("h.example/edge/web", 1),
            ("h.example/other", 0),
            ("", followed.len()),
        ] {
            assert_eq!(
                followed
                    .iter()
                    .filter(|followed| followed.is_named_by(repository))
                    .count(),
                count,
                "{repository}"
            );
        }
        assert_eq!(followed_by(&HelmOp::default()), []);
    }

    #[test]
    fn a_helmop_with_git_follows_its_git_repository_alone() {
        let helmop = helmop(&json!({
            "chartSource": { "git": { "url": "git@git.example.com:team/charts.git", "path": "charts/web" } },
            "helm": { "repo": "https://h.example/stable", "chart": "web" },
            "targets": [{ "clusterName": "a", "helm": { "values": { "a": 1 } } }],
        }));
        let expected = Followed::of_git("https://git.example.com/team/charts").unwrap();
        assert_eq!(followed_by(&helmop), [expected]);
    }

    #[test]
    fn a_helmop_with_an_artifact_follows_its_repository_alone() {
        let helmop = helmop(
            &json!({ "chartSource": { "oci": { "url": "oci://r.example.com/team/web", "path": "charts/web" } } }),
        );
        let expected = Followed::of("oci://r.example.com/team/web", "").unwrap();
        assert_eq!(followed_by(&helmop), [expected]);
    }

    #[test]
    fn a_receiver_polls_what_it_selects_and_what_was_pushed() {
        let followed = [Followed::of("oci://r.example/charts/web", "").unwrap()];
        let labels: BTreeMap<String, String> = [("app".to_owned(), "web".to_owned())].into();
        let privileged = Privileged::new(["helmops-system".to_owned()]);
        for (resources, namespace, pushed, expected) in [
            (json!([]), "shop", &["r.example/charts/web"][..], true),
            (json!([]), "shop", &["r.example/charts/other"], false),
            (json!([]), "shop", &["other", "charts/web"], true),
            (json!([]), "shop", &[""], true),
            (json!([]), "shop", &[], false),
            (json!([]), "other", &[""], false),
            (json!([]), "helmops-system", &[""], false),
            (
                json!([{ "name": "*", "namespace": "shop" }]),
                "helmops-system",
                &[""],
                true,
            ),
            (
                json!([{ "name": "*", "namespace": "*" }]),
                "helmops-system",
                &[""],
                true,
            ),
            (
                json!([{ "name": "*", "namespace": "shop" }]),
                "other",
                &[""],
                false,
            ),
            (
                json!([{ "name": "*", "matchLabels": { "app": "web" } }]),
                "shop",
                &[""],
                true,
            ),
            (
                json!([{ "name": "*", "matchLabels": { "app": "db" } }]),
                "shop",
                &[""],
                false,
            ),
            (json!([{ "name": "db" }, { "name": "web" }]), "shop", &[""], true),
            (json!([{ "name": "db" }]), "shop", &[""], false),
        ] {
            let spec: ReceiverSpec = serde_json::from_value(json!({ "resources": resources })).unwrap();
            let pushes: Vec<_> = pushed
                .iter()
                .map(|repository| Push {
                    repository: (*repository).into(),
                    ..Push::default()
                })
                .collect();
            let pushes: Vec<_> = pushes.iter().collect();
            let name = NamespacedName::new("shop", "web");
            let is_polled = is_polled(
                &spec,
                namespace,
                &privileged,
                &pushes,
                (&name, &labels, &followed),
            );
            assert_eq!(is_polled, expected, "{resources} {namespace} {pushed:?}");
        }
    }
}
