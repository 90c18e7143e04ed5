//! Manifests in ConfigMaps: their version, and their archive.

use std::{collections::BTreeMap, sync::Arc};

use helm_index::Meter;
use helmops_chart::{
    ChartPath, ListedChartError, ListedFilesError, PackRequest, PackedListedChart, Strategy,
};
use helmops_fair::ByteBudget;
use helmops_kube::path_segment;
use helmops_model::{
    chart::{config_maps::ConfigMapFiles, resolved::ChartVersion},
    reason::Reason,
};
use helmops_runtime::{
    client::{ApiError, bounded},
    compute::Compute,
    error_class::{Class, Classified, ClassifiedError, Scope, classified},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use thiserror::Error;

use crate::{bounds::ReadMemory, chart_errors, files, poll::DeployedChart};

/// What separates the versions of the objects from their names in a URL.
const VERSIONS: char = '#';
/// Bytes that are in use while a ConfigMap is read: the API server stores at most 1 MiB, and base64 takes a third more.
const OF_OBJECT: usize = 3 << 20;
/// Bytes that are in use while manifests are packed, besides their files and their archive.
const WORKING: usize = 2 << 20;

/// Why the manifests in ConfigMaps cannot be deployed.
#[derive(Debug, Error)]
pub enum ConfigMapError {
    /// A ConfigMap does not exist.
    #[error(
        "ConfigMap {name} does not exist in namespace {namespace}; create it there, or correct spec.chartSource.configMaps"
    )]
    NotFound {
        /// Namespace of the HelmOp.
        namespace: String,
        /// Name of the ConfigMap.
        name: String,
    },
    /// A ConfigMap cannot be read.
    #[error("cannot read ConfigMap {name}: {source}")]
    Api {
        /// Name of the ConfigMap.
        name: String,
        /// The cause.
        source: ApiError,
    },
    /// Two of them have the same key.
    #[error(
        "key {key:?} is in ConfigMap {first} and in ConfigMap {second}; each key is the name of a file, so rename one of them"
    )]
    Duplicate {
        /// The key.
        key: String,
        /// The name of the first ConfigMap.
        first: String,
        /// That of the other one.
        second: String,
    },
    /// They have no manifests, or some that are refused.
    #[error("ConfigMaps {names}: {}", in_terms_of_keys(&.source.to_string()))]
    Manifests {
        /// Their names.
        names: String,
        /// The cause.
        source: ListedChartError,
    },
    /// They have changed since their version was resolved.
    #[error("ConfigMaps {names} have changed since their version was recorded; retrying")]
    Changed {
        /// Their names.
        names: String,
    },
    /// There is no memory for them.
    #[error("the memory for reading charts is in use by other charts; retrying")]
    Memory,
}

impl ClassifiedError for ConfigMapError {
    fn classify(&self) -> Classified {
        match self {
            Self::NotFound { .. } => classified(Reason::ChartNotFound, Class::Absent),
            Self::Api { .. } | Self::Changed { .. } => classified(Reason::RepositoryError, Class::TRANSIENT),
            Self::Duplicate { .. } => classified(Reason::InvalidChart, Class::Absent),
            Self::Manifests { source, .. } => chart_errors::of_listed(source),
            Self::Memory => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
        }
    }
}

/// Errors that other sources have, too, in the words of ConfigMaps.
fn in_terms_of_keys(message: &str) -> String {
    [
        ("the top of the repository", "they"),
        (
            "has no file that ends with .yaml, .yml or .json and is not hidden; name the folder with the manifests in path",
            "have no key that ends with .yaml, .yml or .json and does not begin with a dot; name the files so",
        ),
        (
            "has a Chart.yaml, so it is a chart; remove spec.chartSource.manifests to deploy it, or name another folder in path",
            "have a key Chart.yaml, and a chart has folders, which keys cannot have; publish the chart, and name it in helm.repo",
        ),
        ("move it out of the folder, or name it in the .helmignore of a chart", "make it smaller"),
        ("commit the file itself", "write the file itself"),
    ]
    .iter()
    .fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// ConfigMaps of one namespace.
#[derive(Clone, Copy)]
pub struct ConfigMapSource<'a> {
    /// Reads them.
    pub client: &'a Client,
    /// The namespace of the HelmOp.
    pub namespace: &'a Arc<str>,
    /// Which ConfigMaps.
    pub files: &'a ConfigMapFiles,
    /// The memory for them.
    pub budget: &'a ByteBudget,
    /// The permits for packing them.
    pub compute: &'a Compute,
}

/// The files of ConfigMaps, with the memory that they are charged for.
struct Read {
    /// The versions of the objects.
    versions: String,
    files: Vec<(String, Vec<u8>)>,
    bytes: usize,
    memory: ReadMemory,
}

impl ConfigMapSource<'_> {
    /// Whether one of the objects has another version than when this one was recorded, or is gone.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub async fn has_changed(&self, version: &ChartVersion) -> Result<bool, ConfigMapError> {
        let mut versions = Vec::new();
        for name in &self.files.names {
            let api = Api::<ConfigMap>::namespaced(self.client.clone(), self.namespace);
            match bounded(api.get_metadata(&path_segment(name))).await {
                Ok(found) => versions.push(found.resource_version().unwrap_or_default()),
                Err(error) if error.is_not_found() => return Ok(true),
                Err(source) => return Err(unreadable(name, source)),
            }
        }
        Ok(version.url != self.url(&versions.join(",")))
    }

    /// The version that is requested now.
    ///
    /// # Errors
    /// If the ConfigMaps cannot be read, or have no manifests.
    pub async fn version(&self, deployed: DeployedChart<'_>) -> Result<ChartVersion, ConfigMapError> {
        let read = self.read().await?;
        let url = self.url(&read.versions);
        let packed = self.pack(read, crate::MAX_ARCHIVE).await?;
        let digest = packed.content.to_string();
        let recorded = deployed.version.filter(|recorded| recorded.digest == digest);
        let version = recorded.map_or(packed.version, |recorded| recorded.version.clone());
        Ok(ChartVersion { version, digest, url })
    }

    /// The archive of a version that was resolved.
    ///
    /// # Errors
    /// If the ConfigMaps cannot be read, or have other manifests by now.
    pub async fn archive(
        &self,
        version: &ChartVersion,
        limit: u64,
    ) -> Result<PackedListedChart, ConfigMapError> {
        let packed = self.pack(self.read().await?, limit).await?;
        if packed.content.to_string() == version.digest {
            return Ok(packed);
        }
        Err(ConfigMapError::Changed { names: self.names() })
    }

    async fn read(&self) -> Result<Read, ConfigMapError> {
        let names = &self.files.names;
        let mut memory = ReadMemory::new(self.budget, self.namespace);
        let most = OF_OBJECT.saturating_mul(names.len());
        memory.reserve(most).map_err(|_| ConfigMapError::Memory)?;
        let (mut versions, mut files) = (Vec::new(), Vec::new());
        let mut owners = BTreeMap::<String, &str>::new();
        for name in names {
            let object = self.object(name).await?;
            versions.push(object.resource_version().unwrap_or_default());
            for (key, content) in contents(object) {
                if let Some(first) = owners.insert(key.clone(), name) {
                    return Err(ConfigMapError::Duplicate {
                        key,
                        first: first.to_owned(),
                        second: name.clone(),
                    });
                }
                files.push((key, content));
            }
        }
        let bytes = files.iter().map(|(key, content)| key.len() + content.len()).sum();
        Ok(Read {
            versions: versions.join(","),
            files,
            bytes,
            memory,
        })
    }

    async fn object(&self, name: &str) -> Result<ConfigMap, ConfigMapError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), self.namespace);
        bounded(api.get(&path_segment(name))).await.map_err(|source| {
            if source.is_not_found() {
                return ConfigMapError::NotFound {
                    namespace: self.namespace.to_string(),
                    name: name.to_owned(),
                };
            }
            unreadable(name, source)
        })
    }

    async fn pack(&self, read: Read, limit: u64) -> Result<PackedListedChart, ConfigMapError> {
        let request = PackRequest {
            path: ChartPath::default(),
            strategy: Strategy::Manifests,
            known: None,
            limit: limit.try_into().unwrap_or(usize::MAX),
        };
        let Read {
            files: all,
            bytes,
            mut memory,
            ..
        } = read;
        let work = move || {
            files::pack(all, request, |archive| {
                let reserved = memory.reserve(bytes + WORKING + archive);
                reserved.map_err(|_| ListedFilesError::Memory)
            })
        };
        let packed = self.compute.on_thread(self.namespace, work).await;
        packed.map_err(|source| ConfigMapError::Manifests {
            names: self.names(),
            source,
        })
    }

    fn url(&self, versions: &str) -> String {
        format!("{}{VERSIONS}{versions}", self.files.identity())
    }

    fn names(&self) -> String {
        self.files.names.join(", ")
    }
}

/// The files of a ConfigMap.
fn contents(object: ConfigMap) -> impl Iterator<Item = (String, Vec<u8>)> {
    let texts = object.data.unwrap_or_default().into_iter();
    let texts = texts.map(|(key, text)| (key, text.into_bytes()));
    let bytes = object.binary_data.unwrap_or_default().into_iter();
    texts.chain(bytes.map(|(key, bytes)| (key, bytes.0)))
}

fn unreadable(name: &str, source: ApiError) -> ConfigMapError {
    ConfigMapError::Api {
        name: name.to_owned(),
        source,
    }
}
