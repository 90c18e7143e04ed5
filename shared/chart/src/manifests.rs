//! Manifests of objects in a folder, which are no chart: all files but hidden ones. Fleet leaves these out of its Bundles, too.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    Assembly, ChartFiles, ChartPath, Content, FileTree,
    error::ChartError,
    files::{Assembler, ChartFile, check_kind},
    locate::{self, CHART_YAML},
    metadata::ChartYaml,
};

/// The name of what is packed, in place of that of a chart.
const NAME: &str = "manifests";
/// Its version, without the digest of the content.
const VERSION: &str = "0.0.0";
/// How the names of manifests end.
const ENDS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Finds the manifests at a path of these folders.
///
/// # Errors
/// If there are none, or something in the folder is refused.
pub fn assemble_manifests<T: FileTree>(
    tree: &mut T,
    root: T::Id,
    path: &ChartPath,
) -> Result<Assembly<T::Id>, ChartError<T::Error>> {
    let none = |problem, fix| ChartError::<T::Error>::NoManifests {
        path: path.clone(),
        problem,
        fix,
    };
    let folder = locate::find(tree, root, path).map_err(ChartError::Tree)?;
    let folder = folder.map_err(|problem| none(problem, "correct path, or check url and ref"))?;
    let mut assembler = Assembler::new(tree, root);
    let all = assembler.below(folder, path, |name| !name.starts_with(b"."))?;
    if all.iter().any(|below| below.path == CHART_YAML) {
        return Err(none(
            "has a Chart.yaml, so it is a chart",
            "remove spec.chartSource.manifests to deploy it, or name another folder in path",
        ));
    }
    all.iter().try_for_each(|below| check_kind::<T>(below, path))?;
    let is_manifest = |path: &str| ENDS.iter().any(|end| path.ends_with(end));
    if !all.iter().any(|below| is_manifest(&below.path)) {
        return Err(none(
            "has no file that ends with .yaml, .yml or .json and is not hidden",
            "name the folder with the manifests in path",
        ));
    }
    if assembler.misses(&all, |_| true) {
        return Ok(Assembly::Missing(assembler.missing.into_iter().collect()));
    }
    let files = all.into_iter().map(|below| {
        let source = path.below(&below.path);
        (below.path, ChartFile { id: below.id, source })
    });
    Ok(Assembly::Complete(Box::new(ChartFiles {
        content: Content {
            tree: folder,
            local: BTreeMap::new(),
        },
        files: files.collect(),
        chart_yaml: ChartYaml {
            name: NAME.to_owned(),
            version: VERSION.to_owned(),
            dependencies: Vec::new(),
            value: Value::Null,
        },
    })))
}
