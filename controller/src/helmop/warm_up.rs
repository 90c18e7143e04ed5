//! Fills the interest of all HelmOps before the first reconciliation.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_api::{Decoded, HelmOp};
use helmops_core::policy::Policies;
use helmops_kube::key_of;
use kube::Resource;

use super::Interest;

/// Time limit: all reconciliations wait meanwhile. Ten thousand HelmOps take less than half of it, even in a build without
/// optimization. The remaining HelmOps are recorded when they are reconciled.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Records which charts HelmOps need, if the Policy cache is synced and the Policies allow them.
///
/// If they were recorded only during their reconciliation, the first resolutions after a start would read the index of a repository
/// again and again, for a few charts each.
pub async fn record_all(
    helmops: &[Arc<Decoded<HelmOp>>],
    policies: impl Fn(&HelmOp) -> Option<Arc<Policies>>,
    interest: &Interest,
) {
    let started = Instant::now();
    for object in helmops {
        if started.elapsed() > MAX_TIME {
            tracing::info!("not all HelmOps were indexed before reconciliation starts");
            return;
        }
        let helmop = object.valid();
        let helmop = helmop.filter(|helmop| helmop.meta().deletion_timestamp.is_none());
        if let Some((helmop, policies)) = helmop.and_then(|helmop| Some((helmop, policies(helmop)?)))
            && let completed = policies.apply_defaults(helmop)
            && let Ok(valid) = policies.accept(&completed)
        {
            interest.record(&key_of(&**object), &valid);
        }
        // A large HelmOp takes milliseconds.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::Policy;
    use serde_json::{Value, json};

    use super::*;

    fn helmops(number: usize, change: impl Fn(usize, &mut Value)) -> Vec<Arc<Decoded<HelmOp>>> {
        let helmop = |index| {
            let mut object = json!({
                "metadata": { "namespace": "a", "name": format!("web-{index}") },
                "spec": { "helm": { "repo": "https://h/stable", "chart": format!("c{index}"), "version": "1.x" } },
            });
            change(index, &mut object);
            Arc::new(serde_json::from_str(&object.to_string()).unwrap())
        };
        (0..number).map(helmop).collect()
    }

    fn charts(interest: &Interest) -> Vec<String> {
        let charts = interest.charts("https://h/stable/index.yaml", None);
        charts.into_iter().collect()
    }

    #[tokio::test]
    async fn valid_helmops_that_are_not_being_deleted_are_recorded() {
        let helmops = helmops(5, |index, object| match index {
            1 => object["spec"]["helm"]["version"] = json!("no version"),
            2 => object["spec"] = json!("invalid"),
            3 => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            _ => {}
        });
        let interest = Interest::default();
        record_all(&helmops, |_| None, &interest).await;
        assert!(charts(&interest).is_empty(), "the Policy cache is not synced");
        record_all(&helmops, |_| Some(Arc::default()), &interest).await;
        assert_eq!(charts(&interest), ["c0", "c4"]);
    }

    #[tokio::test]
    async fn charts_that_policies_forbid_are_not_recorded() {
        let policy = json!({ "helmOp": { "allowedChartPatterns": ["c1"] } });
        let policy: Policy = serde_json::from_str(&policy.to_string()).unwrap();
        let policies = Arc::new(Policies::of([&policy]));
        let interest = Interest::default();
        record_all(&helmops(3, |_, _| ()), |_| Some(Arc::clone(&policies)), &interest).await;
        assert_eq!(charts(&interest), ["c1"]);
    }
}
