//! The table at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::compare::Kind;
use crate::results::{ChartResult, StepResult};

/// How much of a message the table has; all of it is in the file with the results.
const SHOWN: usize = 400;

/// The report about these results.
pub fn report(results: &[ChartResult]) -> String {
    let mut text = String::new();
    counts(&mut text, results);
    times(&mut text, results);
    details(&mut text, results);
    text
}

/// How many charts differ, or could not be compared.
pub fn differing(results: &[ChartResult]) -> usize {
    results.iter().filter(|result| differs(result)).count()
}

fn differs(result: &ChartResult) -> bool {
    result.broken.is_some() || result.steps.iter().any(|step| !step.differences.is_empty())
}

fn steps<'r>(results: &'r [ChartResult], name: &str) -> Vec<&'r StepResult> {
    results
        .iter()
        .flat_map(|result| &result.steps)
        .filter(|step| step.name == name)
        .collect()
}

fn counts(text: &mut String, results: &[ChartResult]) {
    let count =
        |predicate: &dyn Fn(&ChartResult) -> bool| results.iter().filter(|result| predicate(result)).count();
    let _ = writeln!(text, "charts       {}", results.len());
    let _ = writeln!(text, "equal        {}", count(&|result| !differs(result)));
    let _ = writeln!(
        text,
        "different    {}",
        count(&|result| result.broken.is_none() && differs(result))
    );
    let _ = writeln!(text, "not compared {}", count(&|result| result.broken.is_some()));
    let _ = writeln!(
        text,
        "with random values, which are not compared: {}\n",
        count(&|result| result.has_random_values)
    );
    let _ = writeln!(
        text,
        "{:<10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "step", "Helm", "helmops", "both fail", "different", "objects"
    );
    for name in ["install", "upgrade", "remove"] {
        let steps = steps(results, name);
        let sum =
            |predicate: &dyn Fn(&StepResult) -> bool| steps.iter().filter(|step| predicate(step)).count();
        let _ = writeln!(
            text,
            "{name:<10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            sum(&|step| step.helm_error.is_none()),
            sum(&|step| step.helmops_error.is_none()),
            sum(&|step| step.helm_error.is_some() && step.helmops_error.is_some()),
            sum(&|step| !step.differences.is_empty()),
            steps.iter().map(|step| step.objects).sum::<usize>(),
        );
    }
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    for difference in results
        .iter()
        .flat_map(|result| &result.steps)
        .flat_map(|step| &step.differences)
    {
        *kinds.entry(difference.kind).or_default() += 1;
    }
    for (kind, number) in kinds {
        let _ = writeln!(text, "differences of {kind:?}: {number}");
    }
}

fn times(text: &mut String, results: &[ChartResult]) {
    let _ = writeln!(
        text,
        "\n{:<10}{:>30}{:>30}{:>24}",
        "seconds", "Helm median, p90, max", "helmops median, p90, max", "CPU s Helm, helmops"
    );
    for name in ["install", "upgrade", "remove"] {
        let done: Vec<_> = steps(results, name)
            .into_iter()
            .filter(|step| step.helm_error.is_none() && step.helmops_error.is_none())
            .collect();
        let helm = quantiles(done.iter().map(|step| step.helm_seconds).collect());
        let helmops = quantiles(done.iter().map(|step| step.helmops_seconds).collect());
        let cpu: f64 = done.iter().map(|step| step.helm_cpu).sum();
        let measured: Option<f64> = done.iter().map(|step| step.helmops_cpu).sum();
        let measured = measured.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.0}"));
        let _ = writeln!(
            text,
            "{name:<10}{helm:>30}{helmops:>30}{:>24}",
            format!("{cpu:.0}, {measured}")
        );
    }
}

fn quantiles(mut seconds: Vec<f64>) -> String {
    seconds.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let index = seconds.len().saturating_sub(1) * percent / 100;
        seconds.get(index).copied().unwrap_or_default()
    };
    format!("{:.2}, {:.2}, {:.2}", at(50), at(90), at(100))
}

fn details(text: &mut String, results: &[ChartResult]) {
    for result in results {
        let mut lines = Vec::new();
        lines.extend(
            result
                .broken
                .as_ref()
                .map(|broken| format!("not compared: {}", cut(broken))),
        );
        for step in &result.steps {
            let differences = step.differences.iter();
            lines.extend(differences.map(|difference| {
                format!("{}: {:?}: {}", step.name, difference.kind, cut(&difference.text))
            }));
            lines.extend(
                step.not_ready
                    .as_ref()
                    .map(|reason| format!("{}: not ready: {}", step.name, cut(reason))),
            );
        }
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", result.file);
        }
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
}

fn cut(text: &str) -> String {
    let text = text.replace('\n', "\n    ");
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;

    #[test]
    fn a_difference_is_counted_and_shown() {
        let step = StepResult {
            name: "install".to_owned(),
            differences: vec![Difference {
                kind: Kind::Drift,
                text: "x".to_owned(),
            }],
            ..StepResult::default()
        };
        let result = ChartResult {
            file: "a.tgz".to_owned(),
            steps: vec![step],
            ..ChartResult::default()
        };
        let results = [result, ChartResult::default()];
        assert_eq!(differing(&results), 1);
        let report = report(&results);
        assert!(
            report.contains("equal        1\n") && report.ends_with("a.tgz\n  install: Drift: x\n"),
            "{report}"
        );
    }
}
