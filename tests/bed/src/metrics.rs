//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::api::Api;
use crate::cluster::Cluster;
use crate::probe;

/// One scrape of an endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Scrapes an endpoint such as `http://127.0.0.1:8081/metrics`.
    pub async fn scrape(url: &str) -> Result<Self> {
        Self::parse(&probe::get(&probe::client(None)?, url).await?)
    }

    /// Parses the text exposition format.
    ///
    /// # Errors
    /// With the first line that is invalid.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|line| sample(line).with_context(|| format!("not a metric: {line}")));
        Ok(Self {
            samples: samples.collect::<Result<_>>()?,
        })
    }

    /// The sum of all samples of this name that have at least these labels; `None` without such samples.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let matching = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(*label).is_some_and(|found| found == value))
        };
        let values = self.samples.iter().filter(matching).map(|sample| sample.value);
        values.reduce(|sum, value| sum + value)
    }
}

/// The number of requests that the API server has handled for a resource (`helmops`) and a verb (`GET`, `LIST`, `WATCH`, `POST`,
/// `PUT`, `PATCH`, `APPLY`, `DELETE`), from all clients. A write that was rejected with a conflict changes nothing and does
/// not count.
pub async fn api_requests(cluster: &Cluster, resource: &str, verb: &str) -> Result<u64> {
    let text = Api::new(cluster)?.text("metrics").await?;
    let metrics = Metrics::parse(&text)?;
    let count = |labels: &[(&str, &str)]| metrics.sum("apiserver_request_total", labels).unwrap_or_default();
    let all = count(&[("resource", resource), ("verb", verb)]);
    let conflicts = count(&[("resource", resource), ("verb", verb), ("code", "409")]);
    // A counter is an integer, although the format has floating-point values.
    Ok(format!("{:.0}", all - conflicts).parse()?)
}

/// What the API server needs, by its own metrics.
#[derive(Clone, Copy, Debug)]
pub struct ApiServerUsage {
    /// CPU time since its start.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub memory: f64,
    /// Size of the database of etcd, in bytes.
    pub storage: f64,
}

impl ApiServerUsage {
    /// Reads it now.
    pub async fn of(cluster: &Cluster) -> Result<Self> {
        let metrics = Metrics::parse(&Api::new(cluster)?.text("metrics").await?)?;
        let value = |name| {
            let sum = metrics.sum(name, &[]);
            sum.with_context(|| format!("the API server has no metric {name}"))
        };
        Ok(Self {
            cpu: Duration::try_from_secs_f64(value("process_cpu_seconds_total")?)?,
            memory: value("process_resident_memory_bytes")?,
            storage: value("apiserver_storage_size_bytes")?,
        })
    }
}

/// `name{label="value",...} value [timestamp]`
fn sample(line: &str) -> Result<Sample> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next().context("no value")?;
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse()?,
    })
}

/// The labels up to the closing brace, and the rest of the line.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (label, quoted) = rest.split_once("=\"").context("the label has no value")?;
        let (value, after) = unquote(quoted).context("the label value has no closing quote")?;
        ensure!(
            labels.insert(label.to_owned(), value).is_none(),
            "label {label} twice"
        );
        rest = after;
    }
}

/// The unescaped text up to the closing quote, and the rest of the line.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, quoted.get(at + 1..)?)),
            (_, '\\') => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="GET",code="200"} 3
requests_total{verb="GET",code="404"} 1 1700000000000
requests_total{verb="PUT",code="200",} 1e2

up 1
escaped{path="a\"b\\c\nd, e}="} +Inf
"#;

    #[test]
    fn samples_are_summed_over_the_other_labels() {
        let metrics = Metrics::parse(TEXT).unwrap();
        assert_eq!(metrics.sum("requests_total", &[("verb", "GET")]), Some(4.0));
        assert_eq!(
            metrics.sum("requests_total", &[("verb", "GET"), ("code", "404")]),
            Some(1.0)
        );
        assert_eq!(metrics.sum("requests_total", &[]), Some(104.0));
        assert_eq!(metrics.sum("up", &[]), Some(1.0));
    }

    #[test]
    fn a_missing_metric_is_none_and_not_zero() {
        let metrics = Metrics::parse(TEXT).unwrap();
        assert_eq!(metrics.sum("requests_total", &[("verb", "LIST")]), None);
        assert_eq!(metrics.sum("down", &[]), None);
    }

    #[test]
    fn label_values_are_unescaped() {
        let metrics = Metrics::parse(TEXT).unwrap();
        assert_eq!(
            metrics.sum("escaped", &[("path", "a\"b\\c\nd, e}=")]),
            Some(f64::INFINITY)
        );
    }

    #[test]
    fn an_invalid_line_is_reported() {
        for line in ["up", "up one", "up{a=1} 1", "up{a=\"1} 1", "<html>"] {
            let error = Metrics::parse(line).unwrap_err().to_string();
            assert_eq!(error, format!("not a metric: {line}"));
        }
    }
}
