//! For some time, certificates are valid for seconds and HelmOps are written continuously. Replicas are restarted one after the
//! other, the Secret and a CA bundle is emptied. No request fails because of a certificate or a restart, except in
//! the second after a CA bundle was emptied.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use helmops_bed::api::Api;
use serde_json::json;
use tokio::time::{interval, sleep};

use super::bed::{Bed, CONFIGURATIONS, SECRET, certificates};

/// Enough for two rotations of the CA.
const SECONDS: u64 = 75;
/// From this duration on, there is time for longer validities.
const LONG: u64 = 300;
const WRITERS: usize = 4;
/// Between two writes of a writer.
const PAUSE: Duration = Duration::from_millis(100);
/// After a CA bundle was emptied, requests may fail for this time.
const REPAIR_TIME: Duration = Duration::from_secs(1);

/// The events of a run.
#[derive(Default)]
struct Record {
    writes: u64,
    failures: Vec<(Instant, String)>,
    /// The start and the end of the request that emptied a CA bundle.
    emptied: Option<(Instant, Instant)>,
    leaves: BTreeSet<String>,
    cas: BTreeSet<String>,
    restarts: u32,
}

impl Record {
    fn add_write(&mut self, started: Instant, result: Result<()>) {
        self.writes += 1;
        if let Err(error) = result {
            self.failures.push((started, format!("{error:#}")));
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes, {} failed; {} certificates of {} CAs; {} replicas restarted",
            self.writes,
            self.failures.len(),
            self.leaves.len(),
            self.cas.len(),
            self.restarts
        )
    }
}

#[tokio::test]
async fn no_request_fails_while_certificates_rotate_and_replicas_restart() -> Result<()> {
    let seconds = match env::var("HELMOPS_SOAK_SECONDS") {
        Ok(text) => text.parse()?,
        Err(_) => SECONDS,
    };
    let (leaf, ca) = if seconds < LONG {
        ("15s", "45s")
    } else {
        ("60s", "180s")
    };
    let mut bed = Bed::start(&[
        ("HELMOPS_TLS_VALIDITY", leaf),
        ("HELMOPS_TLS_CA_VALIDITY", ca),
        ("HELMOPS_SHUTDOWN_DELAY", "2s"),
    ])
    .await?;
    bed.configure().await?;
    for name in ["one", "two"] {
        bed.add(name).await?;
    }
    for name in ["one", "two"] {
        bed.until_ready(name).await?;
    }
    bed.until_admits().await?;
    let api = Api::new(&bed.cluster)?;
    create(&api).await?;

    let record = RefCell::new(Record::default());
    let is_done = Cell::new(false);
    let writers = join_all((0..WRITERS).map(|writer| write(&api, writer, &record, &is_done)));
    let disruptions = async {
        let done = disrupt(&mut bed, Duration::from_secs(seconds), &record).await;
        is_done.set(true);
        done
    };
    let (disruptions, _) = tokio::join!(disruptions, writers);
    disruptions?;
    let record = record.into_inner();
    println!("soak: {seconds} s with validities of {leaf} and {ca}: {record}");
    check(&record, seconds)
}

fn check(record: &Record, seconds: u64) -> Result<()> {
    let is_excused = |at| {
        record
            .emptied
            .is_some_and(|(start, end)| start <= at && at < end + REPAIR_TIME)
    };
    let failures: Vec<_> = record
        .failures
        .iter()
        .filter(|(at, _)| !is_excused(*at))
        .collect();
    ensure!(failures.is_empty(), "{} failed: {failures:?}", failures.len());
    ensure!(record.writes > seconds * 10, "{record}");
    ensure!(record.leaves.len() >= 5 && record.cas.len() >= 3, "{record}");
    Ok(())
}

async fn create(api: &Api) -> Result<()> {
    let helmop = |writer| {
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
            "metadata": { "name": format!("soak-{writer}") },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.0.0" } },
        })
    };
    api.create("default", "helmops", (0..WRITERS).map(helmop).collect())
        .await
}

/// Changes a HelmOp repeatedly, so that the API server calls both webhooks.
async fn write(api: &Api, writer: usize, record: &RefCell<Record>, is_done: &Cell<bool>) {
    let name = format!("soak-{writer}");
    let mut counter = 0_u64;
    while !is_done.get() {
        counter += 1;
        let change = json!({ "spec": { "helm": { "version": format!("1.0.{counter}") } } });
        let started = Instant::now();
        let result = api.patch("default", "helmops", &name, change).await;
        record.borrow_mut().add_write(started, result);
        sleep(PAUSE).await;
    }
}

/// Disrupts certificates and replicas, distributed over this time.
async fn disrupt(bed: &mut Bed, time: Duration, record: &RefCell<Record>) -> Result<()> {
    let started = Instant::now();
    let mut restarts = 0;
    for part in 1..=10 {
        match part {
            2 | 5 | 9 => {
                restarts += 1;
                roll(bed, restarts, record).await?;
            }
            4 => bed.patch(SECRET, &json!({ "data": null })).await?,
            7 => {
                let emptying = Instant::now();
                let change =
                    json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "" }]);
                bed.run(&[
                    "patch",
                    CONFIGURATIONS[1],
                    "--type=json",
                    "-p",
                    &change.to_string(),
                ])
                .await?;
                record.borrow_mut().emptied = Some((emptying, Instant::now()));
            }
            _ => {}
        }
        watch(bed, started + time * part / 10, record).await?;
    }
    Ok(())
}

/// Records the certificates in the Secret until then.
async fn watch(bed: &Bed, until: Instant, record: &RefCell<Record>) -> Result<()> {
    let mut ticks = interval(Duration::from_millis(500));
    while Instant::now() < until {
        ticks.tick().await;
        let Ok(secret) = bed.secret().await else { continue };
        let mut record = record.borrow_mut();
        record.leaves.extend(secret.get("tls.crt").cloned());
        let cas = secret.get("ca.crt").map(String::as_str).unwrap_or_default();
        let each = cas
            .split_inclusive("-----END CERTIFICATE-----\n")
            .map(str::to_owned);
        record.cas.extend(each.filter(|text| certificates(text) == 1));
    }
    Ok(())
}

/// Restarts both replicas one after the other, as a Deployment does: the new one is ready before the old one is terminated.
async fn roll(bed: &mut Bed, round: u32, record: &RefCell<Record>) -> Result<()> {
    let names: Vec<_> = bed.replicas.keys().cloned().collect();
    for (number, name) in names.iter().enumerate() {
        let fresh = format!("replica-{round}-{number}");
        bed.add(&fresh).await?;
        bed.until_ready(&fresh).await?;
        let all_ready = helmops_bed::wait::eventually(
            "the load balancer to detect the new replica",
            Duration::from_secs(10),
            async || {
                ensure!(bed.balancer.ready() == 3, "{} are ready", bed.balancer.ready());
                Ok(())
            },
        );
        all_ready.await.context(fresh)?;
        bed.terminate(name).await?;
        record.borrow_mut().restarts += 1;
    }
    Ok(())
}
