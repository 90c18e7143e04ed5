//! Deletes Contents that nothing refers to any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::{Duration, Instant},
};

use futures::{TryStreamExt, pin_mut};
use helmops_api::{Bundle, BundleDeployment, Content, Decoded};
use helmops_content::ContentId;
use helmops_core::{
    content::{StoredContent, of_deployment, references},
    targeting::delivery::ObjectVersion,
};
use helmops_fair::lock;
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::{Class, Classified, ClassifiedError, classified},
    pages::pages,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::{context::Context, metrics, watch::DeliveryStores, writes::delete_version};

/// The longest time between two looks at what the caches refer to.
const INTERVAL: Duration = Duration::from_mins(1);
/// The shortest one.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Objects of a page: each may have as much as the API server stores, 1.5 MB.
const PAGE: u32 = 50;

/// Why it is not known what refers to contents, or why one was not deleted.
#[derive(Debug, Error)]
pub enum CollectError {
    /// An object may refer to anything.
    #[error(
        "{kind} {name} does not decode, so it may refer to any Content, and none is deleted until it is corrected or deleted"
    )]
    Unknown { kind: String, name: String },
    /// A request failed.
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ClassifiedError for CollectError {
    fn classify(&self) -> Classified {
        match self {
            Self::Unknown { .. } => classified(Reason::DecodeError, Class::Absent),
            Self::Api(error) => error.classify(),
        }
    }
}

/// Deletes what nothing has referred to for long enough, and returns when to look again: always, whatever happens.
pub async fn collect(context: &Context, stores: &DeliveryStores) -> Duration {
    let contents = stores.contents.all();
    let started = Instant::now();
    let cached = cached_references(context);
    let now = Timestamp::now();
    let grace = context.contents.grace;
    let candidates = lock(&context.contents.unused).plan(contents, &cached, now, grace);
    let interval = grace.clamp(MIN_INTERVAL, INTERVAL);
    let next = candidates
        .next
        .map_or(interval, |next| next.clamp(MIN_INTERVAL, interval));
    if candidates.due.is_empty() {
        return next;
    }
    let result = delete_unused(context, candidates.due).await;
    let failure = result.as_ref().err().map(ClassifiedError::reason);
    let of_loop = metrics::CONTENTS;
    context
        .metrics
        .reconciles
        .reconciled(of_loop, failure, started.elapsed());
    match result {
        Ok(()) => next,
        Err(error) => {
            tracing::warn!(%error, "Contents that are not used any more are not deleted; retrying");
            interval
        }
    }
}

/// What the caches refer to.
fn cached_references(context: &Context) -> BTreeSet<ContentId> {
    let mut all = context.stores.deployments.contents();
    for bundle in context.stores.bundles.state() {
        if let Some(bundle) = bundle.valid() {
            all.extend(references(bundle));
        }
    }
    all
}

/// Deletes contents to which nothing refers according to the API server itself. One that was used again after the caches have shown it has
/// another version, and stays.
async fn delete_unused(
    context: &Context,
    due: BTreeMap<ContentId, Vec<StoredContent>>,
) -> Result<(), CollectError> {
    let referenced = live_references(context).await?;
    for (id, objects) in due {
        if referenced.contains(&id) {
            lock(&context.contents.unused).forget(&id);
        } else {
            delete(context, &id, &objects).await?;
        }
    }
    Ok(())
}

/// The cache gets the deletion from the watch, which then notifies HelmOps that need the content after all.
async fn delete(context: &Context, id: &ContentId, objects: &[StoredContent]) -> Result<(), CollectError> {
    let api = Api::<Content>::all(context.client.clone());
    for object in objects {
        let version = ObjectVersion {
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        };
        match bounded(api.delete(&object.name, &delete_version(&version))).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            // It was used again meanwhile.
            Err(error) if error.is_conflict() => {
                lock(&context.contents.unused).forget(id);
                return Ok(());
            }
            Err(error) => {
                return Err(CallError::of("delete", format_args!("Content {}", object.name))(error).into());
            }
        }
    }
    tracing::info!(content = %id, objects = objects.len(), "Content deleted: nothing refers to it any more");
    Ok(())
}

/// What all Bundles and BundleDeployments of the API server refer to.
async fn live_references(context: &Context) -> Result<BTreeSet<ContentId>, CollectError> {
    let mut all = BTreeSet::new();
    // BundleDeployments after Bundles: a Bundle that stops to refer to something meanwhile leaves it to its deployments.
    each::<Bundle>(context, |bundle| all.extend(references(bundle))).await?;
    each::<BundleDeployment>(context, |deployment| {
        let spec = &deployment.spec;
        all.extend(of_deployment([&*spec.deployment_id, &*spec.staged_deployment_id]));
    })
    .await?;
    Ok(all)
}

/// Calls `visit` with each object of a kind.
async fn each<K>(context: &Context, mut visit: impl FnMut(&K)) -> Result<(), CollectError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let api = &Api::<Decoded<K>>::all(context.client.clone());
    let pages = pages(ListParams::default().limit(PAGE), |params| async move {
        api.list(&params).await
    });
    pin_mut!(pages);
    let failed = |error| CallError::of("list", K::plural(&()))(error);
    while let Some(page) = pages.try_next().await.map_err(failed)? {
        for object in page {
            match object.valid() {
                Some(object) => visit(object),
                None => {
                    return Err(CollectError::Unknown {
                        kind: K::kind(&()).into_owned(),
                        name: format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()),
                    });
                }
            }
        }
    }
    Ok(())
}
