//! Lists of tags with several pages.

use helmops_model::{chart::registry::tags_page::MAX_PAGES, reason::Reason};
use helmops_runtime::error_class::Class;

use super::{
    fixture::{TestResolver, anonymous, assert_fails, over_plain_http, reference, version},
    responses::{manifest, tags},
    server::{Reply, RequestHead, Server},
};

fn linked(target: &str, all: &[&str]) -> Reply {
    tags(&[("Link", &format!("<{target}>; rel=\"next\""))], all)
}

async fn resolve(
    script: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static,
) -> (TestResolver, Server, super::fixture::ResolveResult) {
    let server = Server::http(script).await;
    let resolver = TestResolver::new();
    let outcome = resolver
        .registry(&over_plain_http(anonymous()), &reference(&server), "")
        .await;
    resolver.assert_idle(server.requests().len() as u64);
    (resolver, server, outcome)
}

#[tokio::test]
async fn all_forms_of_links_are_followed() {
    let next = "/v2/web/tags/list?n=1000&last=1.0.0";
    let forms: [fn(&str, &str) -> String; 4] = [
        |_, next| next.to_owned(),
        |host, next| format!("http://{host}{next}"),
        |host, next| format!("//{host}{next}"),
        |_, next| next.trim_start_matches("/v2/web/tags/").to_owned(),
    ];
    for form in forms {
        let script = move |head: &RequestHead| match head.nth {
            0 => linked(&form(head.host(), next), &["1.0.0"]),
            1 => tags(&[], &["1.1.0"]),
            _ => manifest(),
        };
        let (resolver, server, outcome) = resolve(script).await;
        assert_eq!(version(outcome), "1.1.0", "the newest is on the second page");
        let lines = [
            "GET /v2/web/tags/list?n=1000",
            &format!("GET {next}"),
            "HEAD /v2/web/manifests/1.1.0",
        ];
        assert_eq!(server.lines(), lines);
        assert_eq!(resolver.requests("tags", "success"), 2);
    }
}

#[tokio::test]
async fn an_endless_list_is_aborted() {
    let script = |head: &RequestHead| linked(&format!("/v2/web/tags/list?last={}", head.nth), &["1.0.0"]);
    let (resolver, server, outcome) = resolve(script).await;
    let expected = [&*server.host(), "more than 100 pages", "use an exact version"];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    assert_eq!(server.requests().len(), MAX_PAGES);
    assert_eq!(resolver.requests("tags", "success"), MAX_PAGES as u64);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_list_that_leads_back_to_an_earlier_page_is_aborted() {
    let script = |head: &RequestHead| {
        let next = match head.nth {
            0 => "/v2/web/tags/list?last=1.0.0",
            1 => "/v2/web/tags/list?last=1.1.0",
            _ => "/v2/web/tags/list?n=1000",
        };
        linked(next, &["1.0.0"])
    };
    let (_, server, outcome) = resolve(script).await;
    let expected = [&*server.host(), "leads back to", "tags/list"];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn links_to_another_origin_or_repository_are_not_followed() {
    let other = Server::http(|_| tags(&[], &["6.6.6"])).await;
    let targets = [
        format!("{}/v2/web/tags/list?last=1.0.0", other.url()),
        format!("//localhost:{}/v2/web/tags/list", other.port()),
        "https://registry.example.com/v2/web/tags/list".to_owned(),
    ];
    for target in targets {
        let (_, server, outcome) = resolve(move |_| linked(&target, &["1.0.0"])).await;
        let expected = [
            &*server.host(),
            "the next page of the tag list has a URL that cannot be used",
            "leads to",
        ];
        assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
        assert_eq!(server.requests().len(), 1);
    }
    assert!(other.lines().is_empty());
}

#[tokio::test]
async fn links_to_the_same_page_and_invalid_links_are_errors() {
    for (link, expected) in [
        ("</v2/web/tags/list?n=1000>; rel=\"next\"", "leads back"),
        ("not a link", "cannot be read"),
        (
            "<file:///etc/passwd>; rel=\"next\"",
            "the next page of the tag list has a URL that cannot be used",
        ),
    ] {
        let (_, server, outcome) = resolve(move |_| tags(&[("Link", link)], &["1.0.0"])).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Class::Absent,
            &[&server.host(), expected],
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_incomplete_list_is_not_used() {
    let script = |head: &RequestHead| match head.nth {
        0 => linked("/v2/web/tags/list?last=1.0.0", &["1.0.0"]),
        _ => super::server::response(200, &[], "<html>"),
    };
    let (_, server, outcome) = resolve(script).await;
    let expected = [&*server.host(), "is not JSON"];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
}
