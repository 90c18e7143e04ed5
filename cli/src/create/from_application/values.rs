//! The values of an Application, and other settings of Helm.
//!
//! Helm gets them in this order, and later ones override earlier ones: `valueFiles`, `valuesObject` or else `values`, then `parameters`.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use bounded_text::listed;
use go_formats::strvals::{self, Kind};
use serde_json::{Map, Value};

use super::is_values;
use crate::create::{
    draft::Draft,
    note::{Gap, Loss},
    objects::{Objects, Used, documents::Document, fields::Fields, login, values},
};

/// What a path has that names several files, or a variable.
const PATTERNS: [char; 5] = ['$', '*', '?', '[', '{'];
/// How many files a message names.
const MAX_NAMES: usize = 3;

/// The repositories of other sources, by their names in `$NAME/…`.
pub type References = BTreeMap<String, String>;

/// Takes the sources that only have values.
pub fn references(sources: Vec<Fields<'_>>, draft: &mut Draft) -> References {
    let mut found = References::new();
    for mut source in sources {
        let url = source.text("repoURL").unwrap_or_default();
        found.extend(source.text("ref").map(|name| (name, url)));
        for field in ["targetRevision", "name", "tagPrefix"] {
            source.drop(field);
        }
        source.finish(&mut draft.notes);
    }
    found
}

/// Converts `helm`. The chart is set already.
pub fn convert(
    objects: &Objects,
    source: &mut Fields<'_>,
    references: &References,
    draft: &mut Draft,
    used: &mut Used,
) {
    let mut helm = source.mapping("helm");
    names(&mut helm, draft);
    let mut all = files(objects, &mut helm, references, draft, used);
    // An empty object replaces the text, too.
    let own = if helm.has("valuesObject") {
        helm.drop("values");
        values::mapping(&mut helm, "valuesObject", draft)
    } else {
        values::text(&mut helm, "values", draft)
    };
    strvals::merge(&mut all, own.unwrap_or_default());
    parameters(&mut helm, &mut all, draft);
    values::set(&helm, "values", all, draft);
    settings(&mut helm, draft);
    helm.finish(&mut draft.notes);
}

fn names(helm: &mut Fields<'_>, draft: &mut Draft) {
    let options = &mut draft.helmop.spec.bundle.options;
    if let Some(name) = helm.text("releaseName") {
        options.helm.get_or_insert_default().release_name = name;
    }
    if let Some(namespace) = helm
        .text("namespace")
        .filter(|own| *own != options.default_namespace)
    {
        let text = format!(
            "templates get namespace {namespace:?}, and objects that name none are in {:?}; a HelmOp has one namespace for both",
            options.default_namespace
        );
        let gap = Gap::Field(Loss::Namespace);
        draft.notes.push(helm.refusal("namespace", gap, text));
    }
}

/// Fields that are about neither names nor values.
fn settings(helm: &mut Fields<'_>, draft: &mut Draft) {
    let options = &mut draft.helmop.spec.bundle.options;
    options.helm.get_or_insert_default().skip_schema_validation =
        helm.flag("skipSchemaValidation") == Some(true);
    let crds = if helm.flag("skipCrds") == Some(true) {
        "Skip"
    } else {
        "CreateReplace"
    };
    let lifecycle = options.lifecycle.get_or_insert_default();
    for action in [&mut lifecycle.install, &mut lifecycle.upgrade] {
        crds.clone_into(&mut action.get_or_insert_default().crds);
    }
    if helm.flag("passCredentials") == Some(true) {
        login::passed(helm, "passCredentials", draft);
    }
    // Tests only run if that is wanted.
    helm.drop("skipTests");
    if let Some(version) = helm
        .text("version")
        .filter(|version| version.trim_start_matches('v') != "3")
    {
        let text =
            format!("Helm {version} is not supported: remove the field, and check what the chart renders to");
        draft.notes.push(helm.refusal("version", Gap::Valid, text));
    }
    let notes = &mut draft.notes;
    let capabilities =
        "the chart is rendered for the cluster that it is deployed to, and not for what this field says";
    helm.refused("kubeVersion", Loss::KubeVersion, capabilities, notes);
    helm.refused("apiVersions", Loss::ApiVersions, capabilities, notes);
    let text = "the content of a file cannot be a value: copy it into helm.values";
    helm.refused("fileParameters", Loss::FileParameters, text, notes);
}

/// Files of the chart stay there; what is in those of `$NAME/…` becomes values, if the files have it.
fn files(
    objects: &Objects,
    helm: &mut Fields<'_>,
    references: &References,
    draft: &mut Draft,
    used: &mut Used,
) -> Map<String, Value> {
    let files = helm.texts("valueFiles");
    let ignores_missing = helm.flag("ignoreMissingValueFiles") == Some(true);
    let (mut of_chart, mut found) = (Vec::new(), None::<Map<String, Value>>);
    let folder = draft.git.as_ref().map(|git| git.source.path.clone());
    for file in &files {
        if let (Some(path), None) = (in_chart(file, folder.as_deref()), &found) {
            of_chart.push(path);
            continue;
        }
        let text = match in_files(objects, file, references) {
            Ok((index, document)) => {
                used.add(index);
                let own = document.object.as_object().cloned().unwrap_or_default();
                draft.locate_nulls(&own, |null| document.position(null.trim_start_matches('.')));
                strvals::merge(found.get_or_insert_default(), own);
                let text = format!(
                    "{file:?} is {} of the files, whose values are in helm.values now: later changes of it are not followed",
                    document.file()
                );
                draft.notes.push(helm.note("valueFiles", text));
                continue;
            }
            Err(text) => text,
        };
        let gap = Gap::Field(Loss::ValuesFiles);
        draft
            .notes
            .push(helm.refusal("valueFiles", gap, format!("{file:?} {text}")));
    }
    let options = &mut draft.helmop.spec.bundle.options;
    if ignores_missing {
        let lifecycle = options.lifecycle.get_or_insert_default();
        lifecycle.ignore_missing_values_files = true;
    }
    options.helm.get_or_insert_default().values_files = of_chart;
    found.unwrap_or_default()
}

/// The path of a file of the chart, which may be in a folder of a Git repository: an absolute path starts at the top of that.
fn in_chart(file: &str, folder: Option<&str>) -> Option<String> {
    let is_plain = !file.contains("://") && !file.contains(PATTERNS);
    let path = match (file.strip_prefix('/'), folder) {
        (Some(path), Some(folder)) => Path::new(path).strip_prefix(folder).ok()?,
        (Some(path), None) => Path::new(path),
        (None, _) => Path::new(file),
    };
    let parts: Vec<_> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    (is_plain && !parts.is_empty()).then(|| parts.join("/"))
}

/// A file of another source, and its index. An error says what to do.
fn in_files<'o>(
    objects: &'o Objects,
    file: &str,
    references: &References,
) -> Result<(usize, &'o Document), String> {
    const COPY: &str = "copy its content into values";
    let reference = file.strip_prefix('$').and_then(|rest| rest.split_once('/'));
    let known = reference.and_then(|(name, path)| Some((references.get(name)?, path)));
    let Some((url, path)) = known else {
        return Err(format!(
            "is not in the chart, or overrides a file that is not; {COPY}"
        ));
    };
    if path.contains(PATTERNS) {
        return Err(format!("names several files of {url}, or a variable; {COPY}"));
    }
    let fits = |document: &Document| {
        let rest = document.file().strip_suffix(path);
        is_values(document) && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let found: Vec<_> = objects
        .documents()
        .filter(|(_, document)| fits(document))
        .collect();
    match &found[..] {
        [(_, document)] if document.object.get("sops").is_some() => {
            Err("is encrypted with SOPS: decrypt it (sops -d)".to_owned())
        }
        [found] => Ok(*found),
        [] => Err(format!(
            "is in {url}, and not in the chart: convert the folder with its files, or {COPY}"
        )),
        several => {
            let names: Vec<_> = several.iter().map(|(_, document)| document.file()).collect();
            let names = listed(&names, MAX_NAMES);
            Err(format!(
                "may be each of {names}: convert the folder that {url} has, or {COPY}"
            ))
        }
    }
}

/// `parameters`, which Argo CD passes to `--set`, and those with `forceString` to `--set-string`, after it has replaced variables.
fn parameters(helm: &mut Fields<'_>, into: &mut Map<String, Value>, draft: &mut Draft) {
    let mut all = Vec::new();
    for mut entry in helm.list("parameters") {
        let name = entry.text("name").unwrap_or_default();
        let value = entry.text("value").unwrap_or_default();
        let kind = match entry.flag("forceString") {
            Some(true) => Kind::Text,
            _ => Kind::Typed,
        };
        // The last one of a name counts.
        all.retain(|(own, _, own_kind, _)| (own, *own_kind) != (&name, kind));
        all.push((name, value, kind, entry));
    }
    all.sort_by_key(|(_, _, kind, _)| *kind == Kind::Text);
    for (name, value, kind, entry) in all {
        match without_variables(&value) {
            Ok(value) => {
                let value = with_escaped_commas(&value);
                draft.locate_null((&name, &value, kind), entry.position("value"));
                if let Err(error) = strvals::set(into, &name, &value, kind) {
                    let text = format!("Helm cannot set {name:?}: {error}");
                    draft.notes.push(entry.refusal("name", Gap::Valid, text));
                }
            }
            Err(variable) => {
                let text = format!(
                    "Argo CD replaces {variable:?}, and nothing does so here: write what it stands for, or $$ for a dollar sign"
                );
                draft.notes.push(entry.refusal("value", Gap::Variable, text));
            }
        }
        entry.finish(&mut draft.notes);
    }
}

/// A value with `$` for `$$`; an error is what Argo CD would replace.
fn without_variables(value: &str) -> Result<String, String> {
    let mut parts = value.split("$$");
    let with_variable = parts.find(|part| part.contains('$'));
    match with_variable.and_then(|part| part.get(part.find('$')?..)) {
        Some(variable) => Err(variable.to_owned()),
        None => Ok(value.replace("$$", "$")),
    }
}

/// A comma without a backslash before it gets one, except in a list in braces.
fn with_escaped_commas(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let (mut found, mut before) = (String::new(), None);
    for c in value.chars() {
        if c == ',' && before != Some('\\') {
            found.push('\\');
        }
        found.push(c);
        before = Some(c);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_path_is_in_the_chart() {
        let git = Some("charts/web");
        for (file, folder, expected) in [
            ("values.yaml", None, Some("values.yaml")),
            ("./a/./b.yaml", None, Some("a/b.yaml")),
            ("/a.yaml", None, Some("a.yaml")),
            ("../a.yaml", None, None),
            ("a/../../b.yaml", None, None),
            ("https://h/a.yaml", None, None),
            ("$values/a.yaml", None, None),
            ("envs/*.yaml", None, None),
            ("", None, None),
            ("a.yaml", git, Some("a.yaml")),
            ("/charts/web/a.yaml", git, Some("a.yaml")),
            ("/charts/webs/a.yaml", git, None),
            ("/a.yaml", git, None),
            ("/a.yaml", Some(""), Some("a.yaml")),
        ] {
            assert_eq!(in_chart(file, folder).as_deref(), expected, "{file} {folder:?}");
        }
    }

    #[test]
    fn what_argo_cd_replaces_is_found() {
        for (value, expected) in [
            ("a", Ok("a")),
            ("a$$b", Ok("a$b")),
            ("a$B", Err("$B")),
            ("$$${B}", Err("${B}")),
        ] {
            let found = without_variables(value);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{value}");
        }
    }
}
