//! Manifests of objects, as files of a chart.

use helmops_content::Resource;

use super::{ChartEntry, entry, path};

/// The folder of the chart whose files become objects after the rendering.
const RAW: &str = "raw-yaml/";
/// The folder whose files are templates in any case.
const TEMPLATES: &str = "templates/";
/// Files for Fleet itself. A folder with one of them, or with a chart, is another Bundle.
const FLEET: [&str; 2] = ["fleet.yaml", "fleet.yml"];

/// Those of the files that are manifests. Fleet drops all others, such as `templates/_helpers.tpl`.
///
/// Source: `manifests` in Fleet's `internal/helmdeployer/render/helm.go`.
pub fn entries(files: Vec<Resource>) -> Vec<ChartEntry> {
    let others: Vec<String> = files
        .iter()
        .filter(|file| is_first_of_bundle(&file.name))
        .map(|file| path::prefix(path::parent(&file.name)))
        .collect();
    let is_of_other = |name: &str| others.iter().any(|folder| name.starts_with(&**folder));
    let own = files.into_iter().filter(|file| {
        let name = &*file.name;
        !FLEET.contains(&name) && is_manifest(name) && !is_of_other(name)
    });
    own.map(|file| {
        if file.name.starts_with(TEMPLATES) {
            entry(&file.name.clone(), file)
        } else {
            entry(&format!("{RAW}{}", file.name), file)
        }
    })
    .collect()
}

/// Whether a file shows that its folder is another Bundle, or a chart. In the first folder it does not.
fn is_first_of_bundle(name: &str) -> bool {
    let file = name.rsplit_once('/').map(|(_, file)| file);
    file.is_some_and(|file| file == "Chart.yaml" || FLEET.contains(&file))
}

fn is_manifest(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
}
