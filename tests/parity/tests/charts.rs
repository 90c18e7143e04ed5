//! Small charts, each with something that a tool may get wrong, deployed by Helm and by helmops.

#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use helmops_bed::command;
use helmops_bed::tools::Tools;
use helmops_parity::archive::files;
use helmops_parity::report::{differing, report};
use helmops_parity::results::{ChartResult, Results};
use helmops_parity::run::Settings;
use helmops_parity::suite::compare;
use tokio::process::Command;

/// Packages the charts of this crate.
async fn archives(folder: &Path) -> Vec<PathBuf> {
    let tools = Tools::prepare().await.unwrap();
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
    for chart in std::fs::read_dir(charts).unwrap() {
        let mut package = Command::new(tools.helm());
        package
            .args(["package", "--destination"])
            .arg(folder)
            .arg(chart.unwrap().path());
        command::run(package, "", Duration::from_mins(1))
            .await
            .unwrap()
            .ok()
            .unwrap();
    }
    files(folder).unwrap()
}

#[tokio::test]
async fn helmops_deploys_what_helm_deploys() {
    let folder = tempfile::tempdir().unwrap();
    let archives = archives(folder.path()).await;
    let results = Results::new(&folder.path().join("results"));
    let settings = Settings {
        crds: None,
        is_alone: false,
    };
    compare(archives.clone(), 4, &settings, &results).await.unwrap();
    let results: Vec<ChartResult> = results.read().unwrap().into_values().collect();
    assert_eq!(results.len(), archives.len());
    assert_eq!(differing(&results), 0, "{}", report(&results));
    // Nothing is equal because nothing was deployed.
    let failed: Vec<_> = results
        .iter()
        .filter(|result| result.steps.iter().any(|step| step.helm_error.is_some()))
        .collect();
    assert_eq!(failed.len(), 1, "{}", report(&results));
    assert!(
        results
            .iter()
            .flat_map(|result| &result.steps)
            .map(|step| step.objects)
            .sum::<usize>()
            > 30
    );
}
