//! The objects that Helm would render, against those of the deployed revision. Values of Secrets are masked.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use go_formats::json;
use helmops_api::{Bundle, HelmOp};
use helmops_release::{adoption, manifest, names::ReleaseKey, object::ObjectId, post_render, record::Record};
use serde_json::{Map, Value};

use super::{Change, DiffArgs, unified};
use crate::{
    cluster::{Cluster, ClusterArgs, contexts::Contexts, records},
    create::yaml,
    failure::Failure,
    render::{self, Access, ChartAccess, ReleaseValues, RenderArgs, Rendered, ValuesOf},
    terminal::{Console, progress::during},
};

/// How objects are rendered and read.
pub struct Manifests {
    program: PathBuf,
    render: RenderArgs,
    contexts: Contexts,
}

type Objects = BTreeMap<ObjectId, Value>;

impl Manifests {
    /// Checks the arguments.
    ///
    /// # Errors
    /// If there is no Helm, or a context is not `CLUSTER=CONTEXT`.
    pub fn new(args: &DiffArgs, cluster: &ClusterArgs) -> Result<Self, Failure> {
        let program = args.render.program().ok_or_else(|| {
            Failure::unable("--manifests needs Helm 4: no program helm was found in $PATH")
                .with_hint("set --helm to the program")
        })?;
        Ok(Self {
            program,
            render: args.render.clone(),
            contexts: Contexts::parse(&args.cluster_context, cluster)?,
        })
    }

    /// Writes the differences of one cluster. Returns whether there is any.
    ///
    /// # Errors
    /// If the chart cannot be fetched or rendered, or the record cannot be read.
    pub async fn write(
        &self,
        upstream: &Cluster,
        (helmop, bundle): (&HelmOp, Option<&Bundle>),
        change: &Change,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        if !change.is_deployment() {
            return Ok(false);
        }
        let Change { cluster, .. } = change;
        let Some(args) = self.contexts.of(cluster) else {
            writeln!(
                console.err,
                "warning: the objects of cluster {cluster} are not compared: add --cluster-context {cluster}=CONTEXT"
            )?;
            return Ok(false);
        };
        let (Some(options), Some(helm)) = (
            &change.options,
            change.options.as_ref().and_then(|options| options.helm.as_ref()),
        ) else {
            return Ok(false);
        };
        let key = ReleaseKey::of(&change.deployment, options);
        let downstream = args.connect().await?;
        let record = records::newest(&downstream.client, &key.records()).await?;
        let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
        let access = ChartAccess::of(helmop, namespace);
        let fetching = render::fetch_of(&upstream.client, helmop, bundle, helm, access);
        let archive = during(console, "Fetching the chart", fetching).await?;
        let account = self
            .render
            .account(options, &change.agent_namespace, &args)
            .await?;
        let of = ValuesOf {
            cluster,
            options,
            own: &change.values,
            namespace: &key.namespace,
        };
        let values = ReleaseValues::read(of, account.as_ref(), Some(archive.path())).await?;
        let values = [json::encode(&values.merged()?.into()).into_bytes()];
        let rendered = Rendered {
            release: &key,
            options,
            values: &values,
            is_upgrade: record.is_some(),
        };
        let access = Access::of(&self.render, account.as_ref(), &downstream.client);
        // First: it may be the reason why the rendering fails.
        self.render.report_lookup(archive.path(), console)?;
        let rendering = render::render(&self.program, archive.path(), access, rendered);
        let text = during(console, "Rendering the chart", rendering).await?;
        let after = objects(&text, &key.namespace, &options.namespace)?;
        let before = match &record {
            Some(Record { manifest, .. }) => objects(manifest, &key.namespace, &options.namespace)?,
            None => Objects::new(),
        };
        let mut is_different = false;
        for (id, before, after) in differences(before, after) {
            is_different = true;
            let title = format!("{cluster}: {id}");
            unified::write(
                &title,
                &printed(before.as_ref())?,
                &printed(after.as_ref())?,
                console,
            )?;
        }
        Ok(is_different)
    }
}

/// The objects of a text, without hooks, which are not in the manifest of a record, and without the marks of an agent.
fn objects(text: &str, namespace: &str, moved_to: &str) -> Result<Objects, Failure> {
    let all =
        manifest::objects(text).map_err(|error| Failure::because("the objects cannot be read", &error))?;
    let mut objects = Objects::new();
    for mut object in all.into_iter().filter(|object| !post_render::is_hook(object)) {
        adoption::normalize(&mut object, namespace);
        if !moved_to.is_empty()
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        {
            metadata.remove("namespace");
        }
        if let Some(id) = ObjectId::of(&object) {
            objects.insert(id, object);
        }
    }
    Ok(objects)
}

/// What differs, with masked Secrets.
fn differences(mut before: Objects, mut after: Objects) -> Vec<(ObjectId, Option<Value>, Option<Value>)> {
    let ids: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let mut found = Vec::new();
    for id in ids {
        let (mut one, mut other) = (before.remove(&id), after.remove(&id));
        if one == other {
            continue;
        }
        if id.kind == "Secret" && id.group().is_empty() {
            mask(one.as_mut(), other.as_mut());
        }
        found.push((id, one, other));
    }
    found
}

/// Replaces the values of a Secret, as `kubectl diff` does: what changes is still to be seen, not from what to what.
fn mask(mut before: Option<&mut Value>, mut after: Option<&mut Value>) {
    for field in ["data", "stringData"] {
        let mut none = Map::new();
        let mut other = Map::new();
        let before = entries(before.as_deref_mut(), field).unwrap_or(&mut none);
        let after = entries(after.as_deref_mut(), field).unwrap_or(&mut other);
        for (key, value) in before.iter_mut() {
            match after.get_mut(key) {
                Some(same) if same == value => {
                    *same = "***".into();
                    *value = "***".into();
                }
                Some(changed) => {
                    *changed = "*** (after)".into();
                    *value = "*** (before)".into();
                }
                None => *value = "***".into(),
            }
        }
        for (key, value) in after.iter_mut() {
            if !before.contains_key(key) {
                *value = "***".into();
            }
        }
    }
}

fn entries<'o>(object: Option<&'o mut Value>, field: &str) -> Option<&'o mut Map<String, Value>> {
    object?.get_mut(field)?.as_object_mut()
}

fn printed(object: Option<&Value>) -> Result<String, Failure> {
    object.map_or_else(|| Ok(String::new()), yaml)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: login, labels: {objectset.rio.cattle.io/hash: x}}\ndata: {a: b25l, b: dHdv, gone: eA==}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: same, namespace: shop}\n";
    const AFTER: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {a: b25l, b: b3RoZXI=, new: eQ==}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: same}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: test}}\n";

    #[test]
    fn values_of_secrets_are_masked_and_marks_and_hooks_are_no_difference() {
        let read = |text| objects(text, "shop", "").unwrap();
        let found = differences(read(BEFORE), read(AFTER));
        assert_eq!(found.len(), 1, "{found:?}");
        let (_, before, after) = &found[0];
        assert_eq!(
            printed(before.as_ref()).unwrap(),
            "apiVersion: v1\ndata:\n  a: '***'\n  b: '*** (before)'\n  gone: '***'\nkind: Secret\nmetadata:\n  name: login\n"
        );
        assert_eq!(
            printed(after.as_ref()).unwrap(),
            "apiVersion: v1\ndata:\n  a: '***'\n  b: '*** (after)'\n  new: '***'\nkind: Secret\nmetadata:\n  name: login\n"
        );
        assert_eq!(differences(read(BEFORE), read(BEFORE)), []);
    }
}
