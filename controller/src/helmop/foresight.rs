//! What HelmOps want, before the first of them is worked on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_shared::{
    api::{Decoded, HelmOp},
    policy::Policies,
};
use kube::Resource;

use super::Interest;
use crate::work::key_of;

/// All work waits for it. Ten thousand HelmOps take less than half of it, in a build without optimisation too; the rest is noted
/// when it is worked on.
const LONGEST: Duration = Duration::from_secs(2);

/// Notes which charts HelmOps want, as far as their Policy cache synced and allow it.
///
/// If each were only noted when it is worked on, the first look-ups after a start would read the index of a repository for a few
/// charts each, again and again.
pub async fn note_all(
    helmops: &[Arc<Decoded<HelmOp>>],
    policies: impl Fn(&HelmOp) -> Option<Arc<Policies>>,
    interest: &Interest,
) {
    let started = Instant::now();
    for object in helmops {
        if started.elapsed() > LONGEST {
            tracing::info!("not all HelmOps were indexed before reconciliation starts");
            return;
        }
        let helmop = object.good();
        let helmop = helmop.filter(|helmop| helmop.meta().deletion_timestamp.is_none());
        if let Some((helmop, policies)) = helmop.and_then(|helmop| Some((helmop, policies(helmop)?)))
            && let completed = policies.complete(helmop)
            && let Ok(valid) = policies.accept(&completed)
        {
            interest.note(&key_of(&**object), &valid);
        }
        // A large one takes milliseconds.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::Policy;
    use serde_json::{Value, json};

    use super::*;

    fn helmops(number: usize, change: impl Fn(usize, &mut Value)) -> Vec<Arc<Decoded<HelmOp>>> {
        let helmop = |at| {
            let mut object = json!({
                "metadata": { "namespace": "a", "name": format!("web-{at}") },
                "spec": { "helm": { "repo": "https://h/stable", "chart": format!("c{at}"), "version": "1.x" } },
            });
            change(at, &mut object);
            Arc::new(serde_json::from_str(&object.to_string()).unwrap())
        };
        (0..number).map(helmop).collect()
    }

    fn wanted(interest: &Interest) -> Vec<String> {
        let charts = interest.charts("https://h/stable/index.yaml", None);
        charts.into_iter().collect()
    }

    #[tokio::test]
    async fn all_that_can_be_worked_on_are_noted() {
        let helmops = helmops(5, |at, object| match at {
            1 => object["spec"]["helm"]["version"] = json!("no version"),
            2 => object["spec"] = json!("odd"),
            3 => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            _ => {}
        });
        let interest = Interest::default();
        note_all(&helmops, |_| None, &interest).await;
        assert!(wanted(&interest).is_empty(), "it is not known what is allowed");
        note_all(&helmops, |_| Some(Arc::default()), &interest).await;
        assert_eq!(wanted(&interest), ["c0", "c4"]);
    }

    #[tokio::test]
    async fn what_policies_forbid_is_not_wanted() {
        let policy = json!({ "helmOp": { "allowedChartPatterns": ["c1"] } });
        let policy: Policy = serde_json::from_str(&policy.to_string()).unwrap();
        let policies = Arc::new(Policies::of([&policy]));
        let interest = Interest::default();
        note_all(&helmops(3, |_, _| ()), |_| Some(Arc::clone(&policies)), &interest).await;
        assert_eq!(wanted(&interest), ["c1"]);
    }

    /// By hand: `cargo test --release --lib -- --ignored --nocapture ten_thousand_are_noted`.
    #[tokio::test]
    #[ignore = "it measures"]
    async fn ten_thousand_are_noted_in_a_moment() {
        let helmops = helmops(10_000, |_, _| ());
        let interest = Interest::default();
        let started = Instant::now();
        note_all(&helmops, |_| Some(Arc::default()), &interest).await;
        println!("{} HelmOps in {:?}", wanted(&interest).len(), started.elapsed());
        assert_eq!(wanted(&interest).len(), 10_000);
    }
}
