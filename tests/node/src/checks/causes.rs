//! Workloads that fail in the ways that containers fail, and what users see of it.

use anyhow::{Context, Result, ensure};
use helmops_bed::command;
use helmops_bed::test_bed::binary;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::process::Command;

use crate::node::condition;
use crate::report::{Report, contains, note};
use crate::site::{NAMESPACE, Site};

/// A HelmOp without a life cycle, which fails as the second case does.
const PLAIN: &str = "plain";
const DEADLINE: Duration = Duration::from_secs(30);

/// A failing workload: its name, its values, and what the message of its HelmOp must have.
type Case = (&'static str, Value, &'static [&'static str]);

fn cases() -> [Case; 8] {
    let container = |part: Value| json!({ "container": part });
    let volume = json!([{ "name": "tls", "secret": { "secretName": "shop-tls" } }]);
    [
        (
            "crash",
            container(json!({ "args": ["crash"] })),
            &["container app", "exit code 3", "fatal: cannot open the database"],
        ),
        // Kubernetes shows such a container as ready for a moment.
        (
            "unprobed",
            json!({ "probed": false, "container": { "args": ["crash"] } }),
            &["container app", "exit code 3", "fatal: cannot open the database"],
        ),
        (
            "image",
            container(json!({ "image": "registry.node.test/none:1" })),
            &["container app", "registry.node.test/none:1"],
        ),
        (
            "memory",
            container(json!({ "args": ["memory", "64"], "resources": { "limits": { "memory": "32Mi" } } })),
            &["container app", "OOMKilled"],
        ),
        (
            "resources",
            container(json!({ "resources": { "requests": { "cpu": "1000" } } })),
            &["Insufficient cpu"],
        ),
        (
            "probe",
            container(json!({
                "env": [{ "name": "NEVER_READY", "value": "yes" }],
            })),
            &["container app", "503"],
        ),
        (
            "mount",
            json!({
                "pod": { "volumes": volume },
                "container": { "volumeMounts": [{ "name": "tls", "mountPath": "/tls" }] },
            }),
            &["shop-tls", "not found"],
        ),
        (
            "configuration",
            container(json!({
                "env": [{
                    "name": "TOKEN",
                    "valueFrom": { "secretKeyRef": { "name": "shop", "key": "token" } },
                }],
            })),
            &["container app", "secret \"shop\" not found"],
        ),
    ]
}

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    alert(site).await?;
    let apply = async |name: &str, values: &Value, lifecycle: Value| {
        let chart = json!({ "chart": "pod", "releaseName": name, "values": values });
        site.apply(name, &json!({ "helm": chart, "lifecycle": lifecycle }))
            .await
    };
    let cases = cases();
    for (name, values, _) in &cases {
        apply(
            name,
            values,
            json!({ "wait": { "timeout": "12s" }, "install": { "retries": 0 } }),
        )
        .await?;
    }
    // The one without probes.
    let (_, crash, cause) = &cases[1];
    apply(PLAIN, crash, Value::Null).await?;
    for (name, _, parts) in &cases {
        let what = format!("{name}: the message of the HelmOp has the cause");
        report
            .within(60, &what, async || site.says(name, parts).await)
            .await;
        note(&site.message(name).await?);
    }
    let same = async || site.says(PLAIN, cause).await;
    report.within(30, "the same without a life cycle", same).await;
    let (status, restarts) = (ready(site).await?, crashes(site).await?);
    note("$ kubectl get helmops -n fleet-local");
    note(&site.run(&["get", "helmops", "--namespace=fleet-local"]).await?);
    for command in ["status", "tree"] {
        let shown = plugin(&[command, PLAIN, "--namespace", NAMESPACE]).await?;
        note(&format!(
            "$ kubectl helmop {command} {PLAIN} -n fleet-local\n{shown}"
        ));
        let has_cause = async { cause.iter().try_for_each(|part| contains(&shown, part)) };
        report
            .check(&format!("{command} shows the cause"), has_cause)
            .await;
    }
    for (name, _, parts) in &cases {
        let what = format!("{name}: the Alert has the cause");
        report
            .within(60, &what, async || received(site, name, parts).await.map(drop))
            .await;
        note(&received(site, name, parts).await.unwrap_or_default());
    }
    let again = async || {
        let now = crashes(site).await?;
        ensure!(now >= restarts + 2, "{now} restarts");
        Ok(())
    };
    report
        .within(60, "a container without probes crashes twice more", again)
        .await;
    let same = async {
        let now = ready(site).await?;
        ensure!(now == status, "it was {status} and is {now}");
        Ok(())
    };
    report.check("its status has not changed meanwhile", same).await;
    let names: Vec<_> = cases.iter().map(|(name, ..)| *name).chain([PLAIN]).collect();
    site.delete(&names).await?;
    let gone = async || {
        for name in &names {
            site.gone(name, &format!("deployment/{name}")).await?;
        }
        Ok(())
    };
    report.within(60, "all are uninstalled", gone).await;
    Ok(())
}

/// The condition `Ready` of the HelmOp without a life cycle.
async fn ready(site: &Site) -> Result<Value> {
    let helmop = site.get(NAMESPACE, &format!("helmop/{PLAIN}")).await?;
    let ready = condition(&helmop, "Ready").cloned();
    ready.context("it has no condition Ready")
}

/// How often its container has restarted.
async fn crashes(site: &Site) -> Result<u64> {
    let pods = site.list(&format!("api/v1/namespaces/{PLAIN}/pods")).await?;
    let pod = pods.first().context("it has no pod")?;
    let count = &pod["status"]["containerStatuses"][0]["restartCount"];
    count.as_u64().context("it has not started")
}

/// The message of an Alert for a HelmOp.
async fn received(site: &Site, name: &str, parts: &[&str]) -> Result<String> {
    let log = site
        .run(&["logs", "--namespace=charts", "deployment/sink"])
        .await?;
    let messages = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages = messages.map(|message| message["message"].as_str().unwrap_or_default().to_owned());
    let object = format!(" {name}/");
    let of_object = messages.filter(|message| message.contains(&object));
    let with_cause = of_object
        .into_iter()
        .find(|message| parts.iter().all(|part| message.contains(part)));
    with_cause.with_context(|| format!("{name} has no such message"))
}

/// Sends the errors of all HelmOps to a Service of the cluster.
async fn alert(site: &Site) -> Result<()> {
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1",
            "kind": "AlertProvider",
            "metadata": { "name": "sink", "namespace": NAMESPACE },
            "spec": { "type": "generic", "address": "http://sink.charts.svc/" },
        },
        {
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1",
            "kind": "Alert",
            "metadata": { "name": "all", "namespace": NAMESPACE },
            "spec": { "providerRef": { "name": "sink" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }] },
        },
    ] });
    let applied = site.kubectl.apply(&objects.to_string()).await?;
    applied.ok().map(drop).context("cannot create an Alert")
}

/// What `kubectl helmop` prints.
async fn plugin(arguments: &[&str]) -> Result<String> {
    let mut plugin = Command::new(binary("kubectl-helmop")?);
    plugin.args(arguments);
    let output = command::run(plugin, "", DEADLINE).await?;
    // Its exit status shows whether the HelmOp is ready.
    Ok(output.stdout)
}
