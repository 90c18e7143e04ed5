//! `lifecycle.postRenderers` for `helmops-helm`: one patch for each document.

use helmops_api::lifecycle::{KustomizeImage, KustomizePatch, ObjectSelector};
use helmops_model::patch::{Patch, PatchError};
use serde::Serialize;
use thiserror::Error;

use super::request::PostRenderers;

/// A patch that Kustomize would refuse.
#[derive(Debug, Error)]
#[error("{field}.patch: {error}")]
pub struct InvalidPatch {
    /// The entry.
    pub field: String,
    /// Why.
    pub error: PatchError,
}

/// The steps. `agent/helm/postrender.go` has the same types.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeSteps {
    /// The folder of the chart with a kustomization, which comes first; empty for none.
    pub folder: String,
    /// Whether the chart is made of the files of a Bundle.
    pub is_content: bool,
    /// The steps, in their order.
    pub renderers: Vec<KustomizeStep>,
    /// Which objects are changed together: `nohooks`, `separate`, or all.
    pub strategy: String,
}

/// One step.
#[derive(Debug, Serialize)]
pub struct KustomizeStep {
    /// Patches, in their order.
    pub patches: Vec<SinglePatch>,
    /// Images, after the patches.
    pub images: Vec<KustomizeImage>,
}

/// A patch of one document.
#[derive(Debug, Serialize)]
pub struct SinglePatch {
    /// Its entry, for messages.
    pub field: String,
    /// An object, or a list of operations.
    pub patch: String,
    /// What it changes; `None` for the object that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<ObjectSelector>,
}

impl KustomizeSteps {
    /// The steps; `None` if there are none.
    ///
    /// # Errors
    /// If a patch is invalid: admission denies it, and may be bypassed.
    pub fn of(post_renderers: &PostRenderers) -> Result<Option<Self>, InvalidPatch> {
        let mut renderers = Vec::new();
        for (at, step) in post_renderers.steps.iter().enumerate() {
            let Some(changes) = &step.kustomize else { continue };
            let mut patches = Vec::new();
            for (index, patch) in changes.patches.iter().enumerate() {
                let field = format!("lifecycle.postRenderers[{at}].kustomize.patches[{index}]");
                patches.extend(patches_of(patch, &field)?);
            }
            renderers.push(KustomizeStep {
                patches,
                images: changes.images.clone(),
            });
        }
        let steps = Self {
            folder: post_renderers.folder.clone(),
            is_content: post_renderers.is_content,
            renderers,
            strategy: post_renderers.strategy.clone(),
        };
        let has_any = !steps.renderers.is_empty() || !steps.folder.is_empty() || steps.is_content;
        Ok(has_any.then_some(steps))
    }
}

/// One for each document.
fn patches_of(patch: &KustomizePatch, field: &str) -> Result<Vec<SinglePatch>, InvalidPatch> {
    let parsed = Patch::parse(&patch.patch).map_err(|error| InvalidPatch {
        field: field.to_owned(),
        error,
    })?;
    let patches = match parsed {
        Patch::StrategicMerge(patches) => patches,
        Patch::Json(patch) => vec![patch],
    };
    let of = |text| SinglePatch {
        field: field.to_owned(),
        patch: text,
        target: patch.target.clone(),
    };
    Ok(patches.into_iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use helmops_api::{BundleDeploymentOptions, Lifecycle};
    use serde_json::{Value, json};

    use super::*;

    fn of(post_renderers: &Value) -> Result<Option<KustomizeSteps>, InvalidPatch> {
        let lifecycle: Lifecycle = serde_json::from_value(
            json!({ "postRenderers": post_renderers, "postRenderStrategy": "separate" }),
        )
        .unwrap();
        let options = BundleDeploymentOptions::default();
        KustomizeSteps::of(&PostRenderers::of(&options, Some(&lifecycle)))
    }

    #[test]
    fn each_document_is_a_patch() {
        let steps = of(&json!([{ "kustomize": {
            "patches": [
                { "patch": "kind: A\nmetadata: {name: a}\n---\nkind: B\nmetadata: {name: b}\nspec: {on: yes}" },
                { "patch": "[{op: remove, path: /a}]", "target": { "kind": "A" } },
            ],
            "images": [{ "name": "nginx", "newTag": "2" }],
        }}]));
        let field = |index| format!("lifecycle.postRenderers[0].kustomize.patches[{index}]");
        let expected = json!({ "folder": "", "isContent": false, "strategy": "separate", "renderers": [{
            "patches": [
                { "field": field(0), "patch": "kind: A\nmetadata: {name: a}\n" },
                { "field": field(0), "patch": "kind: B\nmetadata: {name: b}\nspec: {on: yes}" },
                { "field": field(1), "patch": r#"[{"op":"remove","path":"/a"}]"#, "target": { "kind": "A" } },
            ],
            "images": [{ "name": "nginx", "newTag": "2" }],
        }]});
        assert_eq!(serde_json::to_value(steps.unwrap()).unwrap(), expected);
        assert!(of(&json!([])).unwrap().is_none());
    }

    #[test]
    fn an_invalid_patch_is_named() {
        let error = of(&json!([{ "kustomize": { "patches": [{ "patch": "" }] } }]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("lifecycle.postRenderers[0].kustomize.patches[0].patch: it is empty"),
            "{error}"
        );
    }
}
