use helm_index::OverBudget;
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError, Scope, classified};
use reqwest::header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};

use super::*;

#[test]
fn archive_urls_are_relative_to_the_index_or_absolute() {
    let access = Access::default();
    let source = IndexSource::new("https://u:geheim@h/charts?token=geheim", &access).unwrap();
    assert_eq!(
        recorded_url(&source.url, "web-1.0.0.tgz"),
        "https://h/charts/web-1.0.0.tgz"
    );
    assert_eq!(
        recorded_url(&source.url, "https://cdn/web-1.0.0.tgz?sig=geheim"),
        "https://cdn/web-1.0.0.tgz?…"
    );
    assert!(!source.display_url().contains("geheim"));
}

#[test]
fn an_invalid_archive_url_is_not_recorded() {
    let access = Access::default();
    let source = IndexSource::new("https://h/charts", &access).unwrap();
    for text in [
        "https://[bad\u{7}\u{1b}[31m/web.tgz",
        "https://u:geheim@h:99999/web.tgz",
        "http://",
    ] {
        assert_eq!(recorded_url(&source.url, text), "", "{text:?}");
    }
    for text in ["web\n\u{1b}[31m.tgz", "https://cdn/\u{7}.tgz"] {
        let archive = recorded_url(&source.url, text);
        assert!(
            !archive.is_empty() && !archive.contains(char::is_control),
            "{archive:?}"
        );
    }
}

#[test]
fn an_invalid_digest_is_not_recorded() {
    let sha = "0".repeat(64);
    assert_eq!(digest(&sha), sha);
    assert_eq!(digest(&format!("sha256:{sha}")), format!("sha256:{sha}"));
    for text in ["\u{1b}[31m", "a b", "ä", &"a".repeat(257)] {
        assert_eq!(digest(text), "", "{text:?}");
    }
}

#[test]
fn entity_tags_are_repeated_byte_by_byte() {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, HeaderValue::from_bytes(b"no quotes \xff").unwrap());
    let sent = validators(&headers);
    assert_eq!(sent.get(IF_NONE_MATCH).unwrap().as_bytes(), b"no quotes \xff");
    assert_eq!(sent.len(), 1);
}

#[test]
fn every_error_has_a_reason_and_a_class() {
    let url = || "https://h/index.yaml".to_owned();
    let fetch = FetchError::new(&url(), FetchErrorKind::ConnectionRefused);
    let index = |source| RepositoryError::Index {
        url: url(),
        source: Arc::new(source),
    };
    let select = RepositoryError::Select {
        url: url(),
        source: SelectError::NoVersions { chart: url() },
    };
    for (error, reason, class) in [
        (
            RepositoryError::Fetch(fetch),
            Reason::ConnectionFailed,
            Class::Transient(Scope::Host),
        ),
        (
            index(IndexError::NoSuchChart(url())),
            Reason::ChartNotFound,
            Class::Absent,
        ),
        (
            index(IndexError::OverBudget(OverBudget)),
            Reason::Busy,
            Class::Transient(Scope::Namespace),
        ),
        (select, Reason::NoMatchingVersion, Class::Absent),
    ] {
        assert_eq!(error.classify(), classified(reason, class), "{error}");
    }
}
