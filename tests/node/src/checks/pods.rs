//! The pods of helmops under their security contexts.

use anyhow::{Context, Result, ensure};
use helmops_bed::metrics::Metrics;

use super::PROCESSES;
use crate::report::Report;
use crate::site::{SYSTEM, Site};

/// What the kernel says of a process without privileges: user 65532, no capabilities, `no_new_privs`, and a seccomp filter.
const RESTRICTED: [&str; 5] = [
    "Uid:\t65532\t65532",
    "CapEff:\t0000000000000000",
    "CapBnd:\t0000000000000000",
    "NoNewPrivs:\t1",
    "Seccomp:\t2",
];

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    report
        .within(30, "all pods are ready", async || site.settled().await)
        .await;
    let unharmed = async {
        let restarts = site.restarts().await?;
        ensure!(restarts == 0, "{restarts} restarts");
        Ok(())
    };
    report.check("no container has restarted", unharmed).await;
    for process in PROCESSES {
        let what = format!(
            "{process}: user 65532, no capabilities, no new privileges, a seccomp filter, a read-only root"
        );
        report.check(&what, restricted(site, process)).await;
    }
    report
        .check(
            "the Lease of the controller has the name of its pod",
            leader(site),
        )
        .await;
    report
        .check(
            "each PodDisruptionBudget allows one disruption",
            disruptions(site),
        )
        .await;
    report
        .check(
            "the webhook has set caBundle in both configurations",
            bundles(site),
        )
        .await;
    report
        .check("namespace helmops-system enforces restricted", enforced(site))
        .await;
    for process in ["helmops-webhook", "helmops-controller"] {
        let what = format!("{process}: its Service has metrics");
        report
            .within(20, &what, async || metrics(site, process).await)
            .await;
    }
    Ok(())
}

async fn restricted(site: &Site, process: &str) -> Result<()> {
    let pid = *site
        .processes(process)
        .await?
        .first()
        .context("it has no process")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    for line in RESTRICTED {
        ensure!(status.contains(line), "{line:?} is not in {status}");
    }
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/"));
    let options = root
        .and_then(|line| line.split(' ').nth(5))
        .context("it has no root")?;
    ensure!(
        options.split(',').any(|option| option == "ro"),
        "the root is mounted with {options}"
    );
    Ok(())
}

async fn leader(site: &Site) -> Result<()> {
    let lease = site
        .get(SYSTEM, "lease/fleet-helmops-leader-election-shard")
        .await?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let pod = site.pod("helmops-controller").await?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    ensure!(holder.contains(name), "pod {name} is not {holder:?}");
    Ok(())
}

async fn disruptions(site: &Site) -> Result<()> {
    let budgets = site
        .list("apis/policy/v1/poddisruptionbudgets?labelSelector=app.kubernetes.io%2Fpart-of%3Dhelmops")
        .await?;
    ensure!(budgets.len() == PROCESSES.len(), "there are {}", budgets.len());
    for budget in budgets {
        ensure!(
            budget["status"]["disruptionsAllowed"] == 1,
            "{} has {}",
            budget["metadata"]["name"],
            budget["status"]
        );
    }
    Ok(())
}

async fn bundles(site: &Site) -> Result<()> {
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let found = site.get("default", &format!("{kind}/helmops")).await?;
        let bundle = &found["webhooks"][0]["clientConfig"]["caBundle"];
        ensure!(bundle.is_string(), "{kind} has caBundle {bundle}");
    }
    Ok(())
}

async fn enforced(site: &Site) -> Result<()> {
    let namespace = site.get("default", &format!("namespace/{SYSTEM}")).await?;
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    ensure!(level == "restricted", "it enforces {level}");
    Ok(())
}

async fn metrics(site: &Site, process: &str) -> Result<()> {
    let service = site.get(SYSTEM, &format!("service/{process}")).await?;
    let address = service["spec"]["clusterIP"]
        .as_str()
        .context("it has no address")?;
    let metrics = Metrics::scrape(&format!("http://{address}:8081/metrics")).await?;
    let version = metrics.sum("helmops_build_info", &[]);
    ensure!(version.is_some(), "there is no helmops_build_info");
    Ok(())
}
