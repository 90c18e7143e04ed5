//! Writes the objects of some content: its parts, then the head.

use helmops_api::{Content, labels};
use helmops_content::{Encoded, Limits, Opened, open};
use helmops_core::{content::StoredContent, targeting::delivery::ObjectVersion};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Resource, ResourceExt, api::Patch};
use serde_json::json;

use super::ContentError;
use crate::{
    context::Context,
    watch::Contents,
    writes::{MANAGER, delete_version},
};

/// Writes what is missing of some content, and marks what is there as used again.
pub async fn all(context: &Context, stored: &Contents, encoded: &Encoded) -> Result<(), ContentError> {
    let api = Api::<Content>::all(context.client.clone());
    for part in encoded.parts() {
        ensure(&api, stored, encoded, part).await?;
    }
    ensure(&api, stored, encoded, encoded.head()).await?;
    tracing::info!(content = %encoded.id(), bytes = encoded.bytes(), "Content written");
    Ok(())
}

async fn ensure(
    api: &Api<Content>,
    stored: &Contents,
    encoded: &Encoded,
    object: Content,
) -> Result<(), ContentError> {
    let name = object.name_any();
    let failed = |action: &'static str| CallError::of(action, format!("Content {name}"));
    let written = match bounded(api.create(&MANAGER.post(), &object)).await {
        Err(error) if error.exists_already() => match reused(api, encoded, &object).await {
            Ok(Some(reused)) => Some(reused),
            Ok(None) => return Ok(()),
            Err(Reuse::Foreign) => return Err(ContentError::Foreign(name)),
            Err(Reuse::Api(error)) => return Err(failed("use")(error).into()),
        },
        other => Some(other.map_err(failed("write"))?),
    };
    if let Some(metadata) = written.and_then(|written| StoredContent::of(&written.metadata)) {
        stored.wrote(metadata);
    }
    Ok(())
}

/// Why an object that exists cannot be used.
enum Reuse {
    Foreign,
    Api(ApiError),
}

impl From<ApiError> for Reuse {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Uses an object that is there already: one of this controller is marked as used again, so that a deletion that was decided before fails, and
/// is replaced if it is damaged. One of Fleet is used as it is (`None`).
async fn reused(api: &Api<Content>, encoded: &Encoded, object: &Content) -> Result<Option<Content>, Reuse> {
    let name = object.name_any();
    let found = bounded(api.get(&name)).await?;
    let is_own = labels::of(&found.metadata, labels::CONTENT).is_some();
    let is_same = found.content == object.content || has_content(&found, encoded, &name);
    match (is_own, is_same) {
        (false, true) => Ok(None),
        (false, false) => Err(Reuse::Foreign),
        (true, true) => {
            let now = Timestamp::now().to_string();
            let metadata = json!({
                "resourceVersion": found.resource_version(), "annotations": { labels::CONTENT_USED_AT: now },
            });
            let change = Patch::Merge(json!({ "metadata": metadata }));
            Ok(Some(bounded(api.patch(&name, &MANAGER.patch(), &change)).await?))
        }
        (true, false) => {
            tracing::warn!(content = name, "a Content was changed, and is written again");
            bounded(api.delete(&name, &delete_version(&ObjectVersion::of(found.meta())))).await?;
            Ok(Some(bounded(api.create(&MANAGER.post(), object)).await?))
        }
    }
}

/// Whether the head has the content in other bytes: another version of the compression may have written it.
fn has_content(found: &Content, encoded: &Encoded, name: &str) -> bool {
    let id = encoded.id();
    name == id.as_str() && matches!(open(found, id, Limits::CHART), Ok(Opened::Whole(_)))
}
