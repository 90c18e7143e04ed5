//! Certificates and authorities follow each other, also where replicas are killed in between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::interval;

use crate::bed::{Bed, certificates};

/// Renewed every ten seconds, and the CA followed by another every thirty; the settle time is two seconds.
pub const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_TLS_VALIDITY", "15s"),
    ("HELMOPS_TLS_CA_VALIDITY", "45s"),
];
/// Between a kill and the next.
const LIFE: Duration = Duration::from_secs(6);
/// Two authorities are trusted for a few seconds.
const PERIOD: Duration = Duration::from_millis(200);

/// What the Secret was seen to hold.
#[derive(Default)]
struct Seen {
    leaves: BTreeSet<String>,
    /// Authorities at a time.
    most: usize,
}

impl Seen {
    /// Looks at the Secret for the life of a replica, and gives whether an authority has gone from it.
    async fn watch(&mut self, bed: &Bed, authority: &str) -> bool {
        let end = Instant::now() + LIFE;
        let mut ticks = interval(PERIOD);
        while Instant::now() < end {
            ticks.tick().await;
            let secret = bed.secret().await.unwrap();
            self.leaves.insert(secret["tls.crt"].clone());
            self.most = self.most.max(certificates(&secret["ca.crt"]));
            if !secret["ca.crt"].contains(authority) {
                return true;
            }
        }
        false
    }
}

#[tokio::test]
async fn a_ca_is_followed_by_another_although_replicas_are_killed() {
    let mut bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    let first = bed.until_injected().await.unwrap();
    let (start, mut seen, mut counter) = (Instant::now(), Seen::default(), 0);
    while !seen.watch(&bed, &first["ca.crt"]).await {
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "the first CA is still there"
        );
        // A kill, and another replica: nobody but the Secret knows how far it was.
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
    assert!(seen.leaves.len() > 2, "{} certificates", seen.leaves.len());
    assert_eq!(seen.most, 2, "both were trusted in between");
    bed.until_injected().await.unwrap();
    bed.until_admits().await.unwrap();
}
