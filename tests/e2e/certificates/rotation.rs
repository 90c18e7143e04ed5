//! Rotation of certificates and CAs, also when replicas are killed in between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::interval;

use super::bed::{Bed, certificates};

/// Certificates are renewed every ten seconds, and the CA every thirty; the settle time is two seconds.
pub const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_TLS_VALIDITY", "15s"),
    ("HELMOPS_TLS_CA_VALIDITY", "45s"),
];
/// Time between two kills.
const LIFE: Duration = Duration::from_secs(6);
/// Two CAs are trusted for a few seconds.
const PERIOD: Duration = Duration::from_millis(200);

/// The observed contents of the Secret.
#[derive(Default)]
struct ObservedCertificates {
    leaves: BTreeSet<String>,
    /// The largest number of CAs at the same time.
    max_cas: usize,
}

impl ObservedCertificates {
    /// Watches the Secret for the life of a replica, and returns whether a CA was removed from it.
    async fn watch(&mut self, bed: &Bed, ca: &str) -> bool {
        let end = Instant::now() + LIFE;
        let mut ticks = interval(PERIOD);
        while Instant::now() < end {
            ticks.tick().await;
            let secret = bed.secret().await.unwrap();
            self.leaves.insert(secret["tls.crt"].clone());
            self.max_cas = self.max_cas.max(certificates(&secret["ca.crt"]));
            if !secret["ca.crt"].contains(ca) {
                return true;
            }
        }
        false
    }
}

#[tokio::test]
async fn the_ca_is_rotated_although_replicas_are_killed() {
    let mut bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    let first = bed.until_injected().await.unwrap();
    let (start, mut observed, mut counter) = (Instant::now(), ObservedCertificates::default(), 0);
    while !observed.watch(&bed, &first["ca.crt"]).await {
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "the first CA is still trusted"
        );
        // Kills the replica and starts another one: only the Secret records the progress.
        let names: Vec<_> = bed.replicas.keys().cloned().collect();
        for name in names {
            let mut killed = bed.replicas.remove(&name).unwrap();
            killed.running.process.kill().await.unwrap();
            bed.balancer.remove(&name);
        }
        counter += 1;
        let name = format!("replica-{counter}");
        bed.add(&name).await.unwrap();
        bed.until_ready(&name).await.unwrap();
        bed.until_admits().await.unwrap();
    }
    assert!(
        observed.leaves.len() > 2,
        "{} certificates",
        observed.leaves.len()
    );
    assert_eq!(observed.max_cas, 2, "both CAs were trusted in between");
    bed.until_injected().await.unwrap();
    bed.until_admits().await.unwrap();
}
