//! Polls: what they find besides the version, without further requests.

use helm_index::Outlook;
use helmops_runtime::error_class::ClassifiedError;

use super::{
    fixture::{TestResolver, anonymous, over_plain_http, reference},
    responses::{indexed, registry},
    server::Server,
};

fn outlook(newer: Option<&str>, is_withdrawn: bool) -> Outlook {
    Outlook {
        newer: newer.map(str::to_owned),
        is_deprecated: false,
        is_withdrawn,
    }
}

#[tokio::test]
async fn an_index_is_read_once_for_the_version_and_what_else_it_says() {
    let versions = ["1.0.0", "2.0.0", "1.1.0"];
    let server = Server::http(move |_| indexed(&[], &versions)).await;
    let resolver = TestResolver::new();
    let (version, found) = resolver
        .polled_repository(&server.url(), "1.x", "1.2.0")
        .await
        .unwrap();
    assert_eq!(
        (&*version.unwrap().version, found),
        ("1.1.0", outlook(Some("2.0.0"), true))
    );
    resolver.assert_idle(1);
}

#[tokio::test]
async fn a_list_without_a_match_says_so_too() {
    let server = Server::http(move |_| indexed(&[], &["2.0.0"])).await;
    let resolver = TestResolver::new();
    let (version, found) = resolver
        .polled_repository(&server.url(), "1.x", "1.2.0")
        .await
        .unwrap();
    assert_eq!(version.unwrap_err().reason().as_str(), "NoMatchingVersion");
    assert_eq!(found, outlook(Some("2.0.0"), true));
}

#[tokio::test]
async fn tags_are_read_once_and_only_for_a_range() {
    let access = over_plain_http(anonymous());
    let all = ["latest", "1.0.0", "1.1.0", "2.0.0"];
    for (version, requests, expected) in [
        ("1.x", 2, Some(outlook(Some("2.0.0"), false))),
        ("1.0.0", 1, None),
    ] {
        let server = Server::http(move |head| registry(head, &all)).await;
        let resolver = TestResolver::new();
        let polled = resolver
            .polled_registry(&access, &reference(&server), version, "1.0.0")
            .await;
        let (selected, found) = polled.unwrap();
        assert!(selected.is_ok());
        assert_eq!(found, expected, "{version}");
        resolver.assert_idle(requests);
    }
}
