//! What the agent changes in the objects of a chart after Helm has rendered them, and before it applies them.

use std::collections::BTreeMap;

use go_formats::yaml;
use helmops_api::Lifecycle;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{
    manifest::{self, ManifestError},
    mapping::{entries, set_entry},
    marks,
    names::SetId,
    object::ObjectId,
    record,
    scopes::{CRD, Scope, Scopes},
};

/// The longest key in a message, in bytes.
const MAX_KEY: usize = 200;
/// The template of objects of which it is not known.
const CHART: &str = "the chart";

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostRender {
    /// The set that all objects belong to.
    pub set: String,
    /// The namespace that all objects are moved to; `None` leaves them where they are.
    pub namespace: Option<String>,
    /// What a user adds to all objects.
    pub common: CommonMetadata,
    /// Whether CRDs are deleted with the release. By default they stay, and with them all objects of their kinds.
    pub deletes_crds: bool,
    /// The known kinds; only used with a namespace.
    pub scopes: Scopes,
}

/// Labels and annotations that a user adds to all objects. The marks of the agent override them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether hooks get none.
    pub skips_hooks: bool,
}

impl CommonMetadata {
    /// `commonMetadata` of a life cycle.
    pub fn of(lifecycle: &Lifecycle) -> Self {
        let metadata = lifecycle.common_metadata.clone().unwrap_or_default();
        Self {
            labels: metadata.labels,
            annotations: metadata.annotations,
            skips_hooks: lifecycle.post_render_strategy == "nohooks",
        }
    }

    /// Adds them to an object.
    pub fn add_to(&self, object: &mut Value) {
        if self.skips_hooks && is_hook(object) {
            return;
        }
        for (field, all) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for (key, value) in all {
                set_entry(object, field, key, value);
            }
        }
    }
}

/// Whether an object is a hook.
pub fn is_hook(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(marks::HOOK).is_some())
}

/// A part of what Helm has rendered: one YAML document, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedDocument {
    /// The template that it is from.
    pub file: String,
    /// The text.
    pub text: String,
}

/// Why the objects of a chart are refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PostRenderError {
    /// The rendered text has no objects.
    #[error("{file}: {error}")]
    Manifest {
        /// The template.
        file: String,
        /// Why.
        error: ManifestError,
    },
    /// A cluster-scoped object, although all objects are to be in one namespace.
    #[error(
        "invalid cluster scoped object [name={} kind={} apiVersion={}] found: all objects of the chart are moved to the \
        namespace {namespace:?}, and this one belongs to no namespace; set defaultNamespace instead of namespace to allow it",
        object.name, object.kind, object.api_version
    )]
    ClusterScoped {
        /// The object.
        object: Box<ObjectId>,
        /// The namespace that all objects are moved to.
        namespace: String,
    },
    /// A kind that the API server does not have.
    #[error(
        "no matches for kind {:?} in version {:?}, which is the kind of {}: install its CRD first, or add it to the folder \
        crds of the chart",
        object.kind, object.api_version, object.name
    )]
    UnknownKind {
        /// The object.
        object: Box<ObjectId>,
    },
    /// A record of a release. The agent takes what is in it for what Helm has deployed.
    #[error(
        "{object} is a record of a Helm release (type {type}, a name that starts with {prefix}, or the label {label}), which only Helm \
         may write: remove it from the chart",
        type = record::SECRET_TYPE, prefix = record::SECRET_PREFIX, label = record::SECRET_SELECTOR
    )]
    Record {
        /// The object, or its template.
        object: String,
    },
    /// A document without kind or name.
    #[error("an object of {file} has no kind or no name")]
    NoObject {
        /// The template.
        file: String,
    },
    /// A label or annotation that is not a text. Kubernetes' own error names neither the object nor the key.
    #[error("the field metadata.{field}.{key} of {object} is not a text; write its value in quotes")]
    NoText {
        /// The object.
        object: String,
        /// `labels` or `annotations`.
        field: &'static str,
        /// The key.
        key: String,
    },
    /// An object that is too large to be written.
    #[error("{object} is too large: {error}")]
    TooLarge {
        /// The object.
        object: String,
        /// How large.
        error: yaml::TooLong,
    },
}

impl PostRender {
    /// Changes all objects of a text, and keeps their order.
    ///
    /// # Errors
    /// If a document is no object, or if one must not be moved to the namespace.
    pub fn render(&self, text: &str) -> Result<String, PostRenderError> {
        let document = RenderedDocument {
            file: CHART.to_owned(),
            text: text.to_owned(),
        };
        Ok(self.render_documents(&[document])?.concat())
    }

    /// The same for documents that belong together: a text for each.
    ///
    /// # Errors
    /// As of [`PostRender::render`], with the template.
    pub fn render_documents(&self, documents: &[RenderedDocument]) -> Result<Vec<String>, PostRenderError> {
        let all = read(documents)?;
        let mut scopes = self.scopes.clone();
        if self.namespace.is_some() {
            for object in all.iter().flatten() {
                scopes.insert_crd(object);
            }
        }
        let set = SetId::from(self.set.clone());
        let hash = set.hash();
        let changed = |(objects, document): (Vec<Value>, &RenderedDocument)| {
            let mut texts = Vec::new();
            for mut object in objects {
                let file = &document.file;
                check_texts(&object, file)?;
                // Before the check: labels make records.
                self.common.add_to(&mut object);
                check_record(&object, file)?;
                self.mark(&mut object, set.as_str(), &hash);
                self.place(&mut object, &scopes, file)?;
                texts.push(emitted(&object, file)?);
            }
            Ok(texts.join("---\n"))
        };
        all.into_iter().zip(documents).map(changed).collect()
    }

    fn mark(&self, object: &mut Value, set: &str, hash: &str) {
        let is_crd = object.get("kind").and_then(Value::as_str) == Some(CRD);
        set_entry(object, "labels", marks::SET_HASH, hash);
        set_entry(object, "annotations", marks::SET_ID, set);
        if is_crd && !self.deletes_crds {
            set_entry(object, "annotations", marks::RESOURCE_POLICY, marks::KEEP);
        }
    }

    fn place(&self, object: &mut Value, scopes: &Scopes, file: &str) -> Result<(), PostRenderError> {
        let Some(namespace) = &self.namespace else {
            return Ok(());
        };
        let id = ObjectId::of(object).ok_or_else(|| PostRenderError::NoObject {
            file: file.to_owned(),
        })?;
        match scopes.get(id.group(), &id.kind) {
            Some(Scope::Namespaced) => {
                entries(object, "metadata").insert("namespace".to_owned(), namespace.as_str().into());
                Ok(())
            }
            Some(Scope::Cluster) => Err(PostRenderError::ClusterScoped {
                object: Box::new(id),
                namespace: namespace.clone(),
            }),
            None => Err(PostRenderError::UnknownKind { object: Box::new(id) }),
        }
    }
}

/// The objects of each document.
fn read(documents: &[RenderedDocument]) -> Result<Vec<Vec<Value>>, PostRenderError> {
    let mut reader = manifest::Reader::default();
    let read = |document: &RenderedDocument| {
        reader
            .objects(&document.text)
            .map_err(|error| PostRenderError::Manifest {
                file: document.file.clone(),
                error,
            })
    };
    documents.iter().map(read).collect()
}

fn emitted(object: &Value, file: &str) -> Result<String, PostRenderError> {
    yaml::emit_exact(object).map_err(|error| PostRenderError::TooLarge {
        object: shown(object, file),
        error,
    })
}

/// Labels and annotations are texts.
fn check_texts(object: &Value, file: &str) -> Result<(), PostRenderError> {
    for field in ["labels", "annotations"] {
        let entries = object
            .pointer("/metadata")
            .and_then(|metadata| metadata.get(field));
        let entries = entries.and_then(Value::as_object).into_iter().flatten();
        let is_text = |value: &Value| value.is_string() || value.is_null();
        if let Some((key, _)) = entries.into_iter().find(|(_, value)| !is_text(value)) {
            return Err(PostRenderError::NoText {
                object: shown(object, file),
                field,
                key: bounded_text::cut(key.clone(), MAX_KEY),
            });
        }
    }
    Ok(())
}

/// No chart makes a record of a release. Helm finds records by their labels, whatever the type of the Secret is.
fn check_record(object: &Value, file: &str) -> Result<(), PostRenderError> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    // Not by `ObjectId`: the name of a hook can be generated.
    let group = text("/apiVersion").and_then(|version| Some(version.split_once('/')?.0));
    let is_secret = text("/kind") == Some("Secret") && group.is_none_or(str::is_empty);
    let is_typed = text("/type") == Some(record::SECRET_TYPE);
    let is_named = ["/metadata/name", "/metadata/generateName"]
        .into_iter()
        .filter_map(text)
        .any(|name| name.starts_with(record::SECRET_PREFIX));
    let label = record::SECRET_SELECTOR.split_once('=');
    let is_labelled = label.is_some_and(|(key, value)| {
        let labels = object.pointer("/metadata/labels");
        labels.and_then(|labels| labels.get(key)?.as_str()) == Some(value)
    });
    if is_secret && (is_typed || is_named || is_labelled) {
        let object = shown(object, file);
        return Err(PostRenderError::Record { object });
    }
    Ok(())
}

/// An object for a message, or its template.
fn shown(object: &Value, file: &str) -> String {
    ObjectId::of(object).map_or_else(|| file.to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An annotation of the chart.
    const FILE: &str = "example.com/file";

    fn step(namespace: Option<&str>) -> PostRender {
        let mut scopes = Scopes::default();
        scopes.insert("", "ConfigMap", Scope::Namespaced);
        scopes.insert("rbac.authorization.k8s.io", "ClusterRole", Scope::Cluster);
        PostRender {
            set: SetId::new("web", "").as_str().to_owned(),
            namespace: namespace.map(str::to_owned),
            common: CommonMetadata::default(),
            deletes_crds: false,
            scopes,
        }
    }

    #[test]
    fn common_labels_make_no_record() {
        let lifecycle: Lifecycle =
            serde_json::from_value(json!({ "commonMetadata": { "labels": { "owner": "helm" } } })).unwrap();
        let step = PostRender {
            common: CommonMetadata::of(&lifecycle),
            ..step(None)
        };
        let error = step.render(&document("Secret", "a", "")).unwrap_err();
        assert!(matches!(error, PostRenderError::Record { .. }), "{error}");
        assert!(step.render(&document("ConfigMap", "a", "")).is_ok());
    }

    /// As in Flux: they override those of the chart, and hooks have none with the strategy `nohooks`. Marks stay as they are.
    #[test]
    fn common_metadata_is_that_of_all_objects() {
        let lifecycle: Lifecycle = serde_json::from_value(json!({
            "commonMetadata": { "labels": { "app": "shop", "team": "a" }, "annotations": { "objectset.rio.cattle.io/id": "other" } },
            "postRenderStrategy": "nohooks",
        }))
        .unwrap();
        let step = PostRender {
            common: CommonMetadata::of(&lifecycle),
            ..step(None)
        };
        let hook = document("ConfigMap", "b", "    helm.sh/hook: test\n");
        let text = [document("ConfigMap", "a", "  labels: {app: web}\n"), hook].join("---\n");
        let expected = [
            config_map("a", &json!({ "labels": { "app": "shop", "team": "a" } })),
            config_map("b", &json!({ "annotations": { "helm.sh/hook": "test" } })),
        ];
        assert_eq!(rendered(&step, &text), expected);
    }

    fn config_map(name: &str, metadata: &Value) -> Value {
        let mut all = json!({ "name": name, "annotations": {
            "objectset.rio.cattle.io/id": "default-web", FILE: "web/templates/a.yaml",
        }, "labels": { "objectset.rio.cattle.io/hash": SetId::new("web", "").hash() } });
        json_merge(&mut all, metadata);
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": all })
    }

    fn json_merge(into: &mut Value, from: &Value) {
        for (key, value) in from.as_object().unwrap() {
            match into.get_mut(key) {
                Some(existing) if value.is_object() => json_merge(existing, value),
                _ => into[key] = value.clone(),
            }
        }
    }

    fn document(kind: &str, name: &str, more: &str) -> String {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    {FILE}: web/templates/a.yaml\n{more}"
        )
    }

    fn rendered(step: &PostRender, text: &str) -> Vec<Value> {
        manifest::objects(&step.render(text).unwrap()).unwrap()
    }

    #[test]
    fn objects_are_marked_and_keep_their_order_and_template() {
        let text = [
            document("ConfigMap", "b", ""),
            document(
                "ConfigMap",
                "a",
                "  labels: {app: web, objectset.rio.cattle.io/hash: other}\n",
            ),
        ]
        .join("---\n");
        let expected = [
            config_map("b", &json!({})),
            config_map("a", &json!({ "labels": { "app": "web" } })),
        ];
        assert_eq!(rendered(&step(None), &text), expected);
    }

    #[test]
    fn values_keep_their_types() {
        let text = document(
            "ConfigMap",
            "a",
            "data:\n  a: \"yes\"\n  b: '010'\n  c: 1e3\n  d: 9007199254740993\n  e: |\n    x\n    y\n  f: ~\n",
        );
        let object = rendered(&step(None), &text).pop().unwrap();
        let expected = json!({ "a": "yes", "b": "010", "c": 1000, "d": 9_007_199_254_740_993_i64, "e": "x\ny\n", "f": null });
        assert_eq!(object["data"], expected);
    }

    #[test]
    fn texts_keep_their_separators_and_empty_lines() {
        let script = "#!/bin/sh\n---\n\n\n--- # no document\n  cat <<EOF\n\n---\nkind: Pod\nEOF\n\n";
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let block = |key: &str, text: &str| {
            let lines: Vec<_> = text.lines().map(|line| format!("    {line}\n")).collect();
            format!("  {key}: |+\n{}", lines.concat())
        };
        let data = format!(
            "data:\n{}{}",
            block("script", script),
            block("certificate", certificate)
        );
        let text = [document("ConfigMap", "a", &data), document("ConfigMap", "b", "")].join("---\n");
        let objects = rendered(&step(None), &text);
        assert_eq!(objects.len(), 2);
        assert_eq!(
            objects[0]["data"],
            json!({ "script": script, "certificate": certificate })
        );
    }

    #[test]
    fn merge_keys_and_aliases_as_helm_writes_them_are_expanded() {
        // Helm writes the tag for a post-renderer, and aliases as keys without a space.
        let labels = "  labels:\n    !!merge <<: &more\n      app: web\n      team: shop\n    tier: front\n";
        let data = "data:\n  !!merge <<: *more\n  team: other\n  key: &key alias\n  *key: \"value\"\n";
        let object = rendered(&step(None), &document("ConfigMap", "a", &[labels, data].concat()))
            .pop()
            .unwrap();
        let expected = config_map(
            "a",
            &json!({ "labels": { "app": "web", "team": "shop", "tier": "front" } }),
        );
        assert_eq!(object["metadata"], expected["metadata"]);
        assert_eq!(
            object["data"],
            json!({ "app": "web", "team": "other", "key": "alias", "alias": "value" })
        );
        let list = "spec:\n  containers:\n  - &first\n    name: one\n    env: [{name: A, value: \"1\"}]\n  - !!merge <<: *first\n    name: two\n";
        let object = rendered(&step(None), &document("Deployment", "a", list))
            .pop()
            .unwrap();
        let env = json!([{ "name": "A", "value": "1" }]);
        assert_eq!(
            object["spec"]["containers"],
            json!([{ "name": "one", "env": env }, { "name": "two", "env": env }])
        );
    }

    /// Otherwise what Helm applies is not what was checked.
    #[test]
    fn a_quoted_merge_key_stays_a_text_for_helm() {
        let text = document(
            "Secret",
            "a",
            "\"<<\": {type: helm.sh/release.v1}\nstringData: {a: \"=\", b: \"<<\"}\n",
        );
        let rendered = step(None).render(&text).unwrap();
        assert!(
            rendered.contains("\"<<\":\n  type: helm.sh/release.v1\n"),
            "{rendered}"
        );
        assert!(rendered.contains("\n  a: \"=\"\n  b: \"<<\"\n"), "{rendered}");
        let plain = text.replace("\"<<\": {", "<<: {");
        assert!(matches!(
            step(None).render(&plain),
            Err(PostRenderError::Record { .. })
        ));
    }

    #[test]
    fn separators_of_lines_and_paragraphs_end_lines() {
        // Helm reads what it renders in the same way: the indentation after such a character is none of the text.
        let data = "data:\n  quoted: \"first\\Lsecond\"\n  literal: |\n    first\u{2028}      second\n";
        let step = step(None);
        let text = step.render(&document("ConfigMap", "a", data)).unwrap();
        let expected = json!({ "quoted": "first\u{2028}second", "literal": "first\u{2028}  second\n" });
        for read in [
            manifest::objects(&text),
            manifest::objects(&step.render(&text).unwrap()),
        ] {
            assert_eq!(read.unwrap()[0]["data"], expected);
        }
        assert!(text.contains("\"first\\Lsecond\""), "{text}");
    }

    #[test]
    fn the_same_object_may_be_there_twice() {
        // As a hook of two events, for example.
        let text = [document("ConfigMap", "a", ""), document("ConfigMap", "a", "")].join("---\n");
        assert_eq!(rendered(&step(None), &text).len(), 2);
    }

    #[test]
    fn items_of_a_list_are_objects() {
        let list = document(
            "ConfigMapList",
            "x",
            "items:\n- metadata: {name: a}\n- metadata: {name: b, annotations: null}\n",
        );
        let mut expected = [config_map("a", &json!({})), config_map("b", &json!({}))];
        for item in &mut expected {
            item["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove(FILE);
        }
        assert_eq!(rendered(&step(None), &list), expected);
    }

    #[test]
    fn crds_stay_unless_the_options_delete_them() {
        let text = document(CRD, "widgets.example.com", "");
        let policy = |step: &PostRender| {
            let object = rendered(step, &text).pop().unwrap();
            object["metadata"]["annotations"][marks::RESOURCE_POLICY].clone()
        };
        assert_eq!(policy(&step(None)), json!("keep"));
        let deletes_crds = PostRender {
            deletes_crds: true,
            ..step(None)
        };
        assert_eq!(policy(&deletes_crds), Value::Null);
    }

    #[test]
    fn a_namespace_is_forced_on_all_objects() {
        let text = document("ConfigMap", "a", "  namespace: other\n");
        let object = rendered(&step(Some("shop")), &text).pop().unwrap();
        assert_eq!(object, config_map("a", &json!({ "namespace": "shop" })));
        let kept = rendered(&step(None), &text).pop().unwrap();
        assert_eq!(kept["metadata"]["namespace"], "other");
    }

    #[test]
    fn a_cluster_scoped_object_is_refused_in_a_namespace() {
        let text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: admin}\n";
        let error = step(Some("shop")).render(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid cluster scoped object [name=admin kind=ClusterRole apiVersion=rbac.authorization.k8s.io/v1] found: all \
             objects of the chart are moved to the namespace \"shop\", and this one belongs to no namespace; set \
             defaultNamespace instead of namespace to allow it"
        );
        assert!(step(None).render(text).is_ok());
    }

    #[test]
    fn kinds_that_the_chart_defines_are_known() {
        let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
        let error = step(Some("shop")).render(widget).unwrap_err().to_string();
        assert!(
            error.starts_with("no matches for kind \"Widget\" in version \"example.com/v1\""),
            "{error}"
        );
        let crd = json!({ "kind": CRD, "metadata": { "name": "widgets.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "kind": "Widget" } } });
        let mut with_crds = step(Some("shop"));
        with_crds.scopes.insert_crd(&crd);
        let object = rendered(&with_crds, widget).pop().unwrap();
        assert_eq!(object["metadata"]["namespace"], "shop");
    }

    #[test]
    fn a_chart_without_objects_has_a_result() {
        for text in ["", "# nothing\n", "---\n---\n"] {
            assert_eq!(step(Some("shop")).render(text).unwrap(), "");
        }
    }

    #[test]
    fn each_document_has_a_text_and_errors_name_its_template() {
        let documents = |texts: &[&str]| -> Vec<RenderedDocument> {
            let documents = texts.iter().enumerate().map(|(number, text)| RenderedDocument {
                file: format!("web/templates/{number}.yaml"),
                text: (*text).to_owned(),
            });
            documents.collect()
        };
        let list = "kind: List\nitems:\n- {kind: A, metadata: {name: a}}\n- {kind: B, metadata: {name: b}}\n";
        let texts = step(None)
            .render_documents(&documents(&["# empty\n", list, "kind: C\n"]))
            .unwrap();
        let kinds = texts.iter().map(|text| text.matches("kind: ").count());
        assert_eq!(kinds.collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(texts[1].matches("---\n").count(), 1);
        let error = step(None)
            .render_documents(&documents(&["kind: A\n", "- a\n"]))
            .unwrap_err();
        assert!(
            error.to_string().starts_with("web/templates/1.yaml: document 1 "),
            "{error}"
        );
    }

    #[test]
    fn a_number_as_an_annotation_is_refused() {
        let text = document("ConfigMap", "a", "    weight: 5\n");
        let error = step(None).render(&text).unwrap_err().to_string();
        assert_eq!(
            error,
            "the field metadata.annotations.weight of configmap.v1 a is not a text; write its value in quotes"
        );
        assert!(step(None).render(&text.replace('5', "\"5\"")).is_ok());
        assert!(step(None).render(&text.replace('5', "")).is_ok());
    }

    #[test]
    fn a_record_of_a_release_is_refused_also_in_a_list() {
        let typed = document("Secret", "a", "type: helm.sh/release.v1\n");
        let named = document("Secret", "sh.helm.release.v1.web.v2", "");
        // Helm reads only the labels.
        let labelled = document(
            "Secret",
            "a",
            "  labels: {owner: helm, name: victim, version: \"99\", status: deployed}\ntype: Opaque\n",
        );
        let listed = |item: &str| document("SecretList", "x", &format!("items:\n- {item}\n"));
        let hook = |metadata: &str, more: &str| {
            let hook = "annotations: {helm.sh/hook: pre-install}";
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{{metadata}, {hook}}}\n{more}")
        };
        for text in [
            typed,
            named,
            labelled,
            listed("{metadata: {name: a}, type: helm.sh/release.v1}"),
            listed("{metadata: {name: a, labels: {owner: helm}}}"),
            hook("generateName: sh.helm.release.v1.web.v", ""),
            hook("generateName: a", "type: helm.sh/release.v1\n"),
            hook("generateName: a, labels: {owner: helm}", ""),
            "apiVersion: /v1\nkind: Secret\nmetadata: {name: a, labels: {owner: helm}}\n".to_owned(),
        ] {
            let error = step(None).render(&text).unwrap_err();
            assert!(matches!(error, PostRenderError::Record { .. }), "{error}\n{text}");
        }
        let others = [
            document("Secret", "a", "type: Opaque\n"),
            document("Secret", "b", "  labels: {owner: helmsman, name: web}\n"),
            document(
                "ConfigMap",
                "sh.helm.release.v1.web.v2",
                "  labels: {owner: helm}\n",
            ),
            hook("generateName: a", ""),
        ];
        assert!(step(None).render(&others.join("---\n")).is_ok());
    }

    #[test]
    fn a_refused_record_is_named_with_what_makes_it_one() {
        let message = |text: &str| step(None).render(text).unwrap_err().to_string();
        let why = "is a record of a Helm release (type helm.sh/release.v1, a name that starts with sh.helm.release.v1., or the label \
            owner=helm), which only Helm may write: remove it from the chart";
        let labelled = document("Secret", "a", "  labels: {owner: helm}\n");
        assert_eq!(message(&labelled), format!("secret.v1 a {why}"));
        let generated = labelled.replace("  name: a", "  generateName: a");
        assert_eq!(message(&generated), format!("the chart {why}"));
    }

    #[test]
    fn a_document_that_is_no_object_is_refused() {
        let error = step(None).render("- a\n").unwrap_err();
        assert!(matches!(
            error,
            PostRenderError::Manifest {
                error: ManifestError::NoObject { .. },
                ..
            }
        ));
        let error = step(Some("shop")).render("kind: ConfigMap\n").unwrap_err();
        assert_eq!(error.to_string(), "an object of the chart has no kind or no name");
    }
}
