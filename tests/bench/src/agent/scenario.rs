//! How many charts, their objects, and the BundleDeployments for them.

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::labels;
use helmops_core::targeting::identity::values_hash;
use serde_json::{Value, json};

pub const CHART: &str = "web";
pub const VERSION: &str = "1.0.0";
/// The namespace of the releases.
pub const RELEASES: &str = "shop";
/// The namespace of the cluster, with the BundleDeployments.
pub const CLUSTER: &str = "cluster-bench";
/// The values of each release.
pub const VALUES: &str = r#"{"msg":"hello"}"#;
/// The value in the ConfigMap of a release.
pub const MESSAGE: &str = "hello";

const CONFIG: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  msg: {{ .Values.msg | quote }}
";

const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: { app: {{ .Release.Name }} }
  ports: [{ port: 80, targetPort: http }]
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: 1
  selector:
    matchLabels: { app: {{ .Release.Name }} }
  template:
    metadata:
      labels: { app: {{ .Release.Name }} }
    spec:
      containers:
      - name: web
        image: web:1.0.0
        ports: [{ name: http, containerPort: 8080 }]
        envFrom: [{ configMapRef: { name: {{ .Release.Name }} } }]
";

/// The objects of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    Config,
    /// A ConfigMap, a Service and a Deployment with a pod.
    Workload,
}

/// Charts of one kind on one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Number of charts; each has its own release.
    pub charts: usize,
    pub objects: Objects,
}

impl Objects {
    /// For the report.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Config => "a ConfigMap",
            Self::Workload => "a ConfigMap, a Service and a Deployment with a pod",
        }
    }

    /// The files of the chart.
    pub const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Config => &[("templates/config.yaml", CONFIG)],
            Self::Workload => &[
                ("templates/config.yaml", CONFIG),
                ("templates/service.yaml", SERVICE),
                ("templates/deployment.yaml", DEPLOYMENT),
            ],
        }
    }
}

/// Name of a BundleDeployment by its number, and of its release and objects.
pub fn name(number: usize) -> String {
    format!("web-{number:04}")
}

/// Whether drift of this release is corrected. That of the others is only reported.
pub const fn is_corrected(number: usize) -> bool {
    number % 2 == 1
}

/// The Secret with the values of a BundleDeployment, as the controller writes it.
pub fn values(number: usize) -> Value {
    let values = STANDARD.encode(VALUES);
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name(number), "namespace": CLUSTER },
        "data": { "values": values, "stagedValues": values },
    })
}

/// A BundleDeployment, as the controller writes it: with the digest of the archive.
pub fn deployment(number: usize, repo: &str, digest: &str) -> Value {
    let name = name(number);
    let resolved = json!({ "repo": repo, "chart": CHART, "version": VERSION, "digest": digest });
    let options = json!({
        "defaultNamespace": RELEASES,
        "helm": { "repo": repo, "chart": CHART, "version": VERSION },
    });
    let id = format!(":{number:064x}");
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "BundleDeployment",
        "metadata": {
            "name": name,
            "labels": { "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet-local" },
            "annotations": { labels::RESOLVED: resolved.to_string() },
        },
        "spec": {
            "deploymentID": id, "stagedDeploymentID": id,
            "options": options, "stagedOptions": options,
            "helmChartOptions": {},
            "valuesHash": values_hash(VALUES.as_bytes(), VALUES.as_bytes()),
            "correctDrift": { "enabled": is_corrected(number) },
        },
    })
}

#[cfg(test)]
mod tests {
    use helmops_api::BundleDeployment;
    use helmops_core::targeting::chart_record::expected_digest;

    use super::*;

    #[test]
    fn the_agent_uses_the_digest_and_the_values_of_a_deployment() {
        let written: BundleDeployment =
            serde_json::from_value(deployment(7, "http://charts.test", "abc")).unwrap();
        assert_eq!(expected_digest(&written).as_deref(), Some("abc"));
        let secret = values(7);
        let data = |key: &str| STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        let hash = values_hash(&data("values"), &data("stagedValues"));
        assert_eq!(written.spec.values_hash, hash);
        assert_eq!(
            secret["metadata"]["name"].as_str(),
            written.metadata.name.as_deref()
        );
    }

    #[test]
    fn every_second_release_is_corrected() {
        let corrected = |number| deployment(number, "", "")["spec"]["correctDrift"]["enabled"].clone();
        assert_eq!([corrected(0), corrected(1)], [json!(false), json!(true)]);
    }
}
