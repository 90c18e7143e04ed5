//! The releases that an agent keeps, and whether they are gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::try_join_all;
use helmops_api::{BundleDeployment, Cluster, Decoded, labels::LEAVE_RELEASES};
use helmops_release::record::{OnDelete, OnDeletePolicy};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::{api_error, objects::undecoded, until::until},
    failure::Failure,
};

/// The most that is recorded: all annotations of an object have at most 256 KiB.
const MAX_RECORD: usize = 192 << 10;

/// A release of Helm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The namespace of its records.
    pub namespace: String,
    pub name: String,
    /// Whether the agent leaves it as it is when its BundleDeployment is deleted.
    pub is_kept: bool,
}

impl Release {
    /// That of a BundleDeployment, if it has been deployed: its status has `namespace/name:revision`.
    fn of(deployment: &BundleDeployment) -> Option<Self> {
        let (release, _revision) = deployment.status.release.rsplit_once(':')?;
        let lifecycle = deployment.spec.lifecycle.as_ref();
        let policy = lifecycle.map(|lifecycle| OnDelete::parse(&lifecycle.on_delete).policy);
        let release = Self::named(release, policy == Some(OnDeletePolicy::Keep))?;
        let namespace = deployment.spec.options.storage_namespace();
        Some(Self {
            namespace: namespace.map_or(release.namespace, str::to_owned),
            ..release
        })
    }

    /// That of `namespace/name`.
    fn named(qualified: &str, is_kept: bool) -> Option<Self> {
        let (namespace, name) = qualified.split_once('/')?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_kept,
        })
    }

    fn qualified(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The releases as they are recorded, each as `namespace/name`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    uninstall: Vec<String>,
    keep: Vec<String>,
}

/// The releases of a cluster, from the BundleDeployments in its namespace; and those of these that do not decode, with the error.
///
/// # Errors
/// If they cannot be listed.
pub async fn of(client: &Client, namespace: &str) -> Result<(Vec<Release>, Vec<String>), Failure> {
    if namespace.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let deployments = Api::<Decoded<BundleDeployment>>::namespaced(client.clone(), namespace);
    let found = deployments.list(&ListParams::default()).await;
    let found = found.map_err(|error| {
        api_error::failed(
            format!("cannot list BundleDeployments in namespace {namespace}"),
            &error,
        )
    })?;
    let deployments = found.items.iter().filter_map(Decoded::valid);
    let releases: BTreeSet<_> = deployments.filter_map(Release::of).collect();
    Ok((releases.into_iter().collect(), undecoded(&found.items).collect()))
}

/// The releases as text for an annotation of the Cluster: when their BundleDeployments are deleted, nothing else names them.
///
/// # Errors
/// If they are too many for an annotation.
pub fn record(releases: &[Release]) -> Result<String, Failure> {
    let names = |is_kept: bool| {
        let selected = releases.iter().filter(|release| release.is_kept == is_kept);
        selected.map(Release::qualified).collect()
    };
    let record = Record {
        uninstall: names(false),
        keep: names(true),
    };
    let text = serde_json::to_string(&record)
        .map_err(|error| Failure::because("cannot encode the releases", &error))?;
    if text.len() <= MAX_RECORD {
        return Ok(text);
    }
    let count = releases.len();
    Err(Failure::negative(format!(
        "the releases ({count}) are too many for an annotation of the Cluster"
    ))
    .with_hint("delete some of the HelmOps first, or let the cluster leave without --delete-releases"))
}

/// The releases that an earlier run has recorded.
///
/// # Errors
/// If the record does not decode.
pub fn recorded(cluster: &Cluster) -> Result<Vec<Release>, Failure> {
    let Some(text) = cluster.annotations().get(LEAVE_RELEASES) else {
        return Ok(Vec::new());
    };
    let attempt = format!(
        "annotation {LEAVE_RELEASES} of Cluster {} is invalid",
        cluster.name_any()
    );
    let record: Record = serde_json::from_str(text).map_err(|error| Failure::because(attempt, &error))?;
    let read = |names: Vec<String>, is_kept: bool| {
        let releases = names
            .into_iter()
            .filter_map(move |name| Release::named(&name, is_kept));
        releases.collect::<Vec<_>>()
    };
    Ok([read(record.uninstall, false), read(record.keep, true)].concat())
}

/// Those of an earlier run and those that still have a BundleDeployment, which says whether they are kept now.
pub fn merged(recorded: Vec<Release>, current: Vec<Release>) -> Vec<Release> {
    let all = recorded.into_iter().chain(current);
    let by_name = all.map(|release| (release.qualified(), release));
    by_name.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Waits until the agent has uninstalled the releases that it does not keep.
///
/// # Errors
/// If some are not gone in time; they are named.
pub async fn until_gone(
    client: &Client,
    releases: &[Release],
    timeout: Duration,
) -> Result<((), String), Failure> {
    let (kept, wanted): (Vec<_>, Vec<_>) = releases.iter().partition(|release| release.is_kept);
    let gone = until(timeout, async || {
        let left = try_join_all(wanted.iter().map(|release| is_deployed(client, release))).await?;
        Ok((!left.contains(&true)).then_some(()))
    });
    if gone.await?.is_some() {
        let suffix = if kept.is_empty() {
            String::new()
        } else {
            format!(", kept as their HelmOps say: {}", kept.len())
        };
        return Ok(((), format!("releases uninstalled: {}{suffix}", wanted.len())));
    }
    let mut left = Vec::new();
    for release in wanted {
        if is_deployed(client, release).await? {
            left.push(release.qualified());
        }
    }
    Err(Failure::unable(format!(
        "the agent has not uninstalled these releases: {}",
        left.join(", ")
    ))
    .with_hint("its Events show why: kubectl events --namespace NAMESPACE, on the workload cluster"))
}

/// Whether Helm has a record of the release that is not one of an uninstalled release.
async fn is_deployed(client: &Client, release: &Release) -> Result<bool, Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &release.namespace);
    let selector = format!("owner=helm,name={},status!=uninstalled", release.name);
    let found = secrets
        .list_metadata(&ListParams::default().labels(&selector).limit(1))
        .await;
    let found = found.map_err(|error| {
        api_error::failed(
            format!(
                "cannot list the records of release {}/{}",
                release.namespace, release.name
            ),
            &error,
        )
    })?;
    Ok(!found.items.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixture::answering;
    use serde_json::json;

    #[test]
    fn a_release_is_looked_for_where_its_records_are() {
        let deployment: BundleDeployment = serde_json::from_value(json!({
            "metadata": {}, "status": { "release": "shop/web:3" },
            "spec": { "options": { "lifecycle": { "storageNamespace": "flux" } } },
        }))
        .unwrap();
        assert_eq!(Release::of(&deployment).unwrap().qualified(), "flux/web");
    }

    #[test]
    fn the_release_of_a_bundle_deployment_is_in_its_status() {
        for (release, policy, expected) in [
            ("shop/web:3", "", Some(("shop", "web", false))),
            ("shop/web:3", "Keep", Some(("shop", "web", true))),
            ("", "", None),
            ("web", "", None),
        ] {
            let deployment: BundleDeployment = serde_json::from_value(json!({
                "metadata": {}, "spec": { "lifecycle": { "onDelete": policy } }, "status": { "release": release },
            }))
            .unwrap();
            let found = Release::of(&deployment);
            let found = found
                .as_ref()
                .map(|found| (&*found.namespace, &*found.name, found.is_kept));
            assert_eq!(found, expected, "{release} {policy}");
        }
    }

    #[tokio::test]
    async fn a_bundle_deployment_that_does_not_decode_hides_no_release() {
        let management = answering(|_| {
            let deployment = |name: &str, release| json!({ "metadata": { "namespace": "c1", "name": name }, "status": { "release": release } });
            let items = [
                deployment("web", json!("shop/web:3")),
                deployment("odd", json!(3)),
            ];
            std::future::ready(json!({ "metadata": {}, "items": items }))
        });
        let (releases, undecoded) = of(&management.client, "c1").await.unwrap();
        assert_eq!(releases, [release("shop/web", false)]);
        let expected = "BundleDeployment \"odd\" in namespace \"c1\" does not decode: ";
        assert!(
            undecoded.len() == 1 && undecoded[0].starts_with(expected),
            "{undecoded:?}"
        );
    }

    fn release(name: &str, is_kept: bool) -> Release {
        Release::named(name, is_kept).unwrap()
    }

    #[test]
    fn a_repeated_run_knows_the_releases_whose_bundle_deployments_are_deleted() {
        let all = [release("shop/web", false), release("shop/db", true)];
        let text = record(&all).unwrap();
        assert_eq!(text, r#"{"uninstall":["shop/web"],"keep":["shop/db"]}"#);
        let cluster = |text: &str| -> Cluster {
            let annotations = json!({ LEAVE_RELEASES: text });
            serde_json::from_value(json!({ "metadata": { "name": "c1", "annotations": annotations } }))
                .unwrap()
        };
        assert_eq!(recorded(&cluster(&text)).unwrap(), all);
        assert_eq!(recorded(&Cluster::default()).unwrap(), []);
        let invalid = recorded(&cluster("web")).unwrap_err().message;
        assert!(
            invalid.starts_with("annotation helmops.fleet.cattle.io/leave-releases of Cluster c1 is invalid"),
            "{invalid}"
        );
    }

    #[test]
    fn a_bundle_deployment_says_what_is_true_now() {
        let recorded = vec![release("shop/web", false), release("shop/db", true)];
        let current = vec![release("shop/db", false), release("shop/new", false)];
        assert_eq!(
            merged(recorded, current),
            [
                release("shop/db", false),
                release("shop/new", false),
                release("shop/web", false)
            ]
        );
    }

    #[test]
    fn more_releases_than_an_annotation_holds_are_refused() {
        let many: Vec<_> = (0..3_000)
            .map(|number| release(&format!("{}/{number}", "n".repeat(63)), false))
            .collect();
        let failure = record(&many).unwrap_err();
        assert!(
            failure.message.contains("the releases (3000) are too many"),
            "{}",
            failure.message
        );
    }
}
