//! Names of metrics, flags, alerts and reasons, which must exist.

use std::collections::HashSet;

use anyhow::{Context, Result};

use super::{Page, Problem, problem};

/// Pages that are generated from the processes.
const REFERENCE: [&str; 6] = [
    "docs/reference/helmops-agent.md",
    "docs/reference/helmops-controller.md",
    "docs/reference/helmops-notifier.md",
    "docs/reference/helmops-receiver.md",
    "docs/reference/helmops-webhook.md",
    "docs/reference/kubectl-helmop.md",
];

/// The page of reasons, which is generated from the enum.
const REASONS: &str = "docs/reasons.md";

/// Names in backticks that are not reasons: a header, and states that Fleet's agent reports.
const NOT_REASONS: [&str; 8] = [
    "ChartVersion",
    "CreateReplace",
    "ETag",
    "ErrApplied",
    "OutOfSync",
    "TestSuccess",
    "WaitApplied",
    "WaitingForDependency",
];

/// Which labels, annotations and finalizers there are.
const LABELS: &str = "docs/reference/labels.md";

/// The beginning of those of helmops.
const KEY: &str = "helmops.fleet.cattle.io/";

/// Where alerts are defined.
const ALERTS: [&str; 2] = [
    "manifests/monitoring/alerts.yaml",
    "manifests/monitoring/agent/alerts.yaml",
];

/// Flags of other programs: kubectl, Helm, kube-apiserver, cargo, cosign and the like.
const FOREIGN_FLAGS: [&str; 50] = [
    "--cascade",
    "--admission-control-config-file",
    "--all",
    "--all-namespaces",
    "--certificate-identity-regexp",
    "--certificate-oidc-issuer",
    "--context",
    "--create-namespace",
    "--current",
    "--dry-run",
    "--duration",
    "--field-selector",
    "--filename",
    "--flatten",
    "--for",
    "--force",
    "--force-conflicts",
    "--from-file",
    "--from-literal",
    "--grep",
    "--hard",
    "--help",
    "--ignore-not-found",
    "--lib",
    "--locked",
    "--manifest",
    "--minify",
    "--namespace",
    "--output",
    "--overwrite",
    "--previous",
    "--profile",
    "--recursive",
    "--release",
    "--replicas",
    "--requestheader-client-ca-file",
    "--reset-then-reuse-values",
    "--selector",
    "--server-side",
    "--set",
    "--set-string",
    "--show-labels",
    "--show-managed-fields",
    "--test",
    "--timeout",
    "--type",
    "--values",
    "--version",
    "--workspace",
    "--wait",
];

/// Flags of `helmops-certs`, which certs/README.md documents.
const CERTS_FLAGS: [&str; 9] = [
    "--ca-cert",
    "--ca-key",
    "--cert",
    "--days",
    "--dns-name",
    "--ip",
    "--keep-ca-key",
    "--key",
    "--out",
];

/// Flags of `make parity`, which docs/parity.md documents.
const PARITY_FLAGS: [&str; 4] = ["--crds", "--only", "--parallel", "--results"];

/// Crates, by which the log can be filtered.
const CRATES: [&str; 10] = [
    "helmops_agent",
    "helmops_certs",
    "helmops_controller",
    "helmops_fetch",
    "helmops_helm",
    "helmops_kube",
    "helmops_notifier",
    "helmops_process",
    "helmops_runtime",
    "helmops_webhook",
];

/// Names in pages that nothing has.
pub fn check(pages: &[Page]) -> Result<Vec<Problem>> {
    let known = Known::of(pages)?;
    let pages = pages.iter().filter(|page| page.path != "CHANGELOG.md");
    Ok(pages.flat_map(|page| known.problems(page)).collect())
}

struct Known {
    metrics: HashSet<String>,
    flags: HashSet<String>,
    alerts: HashSet<String>,
    reasons: HashSet<String>,
    keys: HashSet<String>,
}

impl Known {
    fn of(pages: &[Page]) -> Result<Self> {
        let page = |path: &str| {
            let found = pages.iter().find(|page| page.path == path);
            found.with_context(|| format!("there is no {path}; run `make manifests`"))
        };
        let mut known = Self {
            metrics: HashSet::new(),
            flags: FOREIGN_FLAGS
                .iter()
                .chain(&CERTS_FLAGS)
                .chain(&PARITY_FLAGS)
                .map(ToString::to_string)
                .collect(),
            alerts: HashSet::new(),
            reasons: NOT_REASONS.iter().map(ToString::to_string).collect(),
            keys: HashSet::new(),
        };
        for path in REFERENCE {
            for (_, line) in page(path)?.lines() {
                let name = first_cell(line);
                let names = if line.starts_with("| `--") {
                    &mut known.flags
                } else {
                    &mut known.metrics
                };
                names.extend(name.map(ToOwned::to_owned));
            }
        }
        for (_, line) in page(REASONS)?.lines() {
            known.reasons.extend(first_cell(line).map(ToOwned::to_owned));
        }
        for (_, line) in page(LABELS)?.lines() {
            known.keys.extend(first_cell(line).map(ToOwned::to_owned));
        }
        for alerts in ALERTS {
            for (_, line) in page(alerts)?.lines() {
                let name = line.trim_start().strip_prefix("- alert: ");
                known.alerts.extend(name.map(ToOwned::to_owned));
            }
        }
        Ok(known)
    }

    fn problems(&self, page: &Page) -> Vec<Problem> {
        let mut problems = Vec::new();
        for line in page.lines() {
            let wrong = tokens(line.1).filter_map(|token| self.wrong(token));
            problems.extend(wrong.map(|wrong| problem(page, line, wrong)));
            let unknown = keys(line.1).filter(|key| !self.keys.contains(key));
            problems.extend(unknown.map(|key| problem(page, line, format!("{LABELS} has no {key}"))));
            if is_for_users(page) {
                let unknown =
                    quoted(line.1).filter(|name| is_camel_case(name) && !self.reasons.contains(*name));
                problems
                    .extend(unknown.map(|name| problem(page, line, format!("there is no reason {name}"))));
            }
        }
        problems
    }

    /// What is wrong with a word, if it is a name.
    fn wrong(&self, token: &str) -> Option<String> {
        let kind = if token
            .strip_prefix("--")
            .is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        {
            (!self.flags.contains(token)).then_some("flag")
        } else if token.starts_with("helmops_") || token.starts_with("fleet_helmop_") {
            (!self.is_metric(token) && !CRATES.contains(&token)).then_some("metric")
        } else if is_alert(token) {
            (!self.alerts.contains(token)).then_some("alert")
        } else {
            None
        };
        kind.map(|kind| format!("there is no {kind} {token}"))
    }

    /// Whether it is a metric, a series of a histogram, or the beginning of several, as in `helmops_fetch_*`.
    fn is_metric(&self, token: &str) -> bool {
        let series = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| token.strip_suffix(end));
        self.metrics.contains(series.unwrap_or(token))
            || token.ends_with('_') && self.metrics.iter().any(|metric| metric.starts_with(token))
    }
}

/// `HelmopsNoLeader`, and nothing that is a type or a kind.
fn is_alert(token: &str) -> bool {
    token
        .strip_prefix("Helmops")
        .is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether a page is documentation for users. Other pages, and those that are generated, quote types and values of the code.
fn is_for_users(page: &Page) -> bool {
    let is_generated = page.path == REASONS || page.path.starts_with("docs/reference/");
    page.is_markdown()
        && !is_generated
        && (page.path.starts_with("docs/") || page.path.ends_with("README.md"))
}

/// The labels, annotations and finalizers of helmops. What follows the group of an `apiVersion` is its version.
fn keys(line: &str) -> impl Iterator<Item = String> {
    line.split(KEY).skip(1).filter_map(|rest| {
        let name = tokens(rest).next().filter(|name| rest.starts_with(name))?;
        (name != "v1alpha1").then(|| format!("{KEY}{name}"))
    })
}

/// What the first cell of a row has in backticks.
fn first_cell(line: &str) -> Option<&str> {
    Some(line.strip_prefix("| `")?.split_once('`')?.0)
}

/// The texts in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// At least two capitalised words without a separator, as in `ChartNotFound`. Kinds such as `HelmOp` are not in backticks.
fn is_camel_case(text: &str) -> bool {
    text.starts_with(char::is_uppercase)
        && text.chars().all(char::is_alphanumeric)
        && text.chars().any(char::is_lowercase)
        && text.chars().skip(1).any(char::is_uppercase)
}

/// Words of letters, digits, `_` and `-`.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_found() {
        let reference = "| `--workers` | x |\n| `helmops_polls_total` | counter |\n| `helmops_poll_lag_seconds` | histogram |\n";
        let text = "`--workers=3` --worker --dry-run\nhelmops_polls_total helmops_poll_lag_seconds_bucket helmops_* helmops_gone_total\n\
                    HelmopsNoLeader HelmopsGone Helmops\n\
                    helmops.fleet.cattle.io/v1alpha1 helmops.fleet.cattle.io/leave `helmops.fleet.cattle.io/gone=1` helmops.fleet.cattle.io/…\n";
        let [first, others @ ..] = REFERENCE;
        let mut pages = vec![
            Page::new(first, reference),
            Page::new(ALERTS[0], "  - alert: HelmopsNoLeader\n"),
            Page::new(ALERTS[1], "  - alert: HelmopsAgentSilent\n"),
            Page::new(REASONS, "| `ChartNotFound` | x |\n"),
            Page::new(LABELS, "| `helmops.fleet.cattle.io/leave` | x |\n"),
            Page::new("docs/a.md", text),
            Page::new(
                "docs/b.md",
                "`ChartNotFound`, `WaitApplied`, `Ready`, `ChartMissing`\n",
            ),
        ];
        pages.extend(others.map(|page| Page::new(page, "")));
        let problems: Vec<_> = check(&pages).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "docs/a.md:1: there is no flag --worker",
                "docs/a.md:2: there is no metric helmops_gone_total",
                "docs/a.md:3: there is no alert HelmopsGone",
                "docs/a.md:4: docs/reference/labels.md has no helmops.fleet.cattle.io/gone",
                "docs/b.md:1: there is no reason ChartMissing",
            ]
        );
    }
}
