//! For a while certificates live for seconds and HelmOps are written without a break. Replicas are restarted one after the
//! other, the Secret is deleted and a bundle is emptied. No request fails for a certificate or a restart, but in the second
//! after a bundle was emptied.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use helmops_tests::api::Api;
use serde_json::json;
use tokio::time::{interval, sleep};

use crate::bed::{Bed, CONFIGURATIONS, SECRET, certificates};

/// A CA is followed by another twice.
const SECONDS: u64 = 75;
/// From here on there is time for lives that are a little less odd.
const LONG: u64 = 300;
const WRITERS: usize = 4;
/// Between the writes of one of them.
const PAUSE: Duration = Duration::from_millis(50);
/// After a bundle was emptied requests may fail for so long.
const MENDED: Duration = Duration::from_secs(1);

/// When what happened.
#[derive(Default)]
struct Record {
    writes: u64,
    failures: Vec<(Instant, String)>,
    /// The begin and the end of the request that did it.
    emptied: Option<(Instant, Instant)>,
    leaves: BTreeSet<String>,
    authorities: BTreeSet<String>,
    restarts: u32,
}

impl Record {
    fn wrote(&mut self, begun: Instant, written: Result<()>) {
        self.writes += 1;
        if let Err(error) = written {
            self.failures.push((begun, format!("{error:#}")));
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
            self.authorities.len(),
            self.restarts
        )
    }
}

#[tokio::test]
async fn no_request_fails_whatever_becomes_of_certificates_and_replicas() -> Result<()> {
    let seconds = match env::var("HELMOPS_SOAK_SECONDS") {
        Ok(text) => text.parse()?,
        Err(_) => SECONDS,
    };
    let (leaf, authority) = if seconds < LONG {
        ("15s", "45s")
    } else {
        ("60s", "180s")
    };
    let mut bed = Bed::start(&[
        ("HELMOPS_TLS_VALIDITY", leaf),
        ("HELMOPS_TLS_CA_VALIDITY", authority),
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
    let over = Cell::new(false);
    let writers = join_all((0..WRITERS).map(|writer| write(&api, writer, &record, &over)));
    let troubles = async {
        let done = trouble(&mut bed, Duration::from_secs(seconds), &record).await;
        over.set(true);
        done
    };
    let (troubles, _) = tokio::join!(troubles, writers);
    troubles?;
    let record = record.into_inner();
    println!("soak: {seconds} s with lives of {leaf} and {authority}: {record}");
    judge(&record, seconds)
}

fn judge(record: &Record, seconds: u64) -> Result<()> {
    let is_excused = |at| {
        record
            .emptied
            .is_some_and(|(begin, end)| begin <= at && at < end + MENDED)
    };
    let failures: Vec<_> = record
        .failures
        .iter()
        .filter(|(at, _)| !is_excused(*at))
        .collect();
    ensure!(failures.is_empty(), "{} failed: {failures:?}", failures.len());
    ensure!(record.writes > seconds * 10, "{record}");
    ensure!(
        record.leaves.len() >= 5 && record.authorities.len() >= 3,
        "{record}"
    );
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

/// Changes a HelmOp again and again, so that the API server asks both webhooks.
async fn write(api: &Api, writer: usize, record: &RefCell<Record>, over: &Cell<bool>) {
    let name = format!("soak-{writer}");
    let mut counter = 0_u64;
    while !over.get() {
        counter += 1;
        let change = json!({ "spec": { "helm": { "version": format!("1.0.{counter}") } } });
        let begun = Instant::now();
        let written = api.patch("default", "helmops", &name, change).await;
        record.borrow_mut().wrote(begun, written);
        sleep(PAUSE).await;
    }
}

/// Everything that happens to certificates and replicas, spread over this time.
async fn trouble(bed: &mut Bed, time: Duration, record: &RefCell<Record>) -> Result<()> {
    let begun = Instant::now();
    let mut restarts = 0;
    for part in 1..=10 {
        match part {
            2 | 5 | 9 => {
                restarts += 1;
                roll(bed, restarts, record).await?;
            }
            4 => _ = bed.run(&["delete", SECRET]).await?,
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
        watch(bed, begun + time * part / 10, record).await?;
    }
    Ok(())
}

/// Notes which certificates there are until then.
async fn watch(bed: &Bed, until: Instant, record: &RefCell<Record>) -> Result<()> {
    let mut ticks = interval(Duration::from_millis(500));
    while Instant::now() < until {
        ticks.tick().await;
        let Ok(secret) = bed.secret().await else { continue };
        let mut record = record.borrow_mut();
        record.leaves.extend(secret.get("tls.crt").cloned());
        let authorities = secret.get("ca.crt").map(String::as_str).unwrap_or_default();
        let each = authorities
            .split_inclusive("-----END CERTIFICATE-----\n")
            .map(str::to_owned);
        record
            .authorities
            .extend(each.filter(|text| certificates(text) == 1));
    }
    Ok(())
}

/// Restarts both replicas one after the other, as a Deployment does: another one is ready first.
async fn roll(bed: &mut Bed, round: u32, record: &RefCell<Record>) -> Result<()> {
    let names: Vec<_> = bed.replicas.keys().cloned().collect();
    for (number, name) in names.iter().enumerate() {
        let fresh = format!("replica-{round}-{number}");
        bed.add(&fresh).await?;
        bed.until_ready(&fresh).await?;
        let noticed =
            helmops_tests::wait::eventually("the balancer to notice", Duration::from_secs(10), async || {
                ensure!(bed.balancer.ready() == 3, "{} are ready", bed.balancer.ready());
                Ok(())
            });
        noticed.await.context(fresh)?;
        bed.end(name).await?;
        record.borrow_mut().restarts += 1;
    }
    Ok(())
}
