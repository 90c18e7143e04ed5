//! Reads the objects of which clusters get copies: the access Secret of a Bundle, and its downstream resources. Each is read once
//! for all clusters.

use futures::{FutureExt, StreamExt, stream};
use helmops_api::Bundle;
use helmops_core::targeting::{
    Blocked, Target,
    copies::{Object, SourceRef, check_type},
    delivery::{BundleDelivery, Sources},
};

use super::{CONCURRENCY, observe};
use crate::context::Context;

/// Reads the sources that the targets need.
pub async fn read(context: &Context, bundle: &Bundle, targets: &[Target<'_>]) -> Sources {
    let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let reads: Vec<_> = BundleDelivery::required_sources(bundle, targets)
        .into_iter()
        .map(|source| read_source(context, namespace, source).boxed())
        .collect();
    stream::iter(reads).buffer_unordered(CONCURRENCY).collect().await
}

async fn read_source(
    context: &Context,
    namespace: &str,
    source: SourceRef,
) -> (SourceRef, Result<Object, Blocked>) {
    let SourceRef { kind, name } = &source;
    let object = match observe::object(context, *kind, namespace, name).await {
        Ok(Some(object)) => match check_type(&object) {
            Ok(()) => Ok(object),
            Err(forbidden_type) => Err(Blocked::until_change(forbidden_type.to_string())),
        },
        // A source that is created later is reported by a watch.
        Ok(None) => Err(Blocked::until_change(format!(
            "{kind} {namespace}/{name} does not exist; create it, and the cluster gets a copy"
        ))),
        Err(error) => Err(Blocked::source_unreadable(format!(
            "could not read {kind} {namespace}/{name}: {error}"
        ))),
    };
    (source, object)
}
