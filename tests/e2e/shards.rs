//! Shards: each has controllers of its own, which reconcile the HelmOps whose label names it.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use helmops_bed::audit::{self, Write};
use helmops_bed::helmops::{self, NAMESPACE};
use helmops_bed::leader::{LEASE, holder};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;
use crate::harness::own::{Fixture, start_controller};

const LABEL: &str = "fleet.cattle.io/shard-ref";

impl Fixture {
    /// Creates a HelmOp of a shard.
    async fn apply_to(&self, name: &str, shard: &str) {
        let mut helmop: Value = serde_json::from_str(&self.helmop(name, &json!({}))).unwrap();
        helmop["metadata"]["labels"] = json!({ LABEL: shard });
        self.create(&helmop).await;
    }

    async fn create(&self, object: &Value) {
        let create = ["create", "--filename=-"];
        let created = self.kubectl.run_with_input(&create, &object.to_string()).await;
        created.unwrap().ok().unwrap();
    }

    async fn until_bundle_in(&self, name: &str, shard: &Value) {
        eventually("the label of the Bundle", SOON, async || {
            let bundle = self.kubectl.get(&format!("bundle/{name}")).await?;
            let bundle = bundle.context("there is none")?;
            let found = &bundle["metadata"]["labels"][LABEL];
            ensure!(found == shard, "it is {found}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn each_shard_reconciles_its_own_helmops() {
    let fixture = Fixture::start(None).await.unwrap();
    let manifests = helmops::manifests();
    let shard = manifests.join("shard");
    fixture.run(&["apply", "-k", shard.to_str().unwrap()]).await;
    let mut other = start_controller(&fixture.bed, "shard-b", &[("FLEET_SHARD_ID", "b")])
        .await
        .unwrap();
    for (lease, name) in [
        (LEASE.to_owned(), "controller_"),
        (format!("{LEASE}-b"), "shard-b_"),
    ] {
        eventually("both to become leader", SOON, async || {
            let holder = holder(&fixture.kubectl, &lease).await?;
            ensure!(holder.starts_with(name), "{holder} holds {lease}");
            Ok(())
        })
        .await
        .unwrap();
    }

    fixture.apply("web", &json!({})).await;
    fixture.apply_to("shop", "b").await;
    fixture.apply_to("unassigned", "c").await;
    for name in ["web", "shop"] {
        fixture.until(name, "Accepted", "Accepted").await;
        fixture.until_version(name, "0.2.0").await;
    }
    fixture.until_bundle_in("web", &Value::Null).await;
    fixture.until_bundle_in("shop", &json!("b")).await;

    // A new resolution would choose this version.
    fixture.charts.add_version("alpine", "0.3.0").await.unwrap();
    let requests = fixture.server.requests("/index.yaml");
    fixture.run(&["label", "helmop/web", &format!("{LABEL}=b")]).await;
    fixture.run(&["label", "helmop/shop", &format!("{LABEL}-")]).await;
    fixture.until_bundle_in("web", &json!("b")).await;
    fixture.until_bundle_in("shop", &Value::Null).await;
    for name in ["web", "shop"] {
        fixture.until_version(name, "0.2.0").await;
    }
    assert_eq!(fixture.server.requests("/index.yaml"), requests);

    // From now on the other shard reconciles each of them.
    for name in ["web", "shop"] {
        fixture
            .run(&[
                "annotate",
                &format!("helmop/{name}"),
                "helmops.fleet.cattle.io/poll-requested-at=1",
            ])
            .await;
        fixture.until_version(name, "0.3.0").await;
    }
    assert_eq!(fixture.kubectl.get("bundle/unassigned").await.unwrap(), None);
    let writes = audit::writes(&fixture.bed.audit_log()).unwrap();
    let shards = shards(&writes);
    assert_eq!(shards_of("web", &writes, &shards), ["", "-b"]);
    assert_eq!(shards_of("shop", &writes, &shards), ["-b", ""]);
    assert!(shards_of("unassigned", &writes, &shards).is_empty());
    for shard in ["", "-b"] {
        let own = writes.iter().filter(|write| shards[&write.writer] == shard);
        let own: Vec<_> = own.cloned().collect();
        assert_eq!(audit::check_terms(&own).unwrap().acquisitions, 1);
    }
    // At its end it releases its own Lease.
    assert!(other.process.terminate(SOON).await.unwrap().success());
    let lease = format!("lease/{LEASE}-b");
    let lease = fixture
        .bed
        .kubectl()
        .in_namespace(NAMESPACE)
        .get(&lease)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
}

/// The shard of each writer, from the Lease that it writes: nothing, or `-` and the name of the shard.
fn shards(writes: &[Write]) -> BTreeMap<String, String> {
    let leases = writes
        .iter()
        .filter(|write| write.resource == "leases" && !write.name.is_empty());
    leases
        .map(|lease| {
            let shard = lease.name.strip_prefix(LEASE).unwrap().to_owned();
            (lease.writer.clone(), shard)
        })
        .collect()
}

/// The shards that wrote a HelmOp, one after the other.
fn shards_of(name: &str, writes: &[Write], shards: &BTreeMap<String, String>) -> Vec<String> {
    let of_helmop = writes
        .iter()
        .filter(|write| write.name == name && write.is_accepted());
    let mut found: Vec<_> = of_helmop.map(|write| shards[&write.writer].clone()).collect();
    found.dedup();
    found
}
