//! The alerts: each fires on what it is about, and says what to do.

use helmops_tests::helmops::manifests;
use helmops_tests::prometheus::promtool;
use helmops_tests::tools::Monitoring;
use tempfile::TempDir;

fn alerts() -> String {
    std::fs::read_to_string(manifests().join("monitoring/alerts.yaml")).unwrap()
}

fn names(alerts: &str) -> Vec<&str> {
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.collect()
}

/// The rules as Prometheus reads them without its operator: what is in `spec`. `keeps` says whether annotations stay, which a
/// test of rules would have to repeat word for word.
fn rules(alerts: &str, keeps: bool) -> String {
    let (_, spec) = alerts.split_once("\nspec:\n").unwrap();
    let mut left_out = None;
    let mut rules = String::new();
    for line in spec.lines() {
        let depth = line.len() - line.trim_start().len();
        if left_out.is_some_and(|above| depth > above) {
            continue;
        }
        left_out = (!keeps && line.trim() == "annotations:").then_some(depth);
        if left_out.is_none() {
            rules.push_str(line.strip_prefix("  ").unwrap());
            rules.push('\n');
        }
    }
    rules
}

#[tokio::test]
async fn each_fires_on_what_it_is_about() {
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
        let (is_well, told) = promtool(&tools, folder.path(), arguments, "").await.unwrap();
        assert!(is_well, "{told}");
    }
    for alert in names(&alerts) {
        let mentions = cases.matches(&format!("alertname: {alert},")).count();
        assert!(mentions >= 2, "{alert} is not tested both ways");
    }
}

#[test]
fn each_says_what_to_do() {
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
            "{name} is not explained"
        );
    }
}
