//! Settings of kustomize and of Flux's Kustomizations: both change objects before they are applied, and nothing here does.

use super::documents::Document;
use crate::create::note::{Gap, Note};

/// The API groups.
const KUSTOMIZE: &str = "kustomize.config.k8s.io";
const FLUX: &str = "kustomize.toolkit.fluxcd.io";
/// The names of files of kustomize, whose content needs no kind.
const FILES: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// Fields that change objects.
const OF_KUSTOMIZE: [&str; 15] = [
    "namespace",
    "namePrefix",
    "nameSuffix",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "replacements",
    "vars",
    "components",
    "transformers",
    "generators",
    "configMapGenerator",
    "secretGenerator",
    "labels",
    "commonAnnotations",
];
const OF_FLUX: [&str; 7] = [
    "targetNamespace",
    "postBuild",
    "patches",
    "components",
    "namePrefix",
    "nameSuffix",
    "commonMetadata",
];

/// Notes about the settings that an object has.
pub fn notes(document: &Document) -> Vec<Note> {
    let (kind, file) = (document.text("/kind"), document.file());
    let is_kustomization = matches!(kind, "Kustomization" | "Component");
    let name = file.rsplit('/').next().unwrap_or_default();
    let (prefix, fields, command) = if document.group() == FLUX && kind == "Kustomization" {
        ("spec.", &OF_FLUX[..], "flux build kustomization prints")
    } else if document.group() == KUSTOMIZE && is_kustomization || kind.is_empty() && FILES.contains(&name) {
        ("", &OF_KUSTOMIZE[..], "kustomize build prints")
    } else {
        return Vec::new();
    };
    let is_set = |field: &&str| {
        let pointer = format!("/{}{field}", prefix.replace('.', "/"));
        document
            .object
            .pointer(&pointer)
            .is_some_and(|value| !value.is_null())
    };
    let note = |field: &str| {
        let path = format!("{prefix}{field}");
        Note {
            object: "Kustomization".to_owned(),
            position: document.position(&path),
            path,
            text: format!("this is not applied; to have it applied, convert what {command}"),
            gap: Gap::None,
        }
    };
    fields
        .iter()
        .filter(|field| is_set(field))
        .map(|field| note(field))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::documents::documents, *};

    fn paths(file: &str, text: &str) -> Vec<String> {
        let (documents, _) = documents(file, text.to_owned(), &["HelmRelease"]);
        documents.iter().flat_map(notes).map(|note| note.path).collect()
    }

    #[test]
    fn settings_that_change_objects_are_noted() {
        let own = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\nnamespace: shop\npatches: []\n";
        assert_eq!(paths("a/b.yaml", own), ["namespace", "patches"]);
        let short = "resources: [a.yaml]\nnamespace: shop\n";
        assert_eq!(paths("a/kustomization.yaml", short), ["namespace"]);
        assert_eq!(paths("a/values.yaml", short), [""; 0]);
        let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {path: ./a, postBuild: {substitute: {A: b}}, targetNamespace: shop}\n";
        assert_eq!(
            paths("flux.yaml", flux),
            ["spec.targetNamespace", "spec.postBuild"]
        );
    }
}
