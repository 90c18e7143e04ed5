//! Lists of tags on several pages.

use helmops_shared::{chart::registry::tags_page::MAX_PAGES, reason::Reason};

use super::{
    answers::{manifest, tags},
    asking::{Asking, anonymous, assert_fails, in_the_clear, reference, version},
    rig::{Head, Reply, Server},
};
use crate::backoff::Pace;

fn linked(target: &str, all: &[&str]) -> Reply {
    tags(&[("Link", &format!("<{target}>; rel=\"next\""))], all)
}

async fn asked(
    script: impl Fn(&Head) -> Reply + Send + Sync + 'static,
) -> (Asking, Server, super::asking::Outcome) {
    let server = Server::http(script).await;
    let asking = Asking::new();
    let outcome = asking
        .registry(&in_the_clear(anonymous()), &reference(&server), "")
        .await;
    asking.assert_idle(server.heads().len() as u64);
    (asking, server, outcome)
}

#[tokio::test]
async fn links_of_all_forms() {
    let next = "/v2/web/tags/list?n=1000&last=1.0.0";
    let forms: [fn(&str, &str) -> String; 4] = [
        |_, next| next.to_owned(),
        |host, next| format!("http://{host}{next}"),
        |host, next| format!("//{host}{next}"),
        |_, next| next.trim_start_matches("/v2/web/tags/").to_owned(),
    ];
    for form in forms {
        let script = move |head: &Head| match head.nth {
            0 => linked(&form(head.host(), next), &["1.0.0"]),
            1 => tags(&[], &["1.1.0"]),
            _ => manifest(),
        };
        let (asking, server, outcome) = asked(script).await;
        assert_eq!(version(outcome), "1.1.0", "the newest is on the second page");
        let lines = [
            "GET /v2/web/tags/list?n=1000",
            &format!("GET {next}"),
            "HEAD /v2/web/manifests/1.1.0",
        ];
        assert_eq!(server.lines(), lines);
        assert_eq!(asking.requests("tags", "success"), 2);
    }
}

#[tokio::test]
async fn without_end() {
    let script = |head: &Head| linked(&format!("/v2/web/tags/list?last={}", head.nth), &["1.0.0"]);
    let (asking, server, outcome) = asked(script).await;
    let words = [&*server.host(), "more than 100 pages", "use an exact version"];
    assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
    assert_eq!(server.heads().len(), MAX_PAGES);
    assert_eq!(asking.requests("tags", "success"), MAX_PAGES as u64);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn to_another_place() {
    let other = Server::http(|_| tags(&[], &["6.6.6"])).await;
    let places = [
        format!("{}/v2/web/tags/list?last=1.0.0", other.url()),
        format!("//localhost:{}/v2/web/tags/list", other.port()),
        "https://registry.example.com/v2/web/tags/list".to_owned(),
    ];
    for place in places {
        let (_, server, outcome) = asked(move |_| linked(&place, &["1.0.0"])).await;
        let words = [
            &*server.host(),
            "the next page of the tag list has a URL that cannot be used",
            "leads to",
        ];
        assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
        assert_eq!(server.heads().len(), 1);
    }
    assert!(other.lines().is_empty());
}

#[tokio::test]
async fn to_itself_and_to_nowhere() {
    for (link, words) in [
        ("</v2/web/tags/list?n=1000>; rel=\"next\"", "leads back"),
        ("not a link", "cannot be read"),
        (
            "<file:///etc/passwd>; rel=\"next\"",
            "the next page of the tag list has a URL that cannot be used",
        ),
    ] {
        let (_, server, outcome) = asked(move |_| tags(&[("Link", link)], &["1.0.0"])).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Pace::SLOW,
            &[&server.host(), words],
        );
        assert_eq!(server.heads().len(), 1);
    }
}

#[tokio::test]
async fn a_part_of_the_list_is_no_list() {
    let script = |head: &Head| match head.nth {
        0 => linked("/v2/web/tags/list?last=1.0.0", &["1.0.0"]),
        _ => super::rig::answer(200, &[], "<html>"),
    };
    let (_, server, outcome) = asked(script).await;
    let words = [&*server.host(), "is not JSON"];
    assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
}
