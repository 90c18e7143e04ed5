//! What a Bundle passes on to clusters: its access Secret, and downstream resources. Each is read once for all of them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt, stream};
use helmops_shared::{
    api::Bundle,
    targeting::{
        Target,
        copies::{Kind, Object, Source, check_type, downstream},
    },
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use super::{AT_ONCE, deliver::named};
use crate::{client::bounded, context::Context};

/// Everything that any target passes on.
pub struct Sources(BTreeMap<Source, Result<Object, Missing>>);

/// Something that is to be passed on is not to be had.
pub struct Missing {
    /// What to tell of each cluster that needs it.
    pub problem: String,
    /// Whether it must be tried again: what appears is seen by itself.
    pub is_unread: bool,
}

impl Sources {
    /// Reads what is wanted.
    pub async fn read(context: &Context, bundle: &Bundle, targets: &[Target<'_>]) -> Self {
        let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
        let wanted = wanted(bundle, targets);
        let reads: Vec<_> = wanted
            .into_iter()
            .map(|source| read(context, namespace, source).boxed())
            .collect();
        Self(stream::iter(reads).buffer_unordered(AT_ONCE).collect().await)
    }

    /// One of them.
    pub fn get(&self, source: &Source) -> Option<&Result<Object, Missing>> {
        self.0.get(source)
    }
}

/// The access Secret of a Bundle, if it has one.
pub fn access(bundle: &Bundle) -> Option<Source> {
    let options = bundle.spec.helm_op_options.as_ref()?;
    (!options.secret_name.is_empty()).then(|| Source {
        kind: Kind::Secret,
        name: options.secret_name.clone(),
    })
}

fn wanted(bundle: &Bundle, targets: &[Target<'_>]) -> BTreeSet<Source> {
    let options = targets.iter().filter_map(|target| target.wanted.as_ref().ok());
    let wanted = options.flat_map(|wanted| downstream(&wanted.options).unwrap_or_default());
    // What clusters deploy with now is kept up to date until their turn comes.
    let present = targets.iter().filter_map(|target| target.existing);
    let present = present.flat_map(named);
    let is_needed = !targets.is_empty();
    wanted
        .chain(present)
        .chain(access(bundle).filter(|_| is_needed))
        .collect()
}

async fn read(context: &Context, namespace: &str, source: Source) -> (Source, Result<Object, Missing>) {
    let found = find(context, namespace, &source).await;
    (source, found)
}

async fn find(context: &Context, namespace: &str, source: &Source) -> Result<Object, Missing> {
    let (client, name) = (context.client.clone(), &*source.name);
    let found = match source.kind {
        Kind::Secret => {
            let api = Api::<Secret>::namespaced(client, namespace);
            bounded(api.get_opt(name))
                .await
                .map(|found| found.map(Object::Secret))
        }
        Kind::ConfigMap => {
            let api = Api::<ConfigMap>::namespaced(client, namespace);
            bounded(api.get_opt(name))
                .await
                .map(|found| found.map(Object::ConfigMap))
        }
    };
    let what = format!("{} {namespace}/{name}", source.kind);
    match found {
        Ok(Some(object)) => match check_type(&object) {
            Ok(()) => Ok(object),
            Err(forbidden) => Err(Missing {
                problem: forbidden.to_string(),
                is_unread: false,
            }),
        },
        Ok(None) => Err(Missing {
            problem: format!("{what} does not exist; create it, and the cluster gets a copy"),
            is_unread: false,
        }),
        Err(error) => Err(Missing {
            problem: format!("could not read {what}: {error}"),
            is_unread: true,
        }),
    }
}
