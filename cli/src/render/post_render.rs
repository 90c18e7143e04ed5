//! `lifecycle.postRenderers` and `commonMetadata` on rendered objects, as the agent applies them.
//!
//! Kustomize is that of kubectl, which a person with a plugin of kubectl has.

use std::{io, path::Path, process::Output};

use go_formats::yaml;
use helmops_api::BundleDeploymentOptions;
use helmops_helm::{
    kustomize::{KustomizeStep, KustomizeSteps},
    request::PostRenderers,
};
use helmops_release::{
    manifest,
    post_render::{CommonMetadata, is_hook},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::failure::Failure;

const PROGRAM: &str = "kubectl";
const CANNOT: &str = "the post-renderers cannot be applied";

/// The objects after the post-renderers. A text without any stays as it is.
///
/// # Errors
/// If Kustomize refuses a patch, or there is no kubectl.
pub async fn apply(text: String, options: &BundleDeploymentOptions) -> Result<String, Failure> {
    let lifecycle = options.lifecycle.as_deref();
    let steps = KustomizeSteps::of(&PostRenderers::of(options, lifecycle))
        .map_err(|error| Failure::because(CANNOT, &error))?;
    if let Some(folder) = steps
        .as_ref()
        .map(|steps| &steps.folder)
        .filter(|folder| !folder.is_empty())
    {
        let failure = Failure::unable(format!(
            "{CANNOT}: kustomize.dir {folder:?} is a folder of the chart, which only the agent reads"
        ));
        return Err(failure.with_hint(
            "leave out the option that renders the chart, or compare on the cluster: helm get manifest",
        ));
    }
    let common = lifecycle.map(CommonMetadata::of).unwrap_or_default();
    if steps.is_none() && common == CommonMetadata::default() {
        return Ok(text);
    }
    let mut objects = manifest::objects(&text).map_err(|error| Failure::because(CANNOT, &error))?;
    if let Some(steps) = steps {
        objects = changed(objects, &steps).await?;
    }
    for object in &mut objects {
        common.add_to(object);
    }
    written(&objects)
}

async fn changed(objects: Vec<Value>, steps: &KustomizeSteps) -> Result<Vec<Value>, Failure> {
    if !matches!(&*steps.strategy, "nohooks" | "separate") {
        return together(objects, steps).await;
    }
    let (mut hooks, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_hook);
    if steps.strategy == "separate" {
        hooks = together(hooks, steps).await?;
    }
    let mut all = together(others, steps).await?;
    all.extend(hooks);
    Ok(all)
}

async fn together(mut objects: Vec<Value>, steps: &KustomizeSteps) -> Result<Vec<Value>, Failure> {
    for step in &steps.renderers {
        if !objects.is_empty() {
            let text = run(&objects, step).await?;
            objects = manifest::objects(&text).map_err(|error| Failure::because(CANNOT, &error))?;
        }
    }
    Ok(objects)
}

/// One run of Kustomize.
async fn run(objects: &[Value], step: &KustomizeStep) -> Result<String, Failure> {
    let unable = |error: &io::Error| Failure::because(CANNOT, error);
    let folder = TempDir::new().map_err(|error| unable(&error))?;
    let patches = step.patches.iter();
    let patches: Vec<_> = patches
        .map(|patch| json!({ "patch": patch.patch, "target": patch.target }))
        .collect();
    let kustomization = json!({ "resources": ["objects.yaml"], "patches": patches, "images": step.images });
    let texts: Vec<_> = objects.iter().map(Value::to_string).collect();
    for (name, content) in [
        ("kustomization.yaml", kustomization.to_string()),
        ("objects.yaml", texts.join("\n---\n")),
    ] {
        std::fs::write(folder.path().join(name), content).map_err(|error| unable(&error))?;
    }
    let output = kustomize(folder.path()).await.map_err(|error| {
        let failure = Failure::because(format!("{CANNOT}: {PROGRAM} cannot be run"), &error);
        failure.with_hint("lifecycle.postRenderers needs kubectl in $PATH, for kubectl kustomize")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(Failure::unable(format!(
        "{CANNOT}: {}",
        error.trim().trim_start_matches("error: ")
    )))
}

async fn kustomize(folder: &Path) -> io::Result<Output> {
    Command::new(PROGRAM)
        .arg("kustomize")
        .arg(folder)
        .kill_on_drop(true)
        .output()
        .await
}

fn written(objects: &[Value]) -> Result<String, Failure> {
    let texts = objects.iter().map(yaml::emit_exact);
    let texts: Vec<_> = texts
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::because(CANNOT, &error))?;
    Ok(texts.join("---\n"))
}
