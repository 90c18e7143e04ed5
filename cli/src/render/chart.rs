//! The archive of a chart, fetched as the agent fetches it.

use std::io::{BufWriter, Write};

use helmops_api::{HelmOptions, helm::KeySelector};
use helmops_core::chart::source::ChartSource;
use helmops_fetch::{
    AccessSource, Addresses, ChartDownload, FetchMetrics, MAX_ARCHIVE, MemoryBounds, ResolutionMetrics,
    Resolver,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tempfile::NamedTempFile;

use crate::failure::{Failure, causes};

/// What one command may use of the memory. An index of 50 MB is read in a part of it.
const MEMORY: usize = 512 << 20;

/// The resolver of one command, with its metrics. A person may reach every address.
///
/// # Errors
/// If the operating system refuses a resource.
pub fn resolver() -> Result<(Resolver, ResolutionMetrics), Failure> {
    let registry = prometheus::Registry::new();
    let unable = |error: &dyn std::error::Error| Failure::because("cannot read repositories", error);
    let fetches = FetchMetrics::register(&registry).map_err(|error| unable(&error))?;
    let metrics = ResolutionMetrics::register(&registry).map_err(|error| unable(&error))?;
    let allow = ["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok());
    let addresses = Addresses {
        allow: allow.collect(),
        deny: Vec::new(),
    };
    let bounds = MemoryBounds::of(MEMORY, None);
    let resolver = Resolver::new(&bounds, addresses, fetches).map_err(|error| unable(&error))?;
    Ok((resolver, metrics))
}

/// The credentials for a repository.
#[derive(Clone, Copy, Debug)]
pub struct ChartAccess<'a> {
    /// The namespace of the Secret.
    pub namespace: &'a str,
    /// Its name; empty for none.
    pub secret: &'a str,
    /// Do not verify certificates.
    pub insecure_skip_tls_verify: bool,
}

/// Fetches the archive of an exact version.
///
/// # Errors
/// If it cannot be fetched.
pub async fn fetch(
    client: &Client,
    helm: &HelmOptions,
    access: ChartAccess<'_>,
) -> Result<NamedTempFile, Failure> {
    let attempt = format!(
        "cannot fetch chart {} {} from {}",
        helm.chart, helm.version, helm.repo
    );
    let unable = |error: &dyn std::error::Error| {
        Failure::unable(format!("{attempt}: {}", causes(error))).with_hint(
            "check --repo, --chart, --version and --secret; see what there is with: kubectl helmop versions",
        )
    };
    let (resolver, _) = resolver()?;
    let file = NamedTempFile::new().map_err(|error| unable(&error))?;
    let output = BufWriter::new(file.reopen().map_err(|error| unable(&error))?);
    let source = AccessSource {
        namespace: access.namespace,
        charged_to: access.namespace,
        secret: access.secret,
        insecure_skip_tls_verify: access.insecure_skip_tls_verify,
        ca_certificates: &[],
    };
    let chart = ChartDownload {
        source: ChartSource::of(&helm.repo, &helm.chart),
        version: &helm.version,
        expected_digest: "",
        limit: MAX_ARCHIVE,
    };
    let interest = |_: &str, _: Option<&str>| std::iter::once(helm.chart.clone()).collect();
    let downloaded = resolver.download(client, source, &interest, chart, output).await;
    let mut output = downloaded.map_err(|error| unable(&error))?.output;
    output.flush().map_err(|error| unable(&error))?;
    Ok(file)
}

/// The values of `valuesFrom`, in their order, from the cluster of the release.
///
/// # Errors
/// If one of them cannot be read, or does not exist.
pub async fn referenced(
    client: &Client,
    helm: &HelmOptions,
    release_namespace: &str,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut values = Vec::new();
    for entry in &helm.values_from {
        if let Some(reference) = &entry.config_map_key_ref {
            let place = Place::of("ConfigMap", reference, release_namespace);
            let api = Api::<ConfigMap>::namespaced(client.clone(), &place.namespace);
            let found = place.existing(api.get_opt(&reference.name).await)?;
            let text = found.data.and_then(|mut data| data.remove(&place.key));
            values.push(text.ok_or_else(|| place.missing_key())?.into_bytes());
        }
        if let Some(reference) = &entry.secret_key_ref {
            let place = Place::of("Secret", reference, release_namespace);
            let api = Api::<Secret>::namespaced(client.clone(), &place.namespace);
            let found = place.existing(api.get_opt(&reference.name).await)?;
            let bytes = found.data.and_then(|mut data| data.remove(&place.key));
            values.push(bytes.ok_or_else(|| place.missing_key())?.0);
        }
    }
    Ok(values)
}

/// Where an entry of `valuesFrom` is.
struct Place {
    object: String,
    namespace: String,
    key: String,
}

impl Place {
    fn of(kind: &str, reference: &KeySelector, release_namespace: &str) -> Self {
        let or = |text: &str, default: &str| {
            let text = if text.is_empty() { default } else { text };
            text.to_owned()
        };
        let namespace = or(&reference.namespace, release_namespace);
        Self {
            object: format!("{kind} {namespace}/{}", reference.name),
            key: or(&reference.key, "values.yaml"),
            namespace,
        }
    }

    fn existing<K>(&self, found: Result<Option<K>, kube::Error>) -> Result<K, Failure> {
        let object = &self.object;
        let found = found.map_err(|error| Failure::because(format!("cannot read {object}"), &error))?;
        found.ok_or_else(|| {
            Failure::unable(format!(
                "{object} of helm.valuesFrom does not exist on the cluster"
            ))
        })
    }

    fn missing_key(&self) -> Failure {
        Failure::unable(format!(
            "{} of helm.valuesFrom has no key {:?}",
            self.object, self.key
        ))
    }
}
