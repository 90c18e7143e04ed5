//! The fixture: a control plane with the notifier. The tests write the statuses of HelmOps as a controller would.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use crate::harness::{condition, helmop, run, until};

/// The namespace of the HelmOps and Alerts.
pub const NAMESPACE: &str = "default";

/// A control plane with the notifier in it.
pub struct Fixture {
    pub notifier: Running,
    pub kubectl: Kubectl,
    pub api: Api,
    pub bed: TestBed,
}

impl Fixture {
    pub async fn start() -> Result<Self> {
        let bed = helmops::control_plane_with(&[Part::Standalone, Part::Notifications], true).await?;
        Ok(Self {
            notifier: start_notifier(&bed, "notifier").await?,
            api: Api::new(&bed)?,
            kubectl: bed.kubectl(),
            bed,
        })
    }

    pub async fn apply(&self, object: &Value) {
        self.kubectl
            .apply(&object.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    /// An AlertProvider with this spec.
    pub async fn provider(&self, name: &str, spec: &Value) {
        self.apply(&own("AlertProvider", name, spec)).await;
    }

    /// An Alert of all HelmOps to an AlertProvider, with changes of its spec.
    pub async fn alert(&self, name: &str, provider: &str, over: &Value) {
        let mut spec = json!({
            "providerRef": { "name": provider },
            "eventSources": [{ "kind": "HelmOp", "name": "*" }],
            "grouping": { "wait": "1s" },
        });
        json_patch::merge(&mut spec, over);
        self.apply(&own("Alert", name, &spec)).await;
    }

    pub async fn secret(&self, name: &str, data: &Value) {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data }))
            .await;
    }

    pub async fn helmops(&self, names: &[String]) {
        let objects = names
            .iter()
            .map(|name| serde_json::from_str(&helmop(name, &json!({}))).unwrap());
        self.api
            .create(NAMESPACE, "helmops", objects.collect())
            .await
            .unwrap();
    }

    /// Writes the status of HelmOps.
    pub async fn statuses(&self, names: &[String], status: &Value) {
        let mut patch = json!({ "status": status });
        patch["status"]["observedGeneration"] = json!(1);
        let patches = names.iter().map(|name| (name.clone(), patch.clone()));
        self.api
            .patch_status(NAMESPACE, "helmops", patches.collect())
            .await
            .unwrap();
    }

    /// Waits until the condition `Ready` of an object has this reason.
    pub async fn until_ready_is(&self, object: &str, reason: &str) -> Value {
        until(&self.kubectl, object, |found| {
            let ready = condition(found, "Ready").context("no condition")?;
            ensure!(ready["reason"] == reason, "it is {ready}");
            Ok(())
        })
        .await
    }

    pub async fn until(&self, object: &str, check: impl Fn(&Value) -> Result<()>) -> Value {
        until(&self.kubectl, object, check).await
    }

    pub async fn run(&self, arguments: &[&str]) -> String {
        run(&self.kubectl, arguments).await
    }
}

/// A killed process holds the Lease for a shorter time than by default.
const LEASE: [(&str, &str); 3] = [
    ("HELMOPS_LEASE_DURATION", "6s"),
    ("HELMOPS_RENEW_DEADLINE", "4s"),
    ("HELMOPS_RETRY_PERIOD", "1s"),
];

pub async fn start_notifier(bed: &TestBed, name: &str) -> Result<Running> {
    let command = |program: &Path| {
        let mut command = bed.command(program);
        command.envs(LEASE);
        command
    };
    helmops::start_notifier(bed, name, &command).await
}

/// An object of helmops' own group.
pub fn own(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// The status of a HelmOp that is ready in a version.
pub fn ready(version: &str) -> Value {
    json!({ "version": version, "summary": null, "conditions": [
        { "type": "Accepted", "status": "True", "reason": "Accepted" }, { "type": "Ready", "status": "True", "reason": "Ready" },
    ] })
}

/// The status of a HelmOp that is not accepted.
pub fn refused(reason: &str, message: &str) -> Value {
    json!({ "version": "1.0.0", "summary": null, "conditions": [
        { "type": "Accepted", "status": "False", "reason": reason, "message": message },
        { "type": "Ready", "status": "False", "reason": reason, "message": message },
    ] })
}

/// The status of a HelmOp of which some of 200 clusters fail while the others progress.
pub fn failing_clusters(number: i64) -> Value {
    let example = |number: i64| json!({ "name": format!("fleet/c-{number}"), "bundleState": "ErrApplied", "message": "no space left" });
    json!({ "version": "2.0.0", "summary": {
        "desiredReady": 200, "ready": 0, "errApplied": number, "waitApplied": 200 - number,
        "nonReadyResources": (1..=number.min(10)).map(example).collect::<Vec<_>>(),
    }, "conditions": [
        { "type": "Accepted", "status": "True", "reason": "Accepted" },
        { "type": "Ready", "status": "False", "reason": if number == 200 { "NotReady" } else { "Progressing" }, "message": "" },
    ] })
}

/// Names with a number.
pub fn numbered(prefix: &str, number: usize) -> Vec<String> {
    (0..number).map(|one| format!("{prefix}-{one:04}")).collect()
}

/// A number in the status of an Alert; zero if it is missing.
pub fn count(alert: &Value, field: &str) -> i64 {
    alert["status"][field].as_i64().unwrap_or_default()
}
