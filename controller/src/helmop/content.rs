//! The content of the charts of a HelmOp, with `spec.chartSource.deliver: Content`: it is written before the Bundle refers to it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use helmops_api::Bundle;
use helmops_content::ContentId;
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{RequestedChart, RequestedCharts},
    content::references,
};
use helmops_fetch::{ChartResolver, MAX_ARCHIVE, ResolveContext};
use helmops_model::chart::{delivery::Delivery, resolved::ChartVersion};
use helmops_runtime::{
    retry_state::RetryState,
    workers::{Namespace, WorkerPermit},
};

use super::{
    error::ReconcileError,
    versions::{PollOutcome, Versions, min_interval},
};
use crate::{
    content::{self, ArchiveBuffer, ChartArchive, ContentError},
    context::Context,
    watch::{CaBundle, Contents, DeliveryStores},
    work::HelmOpKey,
};

/// The input of a delivery.
pub struct DeliverInput<'r, 'v, 'a> {
    pub key: &'r HelmOpKey,
    pub valid: &'v ValidHelmOp<'a>,
    /// Its Bundle.
    pub bundle: Option<&'r Bundle>,
    /// Its charts as they were recorded before.
    pub recorded: &'r [RequestedChart<'v, 'a>],
    /// The CA certificates that are trusted unless a Secret has its own.
    pub rancher_ca: &'r CaBundle,
}

/// Stores each chart whose content is not in the management cluster, and sets the ID of its content; or removes it, if agents download the
/// charts themselves. If a newer version cannot be stored, its chart stays in the recorded one, and the poll that has found it has failed: so
/// changes which need no other version are deployed, and it is retried as other polls.
///
/// # Errors
/// If a chart without a recorded version cannot be downloaded or stored, or if the rate limit is exceeded.
pub async fn deliver<'v, 'a>(
    context: &Context,
    permit: &mut WorkerPermit,
    input: DeliverInput<'_, 'v, 'a>,
    mut versions: Versions<'v, 'a>,
) -> Result<Versions<'v, 'a>, ReconcileError> {
    let charts = &mut versions.charts;
    if input.valid.delivery == Delivery::Direct {
        for chart in charts.as_mut_slice() {
            chart.content.clear();
        }
        return Ok(versions);
    }
    let Some(stores) = &context.stores.delivery else {
        return Err(ReconcileError::Content(Box::new(ContentError::Unsupported)));
    };
    let kept = Kept::of(stores, input.bundle);
    if charts.as_slice().iter().all(|chart| kept.has(chart)) {
        return Ok(versions);
    }
    // Each change of the HelmOp, and each failure, would be a download.
    let interval = min_interval(context);
    take_token(&context.retries.helmops, input.key, interval, versions.waited)?;
    let namespace = Namespace::clone(permit.namespace());
    let delivery = async {
        let _resolve_permit = context.resolver.acquire_permit(&namespace).await;
        // Boxed, so that futures that wait for a permit or a worker are small.
        Box::pin(store_missing(context, &kept, &namespace, input, charts)).await
    };
    let result = permit
        .release_while(delivery)
        .await
        .map_err(ReconcileError::Interrupted)?;
    let failure =
        result.and_then(|failure| check_stored(&stores.contents, charts.as_slice()).map(|()| failure));
    let of_content = |error| ReconcileError::Content(Box::new(error));
    if let Some(failure) = failure.map_err(of_content)? {
        versions.poll = PollOutcome::Failed(of_content(failure));
    }
    versions.waited = true;
    Ok(versions)
}

/// Checks that the Bundle will refer to nothing that is gone: the content of one chart may be deleted while the others are downloaded.
fn check_stored(contents: &Contents, charts: &[RequestedChart<'_, '_>]) -> Result<(), ContentError> {
    let is_stored = |content: &str| content.parse().is_ok_and(|id| contents.has(&id));
    // Without a version nothing is written.
    let mut needed = charts.iter().filter(|chart| chart.version.is_some());
    let gone = needed.find(|chart| !is_stored(&chart.content));
    gone.map_or(Ok(()), |chart| Err(ContentError::Gone(chart.content.clone())))
}

/// Takes a token of the rate limit, one for each reconciliation: if its versions needed one, the download of these versions is free. With a
/// second token, a HelmOp without spare ones would resolve its versions again and again, and never store them.
fn take_token(
    retries: &RetryState<HelmOpKey>,
    key: &HelmOpKey,
    interval: Duration,
    has_token: bool,
) -> Result<(), ReconcileError> {
    if has_token {
        return Ok(());
    }
    retries
        .request(key.clone(), interval)
        .map_err(ReconcileError::TooSoon)
}

/// The contents that are there, and stay: the Bundle refers to them. Others may be deleted before it does.
struct Kept<'r> {
    stores: &'r DeliveryStores,
    referenced: BTreeSet<ContentId>,
}

impl<'r> Kept<'r> {
    fn of(stores: &'r DeliveryStores, bundle: Option<&Bundle>) -> Self {
        let referenced = bundle.map(references).unwrap_or_default();
        Self { stores, referenced }
    }

    fn has(&self, chart: &RequestedChart<'_, '_>) -> bool {
        let id = chart.content.parse();
        id.is_ok_and(|id| self.referenced.contains(&id) && self.stores.contents.has(&id))
    }
}

/// Returns why a chart stays in its recorded version.
async fn store_missing<'v, 'a>(
    context: &Context,
    kept: &Kept<'_>,
    namespace: &Namespace,
    input: DeliverInput<'_, 'v, 'a>,
    charts: &mut RequestedCharts<'v, 'a>,
) -> Result<Option<ContentError>, ContentError> {
    let authorities = input.rancher_ca.ca_certificates();
    let resolve_context = ResolveContext {
        client: &context.client,
        metrics: &context.metrics.resolutions,
        ca_certificates: &authorities,
        interest: &|index, namespace| context.interest.charts(index, namespace),
        since: Instant::now(),
    };
    let mut resolver =
        context
            .resolver
            .chart_resolver(resolve_context, input.valid.helmop, &input.valid.chart);
    let mut failure = None;
    for (index, chart) in charts.as_mut_slice().iter_mut().enumerate() {
        // Without a version nothing is written anyway.
        let Some(version) = chart.version.clone().filter(|_| !kept.has(chart)) else {
            continue;
        };
        let refused = context.contents.refused();
        let stored = async {
            refused.check(namespace, &version.digest)?;
            content::check_room(context, kept.stores, namespace)?;
            let buffer = context.contents.buffer(namespace);
            let archive = download(&mut resolver, chart, &version, buffer).await?;
            let stored = content::store(context, kept.stores, namespace, archive).await;
            stored.map_err(|error| refused.remember(namespace, &version.digest, error))
        };
        match (
            stored.await,
            input.recorded.get(index).filter(|recorded| kept.has(recorded)),
        ) {
            (Ok(id), _) => chart.content = id.to_string(),
            (Err(error), Some(recorded)) => {
                chart.go_back_to(recorded);
                failure.get_or_insert(error);
            }
            (Err(error), None) => return Err(error),
        }
    }
    Ok(failure)
}

/// The archive of a chart, whose digest is the recorded one.
async fn download(
    resolver: &mut ChartResolver<'_>,
    chart: &RequestedChart<'_, '_>,
    version: &ChartVersion,
    buffer: ArchiveBuffer,
) -> Result<ChartArchive, ContentError> {
    let downloaded = resolver
        .download(chart.request, version, MAX_ARCHIVE, buffer)
        .await?;
    Ok(ChartArchive {
        bytes: downloaded.output,
        folder: chart.request.content_folder().to_owned(),
        url: downloaded.url,
    })
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use helmops_core::content::StoredContent;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_bundle_refers_to_content_that_is_gone() {
        let object = json!({
            "metadata": { "name": "web" },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.0.0" } },
        });
        let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
        let valid = ValidHelmOp::try_from(&helmop).unwrap();
        let mut charts = RequestedCharts::of(&valid, None);
        let contents = Contents::listed();
        assert!(
            check_stored(&contents, charts.as_slice()).is_ok(),
            "it has no version yet"
        );
        let chart = &mut charts.as_mut_slice()[0];
        chart.version = Some(ChartVersion::default());
        chart.content = format!("s-{}", "0".repeat(61));
        let name = chart.content.clone();
        let error = check_stored(&contents, charts.as_slice()).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("Content {name} ")),
            "{error}"
        );
        contents.wrote(StoredContent {
            name: name.clone(),
            ..StoredContent::default()
        });
        assert!(check_stored(&contents, charts.as_slice()).is_ok());
        contents.deleted(&name);
        assert!(check_stored(&contents, charts.as_slice()).is_err());
    }

    #[test]
    fn a_reconciliation_takes_one_token_of_the_rate_limit() {
        let (retries, key) = (RetryState::default(), HelmOpKey::new("web").within("team"));
        let interval = Duration::from_hours(1);
        while retries.request(key.clone(), interval).is_ok() {}
        assert!(take_token(&retries, &key, interval, true).is_ok());
        let refused = take_token(&retries, &key, interval, false);
        assert!(matches!(refused, Err(ReconcileError::TooSoon(_))), "{refused:?}");
    }
}
