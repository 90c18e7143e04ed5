//! The values that a chart gets on a cluster, merged as the agent merges them.

use std::{collections::BTreeSet, error::Error, path::Path};

use go_formats::{
    json,
    yaml::{self, Quota},
};
use helmops_api::BundleDeploymentOptions;
use helmops_core::targeting::copies::CopyKind;
use helmops_helm::{
    values_files::ChartValuesFiles,
    values_from::{layers, read, sources},
};
use helmops_release::values::{self, LayerContent, ValuesLayer};
use serde_json::{Map, Value};

use super::Account;
use crate::failure::Failure;

/// What is shown in place of a value of a Secret.
const MASKED: &str = "*****";

/// How a release is deployed on a cluster, as far as that is about its values.
#[derive(Clone, Copy, Debug)]
pub struct ValuesOf<'r> {
    /// The name of the cluster, for messages.
    pub cluster: &'r str,
    pub options: &'r BundleDeploymentOptions,
    /// The values of the options for this cluster, as JSON; empty for none.
    pub own: &'r str,
    /// The namespace of the release.
    pub namespace: &'r str,
}

/// All values, in the order in which they override each other.
#[derive(Debug)]
pub struct ReleaseValues {
    cluster: String,
    layers: Vec<ValuesLayer>,
    /// The fields that name Secrets.
    secret: BTreeSet<String>,
}

impl ReleaseValues {
    /// Reads them: the account reads what `valuesFrom` names, and the archive has the values files. Without them, those are left out.
    ///
    /// # Errors
    /// If some of them are missing or cannot be read.
    pub async fn read(
        of: ValuesOf<'_>,
        account: Option<&Account>,
        archive: Option<&Path>,
    ) -> Result<Self, Failure> {
        let ValuesOf {
            cluster,
            options,
            own,
            namespace,
        } = of;
        let lifecycle = options.lifecycle.as_deref();
        let mut all = Vec::new();
        if let Some(archive) = archive {
            let files = ChartValuesFiles::of(options, lifecycle);
            all = files.read(archive).map_err(|error| unknown(cluster, &error))?;
        }
        let sources = sources(options, lifecycle, namespace);
        let mut referenced = Vec::new();
        if let Some(account) = account {
            let read = read(&account.client, &sources).await;
            referenced = read.map_err(|error| unknown(cluster, &error))?;
        }
        let own = (!own.is_empty()).then(|| own.as_bytes().to_vec());
        all.extend(layers(own, referenced));
        Ok(Self {
            cluster: cluster.to_owned(),
            layers: all,
            secret: sources
                .into_iter()
                .filter(|source| source.kind == CopyKind::Secret)
                .map(|source| source.field)
                .collect(),
        })
    }

    /// The merged values.
    ///
    /// # Errors
    /// If some are no values. The message has no value.
    pub fn merged(&self) -> Result<Map<String, Value>, Failure> {
        values::merged(&self.layers).map_err(|error| unknown(&self.cluster, &error))
    }

    /// The same without the values of Secrets: only their names are shown.
    ///
    /// # Errors
    /// As [`Self::merged`].
    pub fn masked(mut self) -> Result<Map<String, Value>, Failure> {
        // Some errors are not there any more without the values.
        self.merged()?;
        let of_secrets = self.layers.iter_mut();
        for layer in of_secrets.filter(|layer| self.secret.contains(&layer.source)) {
            mask(&mut layer.content);
        }
        self.merged()
    }
}

fn mask(content: &mut LayerContent) {
    match content {
        LayerContent::Document(document) => {
            let read = str::from_utf8(document).map(|text| yaml::read(text, &mut Quota::default()));
            if let Ok(Ok(mut values @ Value::Object(_))) = read {
                mask_leaves(&mut values);
                *document = json::encode(&values).into_bytes();
            }
        }
        LayerContent::Value { text, is_literal, .. } => {
            *text = MASKED.as_bytes().to_vec();
            *is_literal = true;
        }
    }
}

fn mask_leaves(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(mask_leaves),
        Value::Array(items) => items.iter_mut().for_each(mask_leaves),
        leaf => *leaf = MASKED.into(),
    }
}

fn unknown(cluster: &str, error: &dyn Error) -> Failure {
    Failure::because(format!("the values of cluster {cluster} are not known"), error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(source: &str, content: LayerContent) -> ValuesLayer {
        ValuesLayer {
            source: source.to_owned(),
            content,
        }
    }

    fn document(text: &str) -> LayerContent {
        LayerContent::Document(text.as_bytes().to_vec())
    }

    fn values(layers: Vec<ValuesLayer>) -> ReleaseValues {
        ReleaseValues {
            cluster: "edge".to_owned(),
            layers,
            secret: ["document", "value", "empty"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn nothing_of_a_secret_is_shown_but_names() {
        let secret =
            "db: {password: geheim, ports: [1, {a: 2.5}], is: yes, none: null, empty: {}}\nname: secret\n";
        let all = vec![
            layer("config", document("db: {host: h, user: u}\nlist: [1]\n")),
            layer("document", document(secret)),
            layer("empty", document("")),
            layer("helm.values", document("name: web\n")),
            layer(
                "value",
                LayerContent::Value {
                    path: "db.user".to_owned(),
                    text: b"{geheim,x}".to_vec(),
                    is_literal: false,
                },
            ),
        ];
        let masked = values(all).masked().map(Value::Object).unwrap();
        let expected = json!({
            "db": {
                "host": "h", "user": "*****", "password": "*****", "ports": ["*****", { "a": "*****" }], "is": "*****",
                "none": "*****", "empty": {},
            },
            "list": [1.0],
            "name": "web",
        });
        assert_eq!(masked, expected);
    }

    #[test]
    fn values_of_a_secret_that_are_invalid_are_an_error_that_has_none_of_them() {
        let value = LayerContent::Value {
            path: "a".to_owned(),
            text: b"{geheim".to_vec(),
            is_literal: false,
        };
        for content in [document("- geheim"), document("a: [geheim"), value] {
            let error = values(vec![layer("value", content)]).masked().unwrap_err();
            let expected = "the values of cluster edge are not known: value";
            assert!(error.message.starts_with(expected), "{}", error.message);
            assert!(!error.message.contains("geheim"), "{}", error.message);
        }
    }
}
