//! The gauge of HelmOps about whose charts polls have found something: a newer version outside of the range, a deprecated or a withdrawn
//! version.
//!
//! It is computed from the cache at each scrape, as those of Fleet: no series remains of what is gone.

use std::{collections::BTreeMap, fmt::Write};

use helmops_api::{Decoded, HelmOp};
use helmops_kube::ObjectCache;
use helmops_model::condition::ConditionType;

const NAME: &str = "helmops_helmop_notices";
/// How many namespaces have series of their own. The HelmOps of others are counted together, with an empty namespace.
const MAX_NAMESPACES: usize = 1_000;

/// Writes the gauge of these HelmOps.
pub fn expose(helmops: &ObjectCache<Decoded<HelmOp>>, text: &mut String) {
    expose_namespaces(MAX_NAMESPACES, helmops, text);
}

fn expose_namespaces(max: usize, helmops: &ObjectCache<Decoded<HelmOp>>, text: &mut String) {
    let mut counts = BTreeMap::<String, [usize; ConditionType::NOTICES.len()]>::new();
    for helmop in helmops.state() {
        let Some(helmop) = helmop.valid() else {
            continue;
        };
        let present = ConditionType::NOTICES.map(|notice| has(helmop, notice));
        if !present.contains(&true) {
            continue;
        }
        let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
        let own = counts.len() < max || counts.contains_key(namespace);
        let counts = counts
            .entry(if own { namespace } else { "" }.to_owned())
            .or_default();
        for (count, is_present) in counts.iter_mut().zip(present) {
            *count += usize::from(is_present);
        }
    }
    // Writing into a String does not fail.
    let _ = writeln!(
        text,
        "# HELP {NAME} HelmOps about whose chart the last poll has found something, by namespace and reason.\n# TYPE {NAME} gauge"
    );
    for (namespace, counts) in &counts {
        for (notice, count) in ConditionType::NOTICES.iter().zip(counts) {
            let reason = notice.as_str();
            let _ = writeln!(
                text,
                "{NAME}{{namespace=\"{namespace}\",reason=\"{reason}\"}} {count}"
            );
        }
    }
}

fn has(helmop: &HelmOp, notice: ConditionType) -> bool {
    let conditions = helmop.status.iter().flat_map(|status| &status.base.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.r#type == notice.as_str() && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn scrape(max: usize, helmops: &[(&str, &[&str])]) -> Vec<String> {
        let helmop = |(number, (namespace, types)): (usize, &(&str, &[&str]))| -> Decoded<HelmOp> {
            let conditions: Vec<Value> = types
                .iter()
                .map(|r#type| json!({ "type": r#type, "status": "True" }))
                .collect();
            let object = json!({
                "metadata": { "name": format!("web-{number}"), "namespace": namespace },
                "spec": {}, "status": { "conditions": conditions },
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_> = helmops.iter().enumerate().map(helmop).collect();
        let mut text = String::new();
        expose_namespaces(max, &store, &mut text);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter(|line| !line.ends_with(" 0"))
            .map(str::to_owned)
            .collect()
    }

    fn line(namespace: &str, reason: &str, count: usize) -> String {
        format!("helmops_helmop_notices{{namespace=\"{namespace}\",reason=\"{reason}\"}} {count}")
    }

    #[test]
    fn helmops_are_counted_by_namespace_and_reason() {
        let newer = "NewVersionOutsideRange";
        let lines = scrape(
            9,
            &[
                ("shop", &["Ready", newer]),
                ("shop", &[newer, "ChartDeprecated"]),
                ("team", &["ChartWithdrawn"]),
                ("quiet", &["Ready"]),
            ],
        );
        let expected = [
            line("shop", newer, 2),
            line("shop", "ChartDeprecated", 1),
            line("team", "ChartWithdrawn", 1),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_number_of_series_is_limited() {
        let newer: &[&str] = &["NewVersionOutsideRange"];
        let lines = scrape(
            2,
            &[
                ("a", newer),
                ("b", newer),
                ("c", newer),
                ("d", newer),
                ("a", newer),
            ],
        );
        assert_eq!(lines.len(), 3);
        let sum: usize = lines
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(sum, 5);
    }
}
