//! The alerts: each fires only on its condition, and has a runbook.

use helmops_bed::helmops::manifests;
use helmops_bed::prometheus::promtool;
use helmops_bed::tools::Monitoring;
use tempfile::TempDir;

/// All groups of alerts in one file: those of helmops, and those of its agent.
fn alerts() -> String {
    let [alerts, agent] = ["monitoring/alerts.yaml", "monitoring/agent/alerts.yaml"]
        .map(|file| std::fs::read_to_string(manifests().join(file)).unwrap());
    let (_, groups) = agent.split_once("\n  groups:\n").unwrap();
    alerts + groups
}

fn names(alerts: &str) -> Vec<&str> {
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.collect()
}

/// The rules in the format of Prometheus without its operator: the content of `spec`. Without `with_annotations`, the annotations
/// are removed, because the tests of the rules would have to repeat them.
fn rules(alerts: &str, with_annotations: bool) -> String {
    let (_, spec) = alerts.split_once("\nspec:\n").unwrap();
    let mut removed = None;
    let mut rules = String::new();
    for line in spec.lines() {
        let depth = line.len() - line.trim_start().len();
        if removed.is_some_and(|above| depth > above) {
            continue;
        }
        removed = (!with_annotations && line.trim() == "annotations:").then_some(depth);
        if removed.is_none() {
            rules.push_str(line.strip_prefix("  ").unwrap());
            rules.push('\n');
        }
    }
    rules
}

#[tokio::test]
async fn each_alert_fires_only_on_its_condition() {
    let tools = Monitoring::prepare().await.unwrap();
    let folder = TempDir::new().unwrap();
    let alerts = alerts();
    std::fs::write(folder.path().join("all.yaml"), rules(&alerts, true)).unwrap();
    std::fs::write(folder.path().join("rules.yaml"), rules(&alerts, false)).unwrap();
    let cases = include_str!("alerts.yaml");
    std::fs::write(folder.path().join("cases.yaml"), cases).unwrap();
    for arguments in [
        ["check", "rules", "--lint=all", "--lint-fatal", "all.yaml"].as_slice(),
        &["test", "rules", "cases.yaml"],
    ] {
        let (is_ok, output) = promtool(&tools, folder.path(), arguments, "").await.unwrap();
        assert!(is_ok, "{output}");
    }
    for alert in names(&alerts) {
        let mentions = cases.matches(&format!("alertname: {alert},")).count();
        assert!(mentions >= 2, "{alert} is not tested both firing and not firing");
    }
}

#[test]
fn each_alert_has_a_runbook_and_documentation() {
    let alerts = alerts();
    let guide = include_str!("../../../docs/monitoring.md");
    let names = names(&alerts);
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let runbook = format!(
            "runbook_url: https://github.com/OWNER/REPO/blob/main/docs/monitoring.md#{}",
            name.to_lowercase()
        );
        assert!(alerts.contains(&runbook), "{name} has no runbook");
        assert!(
            guide.contains(&format!("\n### {name}\n")),
            "{name} is not documented"
        );
    }
}
