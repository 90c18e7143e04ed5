//! Certificates and authorities follow each other, also where replicas are killed in between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::bed::{Bed, certificates};

/// Renewed every ten seconds, and the CA followed by another every thirty; the settle time is two seconds.
pub const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_TLS_VALIDITY", "15s"),
    ("HELMOPS_TLS_CA_VALIDITY", "45s"),
];

#[tokio::test]
async fn a_ca_is_followed_by_another_although_replicas_are_killed() {
    let mut bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    let first = bed.until_injected().await.unwrap();
    let (mut leaves, mut most) = (BTreeSet::new(), 0);
    let start = Instant::now();
    let mut counter = 0;
    loop {
        let secret = bed.secret().await.unwrap();
        leaves.insert(secret["tls.crt"].clone());
        most = most.max(certificates(&secret["ca.crt"]));
        if !secret["ca.crt"].contains(&first["ca.crt"]) {
            break;
        }
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
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert!(leaves.len() > 2, "{} certificates", leaves.len());
    assert_eq!(most, 2, "both were trusted in between");
    bed.until_injected().await.unwrap();
    bed.until_admits().await.unwrap();
}
