//! The chart, its values and the clusters, from flags.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use go_formats::{
    strvals,
    yaml::{self, Quota},
};
use helmops_api::{BundleTarget, HelmOp, free_form::FreeForm, target::ClusterCriteria};
use helmops_model::validation::selector_text::SelectorText;
use helmops_release::manifest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use super::set::{self, SetError};
use crate::failure::Failure;

/// Bytes of a file. An object has at most 1.5 MiB in the API server.
pub const MAX_FILE: u64 = 8 << 20;
/// The workspace and the Cluster of the management cluster itself.
const LOCAL_WORKSPACE: &str = "fleet-local";
const LOCAL_CLUSTER: &str = "local";

/// Which chart, and how it is deployed.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart")]
pub struct ChartFlags {
    /// URL of the repository (https://), or of the chart in a registry (oci://)
    #[arg(long, value_name = "URL")]
    pub repo: Option<String>,
    /// Name of the chart in the repository, or the URL of an archive (.tgz)
    #[arg(long, value_name = "NAME")]
    pub chart: Option<String>,
    /// Version or range of versions, such as 1.2.3 or 1.x; by default the newest
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// File with values; later ones override earlier ones
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// Value, as for Helm: a.b=c,d=1
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Value that is a text
    #[arg(long, value_name = "KEY=TEXT")]
    pub set_string: Vec<String>,
    /// Name of the Helm release; by default that of the HelmOp
    #[arg(long, value_name = "NAME")]
    pub release_name: Option<String>,
    /// Secret with the credentials of the repository, in the namespace of the HelmOp
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// How often to poll for a newer version, such as 15m
    #[arg(long, value_name = "DURATION")]
    pub poll: Option<String>,
}

/// Which clusters, and where on them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Targets")]
pub struct TargetFlags {
    /// Clusters with these labels, as for `kubectl get -l`: env=prod,tier!=test; empty for all
    #[arg(long, value_name = "SELECTOR")]
    pub target_selector: Option<String>,
    /// Clusters of this ClusterGroup; can be given several times
    #[arg(long, value_name = "NAME")]
    pub cluster_group: Vec<String>,
    /// This Cluster; can be given several times
    #[arg(long, value_name = "NAME")]
    pub cluster: Vec<String>,
    /// The management cluster itself: Cluster local in namespace fleet-local
    #[arg(long, conflicts_with_all = ["target_selector", "cluster_group", "cluster"])]
    pub local: bool,
    /// Namespace of the release on the clusters
    #[arg(long, value_name = "NAME")]
    pub target_namespace: Option<String>,
    /// ServiceAccount that deploys, in the namespace of the agent
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
}

impl ChartFlags {
    /// Checks that no flag that is about one chart is given for several HelmOps, from objects of a kind.
    ///
    /// # Errors
    /// If one is.
    pub fn check_number(&self, helmops: usize, kind: &str) -> Result<(), Failure> {
        let of_one = [
            ("--repo", &self.repo),
            ("--chart", &self.chart),
            ("--version", &self.version),
            ("--release-name", &self.release_name),
        ];
        match of_one.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) if helmops > 1 => Err(Failure::unable(format!(
                "there are {helmops} {kind}s, and {flag} is about the chart of one only"
            ))
            .with_hint(format!("convert the {kind} that needs it from a file of its own"))),
            _ => Ok(()),
        }
    }

    /// Sets what the flags name; they override what a source has.
    ///
    /// # Errors
    /// If values cannot be read.
    pub fn apply(&self, helmop: &mut HelmOp) -> Result<(), Failure> {
        let helm = helmop.spec.bundle.options.helm.get_or_insert_default();
        for (field, flag) in [
            (&mut helm.repo, &self.repo),
            (&mut helm.chart, &self.chart),
            (&mut helm.version, &self.version),
            (&mut helm.release_name, &self.release_name),
            (&mut helmop.spec.helm_secret_name, &self.secret),
        ] {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        if self.poll.is_some() {
            helmop.spec.polling_interval.clone_from(&self.poll);
        }
        let mut values = match helm.values.as_ref().map(FreeForm::to_value) {
            Some(Ok(Value::Object(values))) => values,
            _ => Map::new(),
        };
        self.add_values(&mut values)?;
        if !values.is_empty() {
            helm.values = Some(FreeForm::from(&Value::Object(values)));
        }
        Ok(())
    }

    fn add_values(&self, values: &mut Map<String, Value>) -> Result<(), Failure> {
        for path in &self.values {
            let text = read(path)?;
            let invalid = |what: String| Failure::unable(format!("the file {} {what}", path.display()));
            match yaml::read_exact(&text, &mut Quota::default()) {
                Ok(Value::Object(own)) => strvals::merge(values, own),
                Ok(Value::Null) => {}
                Ok(_) => return Err(invalid("has no mapping of values".to_owned())),
                Err(error) => return Err(invalid(format!("is invalid: {error}"))),
            }
        }
        let failure = |flag: &str, error: SetError| Failure::unable(format!("{flag}: {error}"));
        for text in &self.set {
            set::set(values, text, false).map_err(|error| failure("--set", error))?;
        }
        for text in &self.set_string {
            set::set(values, text, true).map_err(|error| failure("--set-string", error))?;
        }
        Ok(())
    }
}

impl TargetFlags {
    /// The namespace of the HelmOp, if it is known without a cluster.
    pub fn namespace(&self, flag: Option<&str>) -> Option<String> {
        let local = self.local.then_some(LOCAL_WORKSPACE);
        flag.or(local).map(str::to_owned)
    }

    /// Sets what the flags name.
    ///
    /// # Errors
    /// If the selector cannot be read.
    pub fn apply(&self, helmop: &mut HelmOp) -> Result<(), Failure> {
        let bundle = &mut helmop.spec.bundle;
        let targets = self.targets()?;
        if !targets.is_empty() {
            bundle.targets = targets;
        }
        if let Some(namespace) = &self.target_namespace {
            bundle.options.default_namespace.clone_from(namespace);
        }
        if let Some(account) = &self.service_account {
            bundle.options.service_account.clone_from(account);
        }
        Ok(())
    }

    fn targets(&self) -> Result<Vec<BundleTarget>, Failure> {
        let named = |name: &String| ClusterCriteria {
            cluster_name: name.clone(),
            ..ClusterCriteria::default()
        };
        let in_group = |name: &String| ClusterCriteria {
            cluster_group: name.clone(),
            ..ClusterCriteria::default()
        };
        let mut criteria = Vec::new();
        if self.local {
            criteria.push(named(&LOCAL_CLUSTER.to_owned()));
        }
        if let Some(selector) = &self.target_selector {
            criteria.push(ClusterCriteria {
                cluster_selector: Some(selected(selector)?),
                ..ClusterCriteria::default()
            });
        }
        criteria.extend(self.cluster_group.iter().map(in_group));
        criteria.extend(self.cluster.iter().map(named));
        let target = |criteria| BundleTarget {
            criteria,
            ..BundleTarget::default()
        };
        Ok(criteria.into_iter().map(target).collect())
    }
}

/// A selector as `kubectl` has it, as one of a target.
fn selected(text: &str) -> Result<LabelSelector, Failure> {
    let selector = SelectorText::parse(text)
        .map_err(|error| Failure::unable(format!("--target-selector {text:?} is invalid: {error}")))?;
    Ok(selector.into())
}

/// The HelmOps of a file; other objects in it are ignored.
///
/// # Errors
/// If it cannot be read, or has no HelmOp.
pub fn read_helmops(path: &Path) -> Result<Vec<HelmOp>, Failure> {
    let invalid = |what: String| Failure::unable(format!("the file {} {what}", path.display()));
    let objects = manifest::objects(&read(path)?).map_err(|error| invalid(format!("is invalid: {error}")))?;
    let is_helmop = |object: &&Value| {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        text("kind") == "HelmOp" && text("apiVersion").starts_with("fleet.cattle.io/")
    };
    let mut helmops = Vec::new();
    for object in objects.iter().filter(is_helmop) {
        // Free-form fields decode from text only.
        let helmop = serde_json::from_str(&object.to_string());
        helmops.push(helmop.map_err(|error| invalid(format!("has an invalid HelmOp: {error}")))?);
    }
    if helmops.is_empty() {
        return Err(invalid("has no HelmOp of fleet.cattle.io".to_owned()));
    }
    Ok(helmops)
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// If it cannot be read, or is too large or no text.
pub fn read(path: &Path) -> Result<String, Failure> {
    let attempt = || format!("cannot read {}", path.display());
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::because(attempt(), &error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Failure::unable(format!(
            "{}: it has more than {MAX_FILE} bytes",
            attempt()
        )));
    }
    Ok(text)
}
