//! The memory of the notifier, whatever tenants write into the metadata of objects.

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use helmops_bed::{
    api::Api,
    helmops::{self, Part},
    usage,
    wait::eventually,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::fixture::{NAMESPACE, numbered, own, start_notifier};
use crate::harness::{SOON, helmop};

/// The memory limit of the manifests, in KiB.
const LIMIT: u32 = 128 << 10;
const PROVIDERS: usize = 500;
/// The example of a quota.
const HELMOPS: usize = 100;
const ALL: &str = "apis/helmops.fleet.cattle.io/v1alpha1/namespaces/default/alertproviders";

/// Labels of a megabyte.
fn large_labels() -> Value {
    let label = |number: usize| (format!("label-{number:05}"), "x".repeat(63).into());
    Value::Object((0..13_000).map(label).collect())
}

async fn create(api: &Api, path: &str, objects: Vec<Value>) {
    let requests = objects
        .into_iter()
        .map(|object| api.call(Method::POST, path, object));
    let created: Vec<_> = stream::iter(requests)
        .buffer_unordered(8)
        .try_collect()
        .await
        .unwrap();
    assert!(!created.is_empty());
}

#[tokio::test]
async fn metadata_of_tenants_do_not_use_up_the_memory() {
    let bed = helmops::control_plane_with(&[Part::Standalone, Part::Notifications], true)
        .await
        .unwrap();
    let api = Api::new(&bed).unwrap();
    let annotation = "x".repeat(250_000);
    let provider = |name: String| {
        let spec = json!({ "type": "generic", "address": "https://alerts.example.com" });
        let mut provider = own("AlertProvider", &name, &spec);
        provider["metadata"]["annotations"] = json!({ "large": annotation });
        provider
    };
    create(
        &api,
        ALL,
        numbered("provider", PROVIDERS)
            .into_iter()
            .map(provider)
            .collect(),
    )
    .await;
    let labels = large_labels();
    let labelled = |name: String| {
        let mut object: Value = serde_json::from_str(&helmop(&name, &json!({}))).unwrap();
        object["metadata"]["labels"] = labels.clone();
        object
    };
    let path = format!("apis/fleet.cattle.io/v1alpha1/namespaces/{NAMESPACE}/helmops");
    create(
        &api,
        &path,
        numbered("web", HELMOPS).into_iter().map(labelled).collect(),
    )
    .await;

    let notifier = start_notifier(&bed, "notifier").await.unwrap();
    let pid = notifier.process.pid().unwrap();
    let last = format!("{ALL}/provider-{:04}", PROVIDERS - 1);
    eventually("that all objects are read", 2 * SOON, async || {
        let memory = usage::memory(pid)?;
        let provider = api.get(&last).await?;
        let log = notifier.process.log();
        ensure!(
            provider["status"]["conditions"].is_array() && log.contains("its labels have more than 16 KiB"),
            "{memory:?}: {log}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let memory = usage::memory(pid).unwrap();
    println!(
        "{} MiB resident, {} MiB at most",
        memory.resident >> 10,
        memory.peak >> 10
    );
    assert!(memory.peak < LIMIT, "{memory:?}");
}
