//! Leader election: who holds the Lease of the controllers, and since when it was not renewed.

use helmops_kube::lease::SHARD_LEASE;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::finding::{Finding, Group};
use crate::{cluster::api_error, terminal::age};

const FIX: &str = "kubectl helmop logs controller shows why; docs/high-availability.md";

/// The Leases, and how they are judged.
pub struct Leaders {
    /// One for each Lease.
    pub findings: Vec<Finding>,
    /// The pod that holds the Lease of the default shard.
    pub holder: Option<String>,
}

/// Reads the Leases of the controllers in their namespace: one for each shard.
pub async fn check(client: &Client, namespace: &str, now: Timestamp) -> Leaders {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let found = match leases.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        // The one of the default shard may be readable.
        Err(error) if api_error::is_forbidden(&error) => leases
            .get_opt(SHARD_LEASE)
            .await
            .map(|found| found.into_iter().collect()),
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => judge_all(namespace, &found, now),
        Err(error) => {
            let text = format!("Lease {namespace}/{SHARD_LEASE}: {}", api_error::text(&error));
            let finding = if api_error::is_forbidden(&error) {
                Finding::skipped(Group::Leader, text)
            } else {
                Finding::error(Group::Leader, text, "")
            };
            Leaders {
                findings: vec![finding],
                holder: None,
            }
        }
    }
}

fn judge_all(namespace: &str, found: &[Lease], now: Timestamp) -> Leaders {
    let of_controllers = found
        .iter()
        .filter(|lease| lease.name_any().starts_with(SHARD_LEASE));
    let mut findings: Vec<_> = of_controllers.map(|lease| judge(lease, now)).collect();
    let default = found.iter().find(|lease| lease.name_any() == SHARD_LEASE);
    if default.is_none() {
        let text = format!("Lease {namespace}/{SHARD_LEASE} does not exist: no controller has started yet");
        findings.push(Finding::error(Group::Leader, text, FIX));
    }
    Leaders {
        findings,
        holder: default.and_then(|lease| Some(pod(lease.spec.as_ref()?.holder_identity.as_deref()?))),
    }
}

/// The pod of a replica, whose identity has a suffix that is different after each start.
fn pod(identity: &str) -> String {
    identity.split('_').next().unwrap_or_default().to_owned()
}

fn judge(lease: &Lease, now: Timestamp) -> Finding {
    let object = format!(
        "Lease {}/{}",
        lease.namespace().unwrap_or_default(),
        lease.name_any()
    );
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let renewed = spec.renew_time.map(|time| time.0);
    let (Some(holder), Some(renewed)) = (holder, renewed) else {
        return Finding::error(
            Group::Leader,
            format!("{object} has no holder: no controller reconciles"),
            FIX,
        );
    };
    let elapsed = now.as_second() - renewed.as_second();
    let holder = pod(&holder);
    let acquired = spec.acquire_time.map_or(renewed, |time| time.0);
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    if elapsed > duration {
        let since = age::seconds(elapsed);
        let text =
            format!("{object} expired: {holder} has not renewed it for {since}, so no controller reconciles");
        return Finding::error(Group::Leader, text, FIX);
    }
    let since = age::age(acquired, now);
    Finding::ok(Group::Leader, format!("{object} is held by {holder} for {since}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;
    use serde_json::json;

    fn lease(name: &str, holder: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "helmops-system" },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T10:00:00.000000Z", "renewTime": renewed,
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_lease_needs_a_holder_that_renews_it() {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let (recent, old) = ("2026-01-01T11:59:55.000000Z", "2026-01-01T11:58:00.000000Z");
        for (holder, renewed, level, text) in [
            ("pod-1_0f", recent, Level::Ok, "is held by pod-1 for 120m"),
            ("pod-1", old, Level::Error, "pod-1 has not renewed it for 2m"),
            ("", recent, Level::Error, "has no holder"),
        ] {
            let finding = judge(&lease(SHARD_LEASE, holder, renewed), now);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
        let shard = lease(&format!("{SHARD_LEASE}-blue"), "pod-2", recent);
        let other = lease("kube-scheduler", "pod-3", old);
        let leaders = judge_all("helmops-system", &[shard.clone(), other.clone()], now);
        assert_eq!(leaders.findings.len(), 2, "the default shard has none");
        assert_eq!(leaders.findings[1].level, Level::Error);
        let leaders = judge_all(
            "helmops-system",
            &[shard, other, lease(SHARD_LEASE, "pod-1", recent)],
            now,
        );
        assert_eq!(leaders.findings.len(), 2);
        assert_eq!(leaders.holder.as_deref(), Some("pod-1"));
    }
}
