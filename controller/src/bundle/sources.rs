//! The objects of which clusters get copies: the access Secret of a Bundle, and its downstream resources. Each is read once for
//! all clusters.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt, stream};
use helmops_api::Bundle;
use helmops_core::targeting::{
    Target,
    copies::{CopyKind, Object, SourceRef, check_type, downstream},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use super::{CONCURRENCY, deliver::referenced_sources};
use crate::{client::bounded, context::Context};

/// The sources that any target needs.
pub struct Sources(BTreeMap<SourceRef, Result<Object, SourceUnavailable>>);

/// Why a source cannot be copied.
pub struct SourceUnavailable {
    /// For the status of each cluster that needs it.
    pub message: String,
    /// Whether the read must be retried. A source that is created later is reported by a watch.
    pub is_retryable: bool,
}

impl Sources {
    /// Reads the sources that the targets need.
    pub async fn read(context: &Context, bundle: &Bundle, targets: &[Target<'_>]) -> Self {
        let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
        let reads: Vec<_> = needed(bundle, targets)
            .into_iter()
            .map(|source| read(context, namespace, source).boxed())
            .collect();
        Self(stream::iter(reads).buffer_unordered(CONCURRENCY).collect().await)
    }

    /// A source, if a target needs it.
    pub fn get(&self, source: &SourceRef) -> Option<&Result<Object, SourceUnavailable>> {
        self.0.get(source)
    }
}

/// The access Secret of a Bundle, if it has one.
pub fn access(bundle: &Bundle) -> Option<SourceRef> {
    let options = bundle.spec.helm_op_options.as_ref()?;
    (!options.secret_name.is_empty()).then(|| SourceRef {
        kind: CopyKind::Secret,
        name: options.secret_name.clone(),
    })
}

fn needed(bundle: &Bundle, targets: &[Target<'_>]) -> BTreeSet<SourceRef> {
    let desired = targets.iter().filter_map(|target| target.desired.as_ref().ok());
    let desired = desired.flat_map(|desired| downstream(&desired.options).unwrap_or_default());
    // The sources of existing deployments are kept up to date until the rollout reaches their clusters.
    let current = targets.iter().filter_map(|target| target.existing);
    let current = current.flat_map(referenced_sources);
    let is_needed = !targets.is_empty();
    desired
        .chain(current)
        .chain(access(bundle).filter(|_| is_needed))
        .collect()
}

async fn read(
    context: &Context,
    namespace: &str,
    source: SourceRef,
) -> (SourceRef, Result<Object, SourceUnavailable>) {
    let found = find(context, namespace, &source).await;
    (source, found)
}

async fn find(context: &Context, namespace: &str, source: &SourceRef) -> Result<Object, SourceUnavailable> {
    let (client, name) = (context.client.clone(), &*source.name);
    let found = match source.kind {
        CopyKind::Secret => {
            let api = Api::<Secret>::namespaced(client, namespace);
            bounded(api.get_opt(name))
                .await
                .map(|found| found.map(Object::Secret))
        }
        CopyKind::ConfigMap => {
            let api = Api::<ConfigMap>::namespaced(client, namespace);
            bounded(api.get_opt(name))
                .await
                .map(|found| found.map(Object::ConfigMap))
        }
    };
    let object = format!("{} {namespace}/{name}", source.kind);
    match found {
        Ok(Some(source)) => match check_type(&source) {
            Ok(()) => Ok(source),
            Err(forbidden_type) => Err(SourceUnavailable {
                message: forbidden_type.to_string(),
                is_retryable: false,
            }),
        },
        Ok(None) => Err(SourceUnavailable {
            message: format!("{object} does not exist; create it, and the cluster gets a copy"),
            is_retryable: false,
        }),
        Err(error) => Err(SourceUnavailable {
            message: format!("could not read {object}: {error}"),
            is_retryable: true,
        }),
    }
}
