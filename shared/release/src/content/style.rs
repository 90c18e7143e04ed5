//! What the files of a Bundle are.

use bounded_text::hex;
use helmops_api::{BundleDeploymentOptions, HelmOptions};
use helmops_content::Resource;
use ring::digest::{SHA256, digest};

use super::path;

const CHART_YAML: &str = "Chart.yaml";
const KUSTOMIZATION: &str = "kustomization.yaml";

/// What the files of a Bundle are. A chart can have a kustomization as well.
///
/// Source: `DetermineStyle` in Fleet's `internal/bundlereader/style.go`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The path of the `Chart.yaml`, if they have a chart.
    pub chart_yaml: Option<String>,
    /// Whether there is a kustomization.
    pub is_kustomized: bool,
}

impl Style {
    /// That of these files. Of several charts in a downloaded archive, the last one counts.
    pub fn of(files: &[Resource], options: &BundleDeploymentOptions) -> Self {
        let helm = options.helm.as_ref();
        let folder = helm.map_or("", |helm| {
            if helm.chart.is_empty() {
                &helm.repo
            } else {
                &helm.chart
            }
        });
        let own = path::join(folder, CHART_YAML);
        let downloaded = downloaded_to(helm);
        let is_chart = |file: &&Resource| file.name == own || is_in_archive(&file.name, &downloaded);
        let chart_yaml = files.iter().rev().find(is_chart).map(|file| file.name.clone());
        Self {
            is_kustomized: is_kustomized(files, options),
            chart_yaml,
        }
    }

    /// Whether they are manifests of objects.
    pub const fn is_manifests(&self) -> bool {
        self.chart_yaml.is_none() && !self.is_kustomized
    }
}

/// Where Fleet puts the files of a chart that it has downloaded for a Bundle.
fn downloaded_to(helm: Option<&HelmOptions>) -> String {
    let field = |field: fn(&HelmOptions) -> &String| helm.map_or("", |helm| field(helm));
    let (chart, repo) = (field(|helm| &helm.chart), field(|helm| &helm.repo));
    let name = format!("{chart}:{repo}:{}", field(|helm| &helm.version));
    format!(".chart/{}/", hex(digest(&SHA256, name.as_bytes()).as_ref()))
}

/// Whether a file is the `Chart.yaml` of a downloaded chart: in its folder, or one level below it.
fn is_in_archive(file: &str, folder: &str) -> bool {
    let Some(path) = file.strip_prefix(folder) else {
        return false;
    };
    path == CHART_YAML || path.split_once('/').is_some_and(|(_, file)| file == CHART_YAML)
}

/// Whether there is a kustomization in the folder of the options, which starts in that of all files. Fleet does not look for one in the folder
/// of the chart.
fn is_kustomized(files: &[Resource], options: &BundleDeploymentOptions) -> bool {
    let dir = options.kustomize.as_ref().map_or("", |kustomize| &*kustomize.dir);
    let kustomization = path::join(dir, KUSTOMIZATION);
    files.iter().any(|file| path::clean(&file.name) == kustomization)
}
