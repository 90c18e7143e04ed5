//! The reviews that are sent: always the same, mixed like those of a busy cluster.

use std::sync::Arc;

use anyhow::{Context, Result};

mod object;
mod review;

/// Placeholder in a body for the uid of each request; of the same length.
pub const UID_PLACEHOLDER: &str = "________-____-____-____-____________";

/// One review in this many is invalid.
const ONE_INVALID_IN: usize = 5;
/// One review in this many has a polling interval already.
const ONE_POLLING_IN: usize = 2;
/// One review in this many is an update.
const ONE_UPDATE_IN: usize = 3;
/// These and the number of sources have no common factor: this number of reviews has every combination.
const SIZE: usize = ONE_INVALID_IN * ONE_POLLING_IN * ONE_UPDATE_IN * INVALID.len();

const REPO: &str = "https://charts.example.com/stable";
const OCI: &str = "oci://registry.example.com/charts/orders";
const ARCHIVE: &str = "https://downloads.example.com/charts/orders-2.11.0.tgz";

/// The chart fields of a HelmOp; an empty text is left out.
#[derive(Clone, Copy, Debug)]
struct Source {
    repo: &'static str,
    chart: &'static str,
    version: &'static str,
}

const VALID: [Source; 7] = [
    source(REPO, "orders", "2.11.0"),
    source(REPO, "orders", ">=2.4.0 <3.0.0 || ^4.1"),
    source(REPO, "orders", ""),
    source(OCI, "", "2.11.x"),
    source(REPO, "orders", "~2.11.0"),
    source("", ARCHIVE, ""),
    source(REPO, "orders", "1.9.0 - 2.11.4"),
];

const INVALID: [Source; 7] = [
    source(REPO, "orders", "stable"),
    source(REPO, ARCHIVE, ""),
    source("", ARCHIVE, "2.11.0"),
    source(OCI, "orders", "2.11.0"),
    source("", "orders", "~2.11.0"),
    source(REPO, "", "2.11.0"),
    source(REPO, "orders", ">=2.11.0.7.1"),
];

const fn source(repo: &'static str, chart: &'static str, version: &'static str) -> Source {
    Source { repo, chart, version }
}

/// A review with the expected responses.
#[derive(Clone, Debug)]
pub struct Sample {
    /// JSON with [`UID_PLACEHOLDER`] in place of the uid.
    pub body: Vec<u8>,
    /// Offset of the placeholder in the body.
    pub uid_at: usize,
    /// Whether the validating webhook allows it; the mutating one allows all.
    pub allowed: bool,
    /// Whether the mutating webhook sets a polling interval.
    pub patched: bool,
}

/// The reviews in the order in which they are sent, repeatedly.
///
/// # Errors
/// Never in practice: JSON values always serialise, and each review has one placeholder.
pub fn corpus() -> Result<Arc<[Sample]>> {
    (0..SIZE).map(sample).collect()
}

fn sample(number: usize) -> Result<Sample> {
    let cycle = number / ONE_INVALID_IN;
    let allowed = !number.is_multiple_of(ONE_INVALID_IN);
    let source = if allowed {
        VALID.get(number % VALID.len())
    } else {
        INVALID.get(cycle % INVALID.len())
    };
    let change = object::Change {
        number,
        source: *source.context("an index below the length")?,
        polling: cycle.is_multiple_of(ONE_POLLING_IN),
        update: cycle.is_multiple_of(ONE_UPDATE_IN),
    };
    let body = review::body(&change)?;
    Ok(Sample {
        uid_at: body.find(UID_PLACEHOLDER).context("a review without a uid")?,
        body: body.into_bytes(),
        allowed,
        patched: !change.polling,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn reviews() -> Vec<(Sample, Value)> {
        let corpus = corpus().unwrap();
        let parsed = |sample: &Sample| serde_json::from_slice(&sample.body).unwrap();
        corpus
            .iter()
            .map(|sample| (sample.clone(), parsed(sample)))
            .collect()
    }

    fn text<'a>(review: &'a Value, field: &str) -> &'a str {
        review
            .pointer(&format!("/request/object/spec/helm/{field}"))
            .map_or("", |text| text.as_str().unwrap())
    }

    fn one_in(share: usize, what: &str, is: impl Fn(&Sample, &Value) -> bool) {
        let reviews = reviews();
        let count = reviews
            .iter()
            .filter(|(sample, review)| is(sample, review))
            .count();
        assert_eq!(count * share, reviews.len(), "{what}");
    }

    #[test]
    fn the_shares_are_as_documented() {
        one_in(5, "invalid", |sample, _| !sample.allowed);
        one_in(2, "without a polling interval", |sample, _| sample.patched);
        one_in(3, "updates", |_, review| {
            review["request"]["operation"] == "UPDATE"
        });
    }

    #[test]
    fn an_update_has_an_old_object_that_differs() {
        for (_, review) in reviews() {
            let request = &review["request"];
            let update = request["operation"] == "UPDATE";
            assert_eq!(request["oldObject"].is_object(), update);
            assert_ne!(request["object"]["spec"], request["oldObject"]["spec"]);
        }
    }

    #[test]
    fn a_patch_is_expected_if_the_object_has_no_polling_interval() {
        for (sample, review) in reviews() {
            let interval = review.pointer("/request/object/spec/pollingInterval");
            assert_eq!(interval.is_none(), sample.patched);
        }
    }

    #[test]
    fn every_source_is_combined_with_every_operation_and_interval() {
        let combinations: BTreeSet<_> = reviews()
            .iter()
            .map(|(sample, review)| {
                let source = ["repo", "chart", "version"].map(|field| text(review, field).to_owned());
                let update = review["request"]["operation"] == "UPDATE";
                (sample.allowed, source, update, sample.patched)
            })
            .collect();
        assert_eq!(combinations.len(), (VALID.len() + INVALID.len()) * 2 * 2);
    }

    #[test]
    fn every_kind_of_invalid_chart_occurs_equally_often() {
        let problem = |review: &Value| {
            let (repo, chart, version) = (
                text(review, "repo"),
                text(review, "chart"),
                text(review, "version"),
            );
            let archive = chart.starts_with("https://");
            if archive && !repo.is_empty() {
                "an archive with a repository"
            } else if archive && !version.is_empty() {
                "an archive with a version"
            } else if repo.starts_with("oci://") && !chart.is_empty() {
                "OCI with a chart"
            } else if repo.is_empty() {
                "no repository"
            } else if chart.is_empty() {
                "no chart"
            } else {
                "a bad constraint"
            }
        };
        let invalid = reviews().into_iter().filter(|(sample, _)| !sample.allowed);
        let problems: Vec<_> = invalid.map(|(_, review)| problem(&review)).collect();
        let distinct: BTreeSet<_> = problems.iter().collect();
        assert_eq!(distinct.len(), 6, "{distinct:?}");
        assert_eq!(problems.len(), 6 * INVALID.len());
    }

    #[test]
    fn every_body_has_one_placeholder_as_its_uid() {
        for (sample, review) in reviews() {
            let body = std::str::from_utf8(&sample.body).unwrap();
            assert_eq!(body.matches(UID_PLACEHOLDER).count(), 1);
            assert_eq!(&body[sample.uid_at..sample.uid_at + 36], UID_PLACEHOLDER);
            assert_eq!(review["request"]["uid"], UID_PLACEHOLDER);
        }
    }

    #[test]
    fn bodies_have_the_size_of_those_in_a_cluster() {
        let corpus = corpus().unwrap();
        let mean = corpus.iter().map(|sample| sample.body.len()).sum::<usize>() / corpus.len();
        assert!((4_700..5_300).contains(&mean), "{mean} bytes");
    }

    #[test]
    fn the_corpus_is_always_the_same() {
        let (once, twice) = (corpus().unwrap(), corpus().unwrap());
        assert!(
            once.iter()
                .map(|sample| &sample.body)
                .eq(twice.iter().map(|sample| &sample.body))
        );
    }
}
