//! The chart repository of a test, and templates.

use std::path::PathBuf;

use anyhow::Result;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::helm::Helm;
use helmops_bed::test_bed::TestBed;
use tempfile::TempDir;

/// The template of a ConfigMap `RELEASE-config` with the value `msg`.
pub const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  msg: {{ .Values.msg | quote }}\n";

/// A Deployment that never gets a pod: there are no nodes.
pub const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: late}\nspec:\n  selector: {matchLabels: {app: late}}\n  template:\n    metadata: {labels: {app: late}}\n    spec: {containers: [{name: a, image: a}]}\n";

/// A Pod that no node runs.
pub const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: late}\nspec: {containers: [{name: a, image: a}]}\n";

pub struct Charts {
    helm: Helm,
    server: ChartServer,
    /// The served folder.
    folder: PathBuf,
}

impl Charts {
    pub(super) async fn start(bed: &TestBed, files: &TempDir) -> Result<Self> {
        let folder = files.path().join("charts");
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            helm: Helm::new(&bed.tools, &folder),
            server: ChartServer::http(&folder).await?,
            folder,
        })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Adds a version of a chart with these files, or replaces it.
    pub async fn add(&self, chart: &str, version: &str, files: &[(&str, &str)]) {
        let all = [&[("values.yaml", "msg: hello\n")], files].concat();
        self.helm.publish(chart, version, &all).await.unwrap();
    }

    /// Serves a file, in place of one of the repository if there is one.
    pub fn file(&self, path: &str, content: &[u8]) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Adds a version of the chart `web` with these templates.
    pub async fn web(&self, version: &str, templates: &[(&str, &str)]) {
        let files: Vec<_> = templates
            .iter()
            .map(|(name, text)| (format!("templates/{name}.yaml"), *text))
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        self.add("web", version, &files).await;
    }

    /// Adds version 2.0.0 of the chart `web`, with an object that does not become ready by itself.
    pub async fn late(&self, object: &str) {
        self.web("2.0.0", &[("config", CONFIG), ("late", object)]).await;
    }
}
