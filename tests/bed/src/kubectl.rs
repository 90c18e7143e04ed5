//! kubectl, as users and scripts run it.

mod apply;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::Value;

use crate::api::{Api, GROUP as FLEET};
use crate::cluster::Cluster;
use crate::command::{Output, run};
use crate::files::entries;

/// Much longer than the slowest call of the tests, the deletion of a namespace while other tests use all CPUs.
const DEADLINE: Duration = Duration::from_mins(3);

const HELMOPS: &str = "apis/helmops.fleet.cattle.io/v1alpha1";
const ADMISSION: &str = "apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";

/// Kinds that need no process of kubectl: the name, the path of the API version, the resource, and whether objects have a namespace.
const KINDS: [(&str, &str, &str, bool); 22] = [
    ("alert", HELMOPS, "alerts", true),
    ("alertprovider", HELMOPS, "alertproviders", true),
    ("bundle", FLEET, "bundles", true),
    ("bundledeployment", FLEET, "bundledeployments", true),
    ("cluster", FLEET, "clusters", true),
    ("clustergroup", FLEET, "clustergroups", true),
    ("clusterrolebinding", RBAC, "clusterrolebindings", false),
    ("configmap", "api/v1", "configmaps", true),
    (
        "crd",
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        false,
    ),
    ("deployment", "apis/apps/v1", "deployments", true),
    ("helmop", FLEET, "helmops", true),
    ("lease", "apis/coordination.k8s.io/v1", "leases", true),
    (
        "mutatingwebhookconfiguration",
        ADMISSION,
        "mutatingwebhookconfigurations",
        false,
    ),
    ("namespace", "api/v1", "namespaces", false),
    ("pod", "api/v1", "pods", true),
    ("policy", FLEET, "policies", true),
    ("receiver", HELMOPS, "receivers", true),
    ("role", RBAC, "roles", true),
    ("rolebinding", RBAC, "rolebindings", true),
    ("secret", "api/v1", "secrets", true),
    ("serviceaccount", "api/v1", "serviceaccounts", true),
    (
        "validatingwebhookconfiguration",
        ADMISSION,
        "validatingwebhookconfigurations",
        false,
    ),
];

/// kubectl for one kubeconfig and, optionally, one namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    path: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
    /// `None` with the credentials of another kubeconfig.
    cluster: Option<Arc<Cluster>>,
}

impl Kubectl {
    /// For the namespace `default`, as administrator.
    pub fn new(cluster: &Cluster) -> Self {
        Self {
            path: cluster.tools.kubectl(),
            kubeconfig: cluster.kubeconfig.clone(),
            namespace: None,
            cluster: Some(Arc::new(cluster.clone())),
        }
    }

    /// The same, for another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self.clone()
        }
    }

    /// The same, with the credentials of another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            cluster: None,
            ..self.clone()
        }
    }

    /// Runs kubectl with these arguments.
    ///
    /// # Errors
    /// If it cannot be started or does not end. A failure of kubectl itself is reported by [`Output::ok`].
    pub async fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.run_with_input(arguments, "").await
    }

    /// Runs kubectl with these arguments and this standard input.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<Output> {
        run(self.command(arguments).into(), input, DEADLINE).await
    }

    /// `kubectl apply` of one or more YAML documents.
    ///
    /// One object of a frequent kind that the API server accepts is written without the program, with the same result. Whatever it rejects
    /// is given to kubectl.
    pub async fn apply(&self, yaml: &str) -> Result<Output> {
        if let Some(cluster) = &self.cluster
            && let Ok(object) = serde_json::from_str(yaml)
            && let Some((collection, name)) = self.place_of_new(&object)
            && let Ok(warnings) = apply::apply(&Api::new(cluster)?, &collection, name, &object).await
        {
            let warnings = warnings.iter().map(|text| format!("Warning: {text}\n"));
            let command = format!("kubectl apply {}", collection.object(name));
            return Ok(Output::succeeded(command, warnings.collect()));
        }
        self.run_with_input(&["apply", "--filename=-"], yaml).await
    }

    /// Has the API server check a new object of a frequent kind without storing it, and returns its error; empty if it accepts the object.
    /// `kubectl create --dry-run=server` does the same.
    ///
    /// # Errors
    /// If the kind is not frequent, the object belongs in another namespace, or there is no response.
    pub async fn rejection(&self, object: &Value) -> Result<String> {
        let (collection, _) = self.place_of_new(object).context("kubectl has to create this")?;
        let path = format!("{}?dryRun=All&fieldValidation=Strict", collection.path());
        self.api()?.rejection(Method::POST, &path, object).await
    }

    /// `kubectl apply --server-side` of the objects in files and folders, which applies the kustomization of a folder as its files.
    ///
    /// # Errors
    /// If one of them is rejected.
    pub async fn apply_files(&self, paths: &[PathBuf]) -> Result<()> {
        let files = files(paths)?;
        let names = files.iter().map(|file| format!("--filename={}", file.display()));
        let names: Vec<_> = names.collect();
        let mut arguments = vec!["apply", "--server-side"];
        arguments.extend(names.iter().map(String::as_str));
        self.run(&arguments).await?.ok().map(drop)
    }

    /// An object such as `helmop/nginx`, or `None` if it does not exist.
    ///
    /// Tests wait for the state of objects with this. A run of kubectl costs a tenth of a second of CPU time, so frequent kinds are
    /// read without it, with the same result.
    pub async fn get(&self, object: &str) -> Result<Option<Value>> {
        if let Some(cluster) = &self.cluster
            && let Some(path) = self.path_of(object)
        {
            return Api::new(cluster)?.find(&path).await;
        }
        let arguments = ["get", object, "--output=json", "--ignore-not-found"];
        let json = self.run(&arguments).await?.ok()?;
        if json.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&json).with_context(|| format!("kubectl printed no JSON for {object}"))
    }

    /// A client of the API server, with the credentials of its administrator: for what is repeated until it succeeds.
    ///
    /// # Errors
    /// With the credentials of another kubeconfig.
    pub fn api(&self) -> Result<Api> {
        Api::new(self.cluster.as_ref().context("these are other credentials")?)
    }

    /// Where kubectl would create an object of one of [`KINDS`], and its name.
    fn place_of_new<'o>(&'o self, object: &'o Value) -> Option<(Collection<'o>, &'o str)> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let collection = self.collection(&text("/kind")?.to_lowercase())?;
        let namespace = text("/metadata/namespace");
        let is_here = namespace.is_none() || namespace == self.namespace.as_deref();
        let name = text("/metadata/name")?;
        (text("/apiVersion")? == collection.api_version() && is_here).then_some((collection, name))
    }

    /// The path of an object of one of [`KINDS`] at the API server.
    fn path_of(&self, object: &str) -> Option<String> {
        let (kind, name) = object.split_once('/')?;
        Some(self.collection(kind)?.object(name))
    }

    fn collection(&self, kind: &str) -> Option<Collection<'_>> {
        let (_, version, resource, is_namespaced) = KINDS.into_iter().find(|known| known.0 == kind)?;
        let namespace = self.namespace.as_deref().unwrap_or("default");
        Some(Collection {
            version,
            resource,
            namespace: is_namespaced.then_some(namespace),
        })
    }

    /// The command itself, for callers that cannot be async.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        // kubectl caches discovery by the address of the API server, and another one may have used this port.
        command
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"));
        if let Some(namespace) = &self.namespace {
            command.arg("--namespace").arg(namespace);
        }
        // It ends before it has much garbage to collect.
        command.env("GOGC", "off").args(arguments);
        command
    }
}

/// The objects of a kind in a namespace, or of one without namespaces.
struct Collection<'n> {
    /// The path of the API version.
    version: &'static str,
    resource: &'static str,
    namespace: Option<&'n str>,
}

impl Collection<'_> {
    fn path(&self) -> String {
        let Self {
            version, resource, ..
        } = self;
        match self.namespace {
            Some(namespace) => format!("{version}/namespaces/{namespace}/{resource}"),
            None => format!("{version}/{resource}"),
        }
    }

    /// The path of an object in it.
    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// The version as objects have it, such as `v1`.
    fn api_version(&self) -> &str {
        self.version
            .trim_start_matches("apis/")
            .trim_start_matches("api/")
    }

    /// Whether the lists of its objects have no keys for kubectl: then a JSON merge patch changes what kubectl changes.
    fn has_no_keys(&self) -> bool {
        matches!(self.version, FLEET | HELMOPS) || matches!(self.resource, "secrets" | "configmaps")
    }
}

/// The files, and those with objects in the folders.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(files_of(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = entries(folder)?;
    files.retain(|file| {
        let is_yaml = file.extension().is_some_and(|extension| extension == "yaml");
        is_yaml && !file.ends_with("kustomization.yaml")
    });
    files.sort();
    Ok(files)
}

impl AsRef<Self> for Kubectl {
    fn as_ref(&self) -> &Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frequent_kinds_are_read_without_the_program() {
        let cluster = r#"{"kubeconfig":"k","url":"u","directory":"d","tools":"t","etcd":"e","pid":1}"#;
        let kubectl = Kubectl::new(&serde_json::from_str(cluster).unwrap());
        let path = |object| kubectl.in_namespace("team").path_of(object);
        assert_eq!(
            path("helmop/web").unwrap(),
            "apis/fleet.cattle.io/v1alpha1/namespaces/team/helmops/web"
        );
        assert_eq!(path("namespace/web").unwrap(), "api/v1/namespaces/web");
        assert_eq!(
            kubectl.path_of("secret/web").unwrap(),
            "api/v1/namespaces/default/secrets/web"
        );
        assert_eq!(path("ingressclass/web"), None);
        assert_eq!(path("secrets"), None, "a list is printed by kubectl");
    }

    #[test]
    fn new_objects_have_the_path_where_kubectl_would_create_them() {
        let cluster = r#"{"kubeconfig":"k","url":"u","directory":"d","tools":"t","etcd":"e","pid":1}"#;
        let kubectl = Kubectl::new(&serde_json::from_str(cluster).unwrap()).in_namespace("team");
        let path = |version: &str, metadata: Value| {
            let object = json!({ "apiVersion": version, "kind": "Bundle", "metadata": metadata });
            let (collection, name) = kubectl.place_of_new(&object)?;
            Some(collection.object(name))
        };
        let fleet = "fleet.cattle.io/v1alpha1";
        let expected = "apis/fleet.cattle.io/v1alpha1/namespaces/team/bundles/web";
        assert_eq!(path(fleet, json!({ "name": "web" })).unwrap(), expected);
        let here = json!({ "name": "web", "namespace": "team" });
        assert_eq!(path(fleet, here).unwrap(), expected);
        let elsewhere = json!({ "name": "web", "namespace": "other" });
        assert_eq!(path(fleet, elsewhere), None, "kubectl reports this");
        assert_eq!(path("fleet.cattle.io/v2", json!({ "name": "web" })), None);
        assert_eq!(path(fleet, json!({ "generateName": "web-" })), None);
    }
}
