//! The values of `helm.valuesFiles`: files of the chart over its values.yaml.

use std::{collections::BTreeSet, fs::File, io::BufReader, path::Path};

use helm_archive::{ArchiveError, Limits, ValuesFiles, values_files};
use helmops_api::{BundleDeploymentOptions, Lifecycle};
use helmops_release::values::{LayerContent, ValuesLayer};
use thiserror::Error;

/// Why files of a chart have no values.
#[derive(Debug, Error)]
pub enum ValuesFilesError {
    /// The archive cannot be read.
    #[error("helm.valuesFiles: the chart cannot be read: {0}")]
    Archive(#[from] ArchiveError),
    /// The chart does not have the file.
    #[error(
        "{field}: the chart has no file {path:?}{}; correct the path, or set lifecycle.ignoreMissingValuesFiles",
        instead(others)
    )]
    Missing {
        /// The entry.
        field: String,
        /// The file.
        path: String,
        /// YAML files that it has.
        others: Vec<String>,
    },
}

fn instead(others: &[String]) -> String {
    if others.is_empty() {
        return ", and no other YAML file".to_owned();
    }
    format!(", but {}", others.join(", "))
}

/// Which files of the chart have values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartValuesFiles {
    paths: Vec<String>,
    ignores_missing: bool,
}

impl ChartValuesFiles {
    /// Those that options name.
    pub fn of(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        Self {
            paths: options
                .helm
                .as_ref()
                .map_or_else(Vec::new, |helm| helm.values_files.clone()),
            ignores_missing: lifecycle.is_some_and(|lifecycle| lifecycle.ignore_missing_values_files),
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Their values, in their order. This reads the whole archive.
    ///
    /// # Errors
    /// If the chart does not have a file.
    pub fn read(&self, archive: &Path) -> Result<Vec<ValuesLayer>, ValuesFilesError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let paths: BTreeSet<String> = self.paths.iter().map(|path| clean(path)).collect();
        let file = File::open(archive).map_err(ArchiveError::Input)?;
        let files = values_files(BufReader::new(file), Limits::default(), &paths)?;
        self.layers(&files)
    }

    fn layers(&self, files: &ValuesFiles) -> Result<Vec<ValuesLayer>, ValuesFilesError> {
        let mut layers = Vec::new();
        for (index, path) in self.paths.iter().enumerate() {
            let field = format!("helm.valuesFiles[{index}]");
            match files.found.get(&clean(path)) {
                Some(content) => layers.push(ValuesLayer {
                    source: format!("{field} ({path})"),
                    content: LayerContent::Document(content.clone()),
                }),
                None if self.ignores_missing => {}
                None => {
                    return Err(ValuesFilesError::Missing {
                        field,
                        path: path.clone(),
                        others: files.others.clone(),
                    });
                }
            }
        }
        Ok(layers)
    }
}

/// The path as in the archive.
fn clean(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_layers_in_their_order() {
        let files = ValuesFiles {
            found: [
                ("prod.yaml".to_owned(), b"a: 1".to_vec()),
                ("eu/a.yaml".to_owned(), b"b: 2".to_vec()),
            ]
            .into(),
            others: vec!["values.yaml".to_owned()],
        };
        let of = |paths: &[&str], ignores_missing| ChartValuesFiles {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            ignores_missing,
        };
        let sources = |files: Result<Vec<ValuesLayer>, ValuesFilesError>| {
            files.map(|layers| layers.into_iter().map(|layer| layer.source).collect::<Vec<_>>())
        };
        let found = sources(of(&["./eu//a.yaml", "prod.yaml"], false).layers(&files)).unwrap();
        assert_eq!(
            found,
            [
                "helm.valuesFiles[0] (./eu//a.yaml)",
                "helm.valuesFiles[1] (prod.yaml)"
            ]
        );
        let found = sources(of(&["none.yaml", "prod.yaml"], true).layers(&files)).unwrap();
        assert_eq!(found, ["helm.valuesFiles[1] (prod.yaml)"]);
        let error = of(&["prod.yaml", "none.yaml"], false)
            .layers(&files)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "helm.valuesFiles[1]: the chart has no file \"none.yaml\", but values.yaml; correct the path, or set \
             lifecycle.ignoreMissingValuesFiles"
        );
    }
}
