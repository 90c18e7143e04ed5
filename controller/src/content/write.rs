//! Writes the objects of some content: its parts, then the head.

use std::collections::BTreeSet;

use helmops_api::{Content, labels};
use helmops_content::{ContentId, Encoded, Limits, Opened, open};
use helmops_core::{content::StoredContent, targeting::delivery::ObjectVersion};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    workers::Namespace,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt, api::Patch};
use serde_json::{Value, json};

use super::ContentError;
use crate::{
    context::Context,
    watch::Contents,
    writes::{MANAGER, delete_version},
};

/// What writes some content.
pub struct ContentWriter<'w> {
    pub context: &'w Context,
    pub stored: &'w Contents,
    pub namespace: &'w Namespace,
    pub encoded: &'w Encoded,
}

impl ContentWriter<'_> {
    /// Writes what is missing, and marks what is there as used again, so that a deletion that was decided before fails.
    pub async fn write(&self) -> Result<(), ContentError> {
        match self.write_once().await {
            // A HelmOp with the same files has written it meanwhile.
            Err(ContentError::Api(error)) if error.exists_already() || error.is_conflict() => {
                self.write_once().await
            }
            other => other,
        }
    }

    async fn write_once(&self) -> Result<(), ContentError> {
        let (head, name) = (self.encoded.head(), self.encoded.id().as_str());
        let found = bounded(self.api().get_opt(name)).await;
        let found = found.map_err(call("read", name))?;
        if let Some(found) = &found {
            let parts = self.parts_of(found, &head).await;
            if let Some(parts) = &parts
                && parts.iter().all(|part| self.stored.has_object(part))
            {
                return self.patch("use", name, &used(found, parts)).await;
            }
            if parts.is_none() && !is_own(found) {
                return Err(ContentError::Foreign(name.to_owned()));
            }
        }
        let mut parts = BTreeSet::new();
        for part in self.encoded.parts() {
            parts.insert(part.name_any());
            self.ensure(part).await?;
        }
        match &found {
            Some(found) => {
                tracing::warn!(
                    content = name,
                    "a Content was changed or lacks a part, and is written again"
                );
                self.patch("write", name, &replaced(found, &head)).await?;
            }
            None => self.create(&head).await?,
        }
        tracing::info!(content = name, bytes = self.encoded.bytes(), "Content written");
        self.delete_others(&parts).await
    }

    /// The names of the parts that the head lists, if it is one of the same content: another version of the compression may have written other
    /// bytes. `None` if it is something else.
    async fn parts_of(&self, found: &Content, head: &Content) -> Option<Vec<String>> {
        if found.content == head.content {
            return StoredContent::of(&head.metadata).map(|head| head.parts);
        }
        let (found, id) = (found.clone(), self.encoded.id().clone());
        // It may be anything that becomes large.
        let limits = Limits {
            json: self.encoded.json_bytes(),
            ..Limits::CHART
        };
        let open = move || open(&found, &id, limits);
        match self.context.compute.on_thread(self.namespace, open).await {
            Ok(Opened::Whole(_)) => Some(Vec::new()),
            Ok(Opened::Split(parts)) => Some(parts.names().collect()),
            Err(_) => None,
        }
    }

    /// Writes a part, or uses the one that is there.
    async fn ensure(&self, part: Content) -> Result<(), ContentError> {
        match self.create(&part).await {
            Err(ContentError::Api(error)) if error.exists_already() => {}
            other => return other,
        }
        let name = &part.name_any();
        let found = bounded(self.api().get(name)).await;
        let found = found.map_err(call("read", name))?;
        if found.content == part.content {
            self.patch("use", name, &used(&found, &[])).await
        } else if is_own(&found) {
            self.patch("write", name, &replaced(&found, &part)).await
        } else {
            Err(ContentError::Foreign(name.clone()))
        }
    }

    /// Deletes parts that the head does not list: another version of the compression has written them.
    async fn delete_others(&self, parts: &BTreeSet<String>) -> Result<(), ContentError> {
        let others = self.stored.of(self.encoded.id()).into_iter();
        for other in others.filter(|object| !object.is_head() && !parts.contains(&object.name)) {
            let version = ObjectVersion {
                uid: other.uid,
                resource_version: other.resource_version,
            };
            match bounded(self.api().delete(&other.name, &delete_version(&version))).await {
                Err(error) if !error.is_not_found() => return Err(call("delete", &other.name)(error).into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn api(&self) -> Api<Content> {
        Api::all(self.context.client.clone())
    }

    async fn create(&self, object: &Content) -> Result<(), ContentError> {
        let written = bounded(self.api().create(&MANAGER.post(), object)).await;
        self.record(&written.map_err(call("write", &object.name_any()))?);
        Ok(())
    }

    async fn patch(&self, action: &'static str, name: &str, change: &Value) -> Result<(), ContentError> {
        let change = &Patch::Merge(change);
        let written = bounded(self.api().patch(name, &MANAGER.patch(), change)).await;
        self.record(&written.map_err(call(action, name))?);
        Ok(())
    }

    /// The cache shows it before the watch does.
    fn record(&self, written: &Content) {
        if let Some(object) = StoredContent::of(&written.metadata) {
            self.stored.wrote(object);
        }
    }
}

/// An object as it should be, in place of what it is.
fn replaced(found: &Content, object: &Content) -> Value {
    let annotation = |key| labels::annotation(&object.metadata, key);
    json!({
        "metadata": {
            "resourceVersion": found.resource_version(),
            "labels": object.metadata.labels,
            "annotations": {
                labels::CONTENT_BYTES: annotation(labels::CONTENT_BYTES),
                labels::CONTENT_PARTS: annotation(labels::CONTENT_PARTS),
            },
        },
        "content": object.content,
        "sha256sum": object.sha256sum,
    })
}

/// An object that is used as it is, with what the cache needs of its metadata: another client may have removed that. What another client has
/// written stays its own.
fn used(found: &Content, parts: &[String]) -> Value {
    let is_head = found.name_any().parse::<ContentId>().is_ok();
    let role = if !is_head {
        labels::CONTENT_PART
    } else if is_own(found) || !parts.is_empty() {
        labels::CONTENT_HEAD
    } else {
        labels::CONTENT_SHARED
    };
    // In base64 they are a third longer.
    let bytes = (role != labels::CONTENT_SHARED).then(|| (found.content.len() / 4 * 3).to_string());
    let parts = (!parts.is_empty()).then(|| parts.join(","));
    json!({ "metadata": {
        "labels": { labels::CONTENT: role },
        "annotations": {
            labels::CONTENT_USED_AT: Timestamp::now().to_string(),
            labels::CONTENT_BYTES: bytes,
            labels::CONTENT_PARTS: parts,
        },
    } })
}

/// Whether this controller has written an object, also if its label is gone.
fn is_own(found: &Content) -> bool {
    let role = labels::of(&found.metadata, labels::CONTENT);
    let has_size = labels::annotation(&found.metadata, labels::CONTENT_BYTES).is_some();
    has_size || role.is_some_and(|role| role != labels::CONTENT_SHARED)
}

fn call(action: &'static str, name: &str) -> impl FnOnce(ApiError) -> CallError {
    CallError::of(action, format!("Content {name}"))
}

#[cfg(test)]
mod tests {
    use helmops_content::Manifest;

    use super::*;

    fn encoded() -> Encoded {
        let files = vec![("web/Chart.yaml".to_owned(), b"name: web\n".to_vec())];
        let manifest = Manifest::of_files(files, Limits::CHART).unwrap();
        manifest.encode(Limits::CHART).unwrap()
    }

    /// An object after a change by a merge patch.
    fn changed(object: &Content, change: &Value) -> Content {
        let mut value = json!(object);
        json_patch::merge(&mut value, change);
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn what_is_used_again_can_be_seen_by_the_cache() {
        let head = encoded().head();
        let parts = [format!("{}-0123456789abcdef", head.name_any())];
        for remove in [
            json!({ "labels": null }),
            json!({ "labels": { labels::CONTENT: "x" }, "annotations": { labels::CONTENT_PARTS: "x" } }),
            json!({ "annotations": null }),
        ] {
            let found = changed(&head, &json!({ "metadata": remove }));
            for parts in [&parts[..], &[]] {
                let used = changed(&found, &used(&found, parts));
                let stored = StoredContent::of(&used.metadata).unwrap();
                assert_eq!((&*stored.parts, stored.is_shared), (parts, false), "{remove}");
                assert!(stored.bytes > 0 && stored.used_at.is_some(), "{remove}");
            }
        }
    }

    #[test]
    fn what_another_client_has_written_stays_its_own() {
        let removed = json!({ "metadata": { "labels": null, "annotations": null } });
        let mut found = changed(&encoded().head(), &removed);
        for _ in 0..2 {
            found = changed(&found, &used(&found, &[]));
            let stored = StoredContent::of(&found.metadata).unwrap();
            assert_eq!((stored.is_shared, stored.bytes), (true, 0));
        }
    }

    #[test]
    fn what_was_changed_becomes_what_it_should_be() {
        let head = encoded().head();
        let change = json!({ "content": "x", "sha256sum": "y", "metadata": {
            "resourceVersion": "7", "annotations": { labels::CONTENT_PARTS: "x", "other": "z" },
        } });
        let found = changed(&head, &change);
        let change = replaced(&found, &head);
        assert_eq!(
            change["metadata"]["resourceVersion"], "7",
            "no other change is overwritten"
        );
        let after = changed(&found, &change);
        assert_eq!(
            (&after.content, &after.sha256sum),
            (&head.content, &head.sha256sum)
        );
        let annotations = after.metadata.annotations.as_ref().unwrap();
        assert!(!annotations.contains_key(labels::CONTENT_PARTS) && annotations.contains_key("other"));
    }
}
