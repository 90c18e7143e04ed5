//! Deletes Contents that nothing refers to any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    marker::PhantomData,
    time::{Duration, Instant},
};

use futures::{TryStreamExt, pin_mut};
use helmops_api::{Bundle, BundleDeployment, Content};
use helmops_content::ContentId;
use helmops_core::{
    content::{StoredContent, of_deployment, references},
    targeting::delivery::ObjectVersion,
};
use helmops_fair::lock;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::ClassifiedError,
    pages::pages,
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Resource,
    api::ListParams,
    core::{ObjectList, Request},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{context::Context, metrics, watch::DeliveryStores, writes::delete_version};

/// The longest time between two looks at what the caches refer to.
const INTERVAL: Duration = Duration::from_mins(1);
/// The shortest one.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Objects of a page: each may have as much as the API server stores, 1.5 MB.
const PAGE: u32 = 50;

/// Deletes what nothing has referred to for long enough, and returns when to look again: always, whatever happens. Everything is read from the
/// API server at most four times in a grace period, so that what is due meanwhile is deleted together.
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
    let next = (grace / 4).max(MIN_INTERVAL);
    let of_loop = metrics::CONTENTS;
    context
        .metrics
        .reconciles
        .reconciled(of_loop, failure, started.elapsed());
    if let Err(error) = result {
        tracing::warn!(%error, "Contents that are not used any more are not deleted; retrying");
    }
    next
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
) -> Result<(), CallError> {
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
async fn delete(context: &Context, id: &ContentId, objects: &[StoredContent]) -> Result<(), CallError> {
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
                return Err(CallError::of("delete", format_args!("Content {}", object.name))(
                    error,
                ));
            }
        }
    }
    tracing::info!(content = %id, objects = objects.len(), "Content deleted: nothing refers to it any more");
    Ok(())
}

/// What all Bundles and BundleDeployments of the API server refer to.
async fn live_references(context: &Context) -> Result<BTreeSet<ContentId>, CallError> {
    // BundleDeployments after Bundles: a Bundle that stops to refer to something meanwhile leaves it to its deployments.
    let mut all = references_of::<Bundle>(context).await?;
    all.append(&mut references_of::<BundleDeployment>(context).await?);
    Ok(all)
}

/// What the objects of a kind refer to.
async fn references_of<K: Referrer>(context: &Context) -> Result<BTreeSet<ContentId>, CallError> {
    let client = &context.client;
    let pages = pages(ListParams::default().limit(PAGE), |params| async move {
        let list = Request::new(K::url_path(&(), None)).list(&params);
        let list = list.map_err(kube::Error::BuildRequest)?;
        client.request::<ObjectList<References<K>>>(list).await
    });
    pin_mut!(pages);
    let failed = |error| CallError::of("list", K::plural(&()))(error);
    let mut all = BTreeSet::new();
    while let Some(page) = pages.try_next().await.map_err(failed)? {
        all.extend(page.into_iter().flat_map(|object| object.ids));
    }
    Ok(all)
}

/// What refers to contents.
trait Referrer: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug {
    fn contents(&self) -> BTreeSet<ContentId>;
}

impl Referrer for Bundle {
    fn contents(&self) -> BTreeSet<ContentId> {
        references(self)
    }
}

impl Referrer for BundleDeployment {
    fn contents(&self) -> BTreeSet<ContentId> {
        let ids = [&*self.spec.deployment_id, &*self.spec.staged_deployment_id];
        of_deployment(ids).collect()
    }
}

/// The contents that an object refers to. One that does not decode may refer to whatever has the form of an ID in it: it keeps that, and stops
/// no deletion of anything else.
#[derive(Clone, Debug)]
struct References<K> {
    ids: BTreeSet<ContentId>,
    of: PhantomData<fn(K)>,
}

impl<'de, K: Referrer> Deserialize<'de> for References<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let ids = match serde_json::from_str::<K>(text.get()) {
            Ok(object) => object.contents(),
            Err(_) => ContentId::all_in(text.get()).collect(),
        };
        Ok(Self { ids, of: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
    use serde_json::{Value, json};

    use super::*;

    fn id(digit: char) -> ContentId {
        format!("s-{}", String::from(digit).repeat(61)).parse().unwrap()
    }

    fn ids<K: Referrer>(object: &Value) -> BTreeSet<ContentId> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": [object] });
        let list: ObjectList<References<K>> = serde_json::from_str(&list.to_string()).unwrap();
        list.items.into_iter().flat_map(|object| object.ids).collect()
    }

    #[test]
    fn an_object_that_does_not_decode_keeps_only_what_it_may_refer_to() {
        let records = json!([{ "chart": "web", "content": id('a').as_str() }]);
        let annotations = json!({ labels::RESOLVED: records.to_string(), "other": id('b').as_str() });
        let mut bundle = json!({ "metadata": { "annotations": annotations }, "spec": { "targets": [] } });
        assert_eq!(ids::<Bundle>(&bundle), [id('a')].into());
        bundle["spec"]["targets"] = json!("x");
        assert_eq!(ids::<Bundle>(&bundle), [id('a'), id('b')].into());
        let deployment = |options: Value| {
            let staged = format!("{}:2", id('b'));
            json!({ "metadata": {}, "spec": {
                "deploymentID": format!("{}:1", id('a')), "stagedDeploymentID": staged, "options": options,
            } })
        };
        for options in [json!({}), json!("x")] {
            assert_eq!(
                ids::<BundleDeployment>(&deployment(options)),
                [id('a'), id('b')].into()
            );
        }
    }
}
