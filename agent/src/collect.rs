//! Garbage collection: releases whose BundleDeployment was deleted while the agent was away, or has another name for its release now.

use std::{collections::BTreeSet, time::Duration};

use helmops_api::BundleDeploymentOptions;
use helmops_process::exit::with_causes;
use helmops_release::names::ReleaseKey;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    error::AgentError,
    owned::{Entries, OwnedRelease},
    reconcile,
};

/// After a pass that failed.
const RETRY: Duration = Duration::from_mins(1);

/// Enqueues the BundleDeployments whose releases are to be removed, immediately and then at an interval, until `stop`.
///
/// It starts after the first list of the BundleDeployments is complete. An error of one release is retried by its own backoff and
/// delays no other.
pub async fn run(
    context: &Context,
    orphans: mpsc::Sender<String>,
    interval: Duration,
    stop: CancellationToken,
) {
    loop {
        let wait = match pass(context, &orphans).await {
            // All agents that were started together do not collect together.
            Ok(()) => interval.mul_f64(1.0 + fastrand::f64()),
            Err(error) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "cannot look for releases without a BundleDeployment"
                );
                RETRY
            }
        };
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}

async fn pass(context: &Context, orphans: &mpsc::Sender<String>) -> Result<(), AgentError> {
    let owned = context.records.by_owner().await?;
    let exists = |name: &str| context.deployments.get(&context.key(name)).is_some();
    if owned.is_empty() || owned.keys().any(|name| exists(name)) {
        context.guard.remember().await?;
    }
    let remembered = context.owned.all().await?;
    let news = owned.iter().filter_map(|(name, releases)| {
        let deployment = context.deployments.get(&context.key(name))?;
        let spec = &deployment.valid()?.spec;
        if reconcile::is_fleets_own(name) && spec.helm_chart_options.is_none() {
            return None;
        }
        news(&remembered, name, &spec.options, releases)
    });
    let news: Vec<_> = news.collect();
    if !news.is_empty() {
        context.owned.remember(news).await?;
    }
    let all = owned.keys().chain(remembered.names());
    let missing: BTreeSet<&String> = all.filter(|name| !exists(name)).collect();
    for name in missing {
        if orphans.send(name.clone()).await.is_err() {
            return Ok(());
        }
    }
    for (name, releases) in &owned {
        let releases = &of_this_agent(&remembered, name, releases);
        if let Some(deployment) = context.deployments.get(&context.key(name))
            && let Some(deployment) = deployment.valid()
            && reconcile::is_renamed(deployment, releases)
        {
            let release = context.releases.of(name);
            // While it is being deployed, which may take long: that removes them too, or the next pass does.
            let Ok(_locked) = release.try_lock() else {
                continue;
            };
            reconcile::remove_renamed(context, deployment, releases).await;
        }
    }
    Ok(())
}

/// The releases that this agent has deployed.
fn of_this_agent(remembered: &Entries, name: &str, releases: &[ReleaseKey]) -> Vec<ReleaseKey> {
    let (own, others): (Vec<_>, Vec<_>) = releases
        .iter()
        .cloned()
        .partition(|release| remembered.get(name, release).is_some());
    for release in others {
        tracing::warn!(bundledeployment = name, %release, "its record names the BundleDeployment, but this agent has not deployed it");
    }
    own
}

/// The release of a BundleDeployment that is not remembered, such as one of Fleet's agent. Only the BundleDeployment itself says what its
/// release and its account are: records name neither of them reliably.
fn news(
    remembered: &Entries,
    name: &str,
    options: &BundleDeploymentOptions,
    releases: &[ReleaseKey],
) -> Option<(String, OwnedRelease)> {
    let release = ReleaseKey::of(name, options);
    let is_news = releases.contains(&release) && remembered.get(name, &release).is_none();
    let service_account = options.service_account.clone();
    is_news.then(|| {
        let owned = OwnedRelease {
            release,
            service_account,
        };
        (name.to_owned(), owned)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_the_present_release_of_a_bundledeployment_is_remembered_and_once() {
        let release = |name: &str| ReleaseKey {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        let options = BundleDeploymentOptions {
            default_namespace: "shop".to_owned(),
            service_account: "deployer".to_owned(),
            ..BundleDeploymentOptions::default()
        };
        let none = Entries::default();
        let found = news(&none, "web", &options, &[release("other"), release("web")]).unwrap();
        assert_eq!(found.0, "web");
        assert_eq!(found.1.release, release("web"));
        assert_eq!(found.1.service_account, "deployer");
        // A record alone makes no release one of the BundleDeployment.
        assert_eq!(news(&none, "web", &options, &[release("other")]), None);
        let data = [("web".to_owned(), r#"[{"release":"shop/web"}]"#.to_owned())];
        let known = Entries::of(&BTreeMap::from(data));
        // An attempt changes the account.
        assert_eq!(news(&known, "web", &options, &[release("web")]), None);
    }
}
