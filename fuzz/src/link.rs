//! `Link`, and the URL of the next page.

use helmops_core::chart::{registry::link, url::Url};

const PAGE: &str = "https://registry.example.com:5000/v2/charts/web/tags/list?n=1000";

/// Each line is a header value. The first one is also used as a URL reference.
pub fn check(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    if let Ok(Some(next)) = link::next(&values, PAGE) {
        check_next(&next);
    }
    if let Some(reference) = values.first().and_then(|line| std::str::from_utf8(line).ok()) {
        check_join(reference);
    }
}

/// The next page is another page of the same registry: for us, and for the HTTP client, which parses URLs like browsers.
fn check_next(next: &str) {
    let page = Url::parse(PAGE).expect("PAGE is a valid URL");
    let ours = Url::parse(next).expect("next returns a valid URL");
    assert!(ours.is_same_origin(&page) && ours.userinfo.is_none(), "{next}");
    assert_ne!(next, PAGE);
    if let Ok(parsed_by_client) = url::Url::parse(next) {
        let page = url::Url::parse(PAGE).expect("PAGE is a valid URL");
        assert_eq!(parsed_by_client.origin(), page.origin(), "{next}");
        assert!(
            parsed_by_client.username().is_empty() && parsed_by_client.password().is_none(),
            "{next}"
        );
    }
}

/// Joining an absolute URL returns it unchanged.
fn check_join(reference: &str) {
    let page = Url::parse(PAGE).expect("PAGE is a valid URL");
    if let Ok(joined) = page.join(reference) {
        assert_eq!(page.join(&joined).as_ref(), Ok(&joined), "{reference:?}");
        let url = Url::parse(&joined).expect("join returns a valid URL");
        assert!(url.userinfo.is_none(), "{reference:?}: {joined}");
        assert!(
            url.path
                .split('/')
                .all(|segment| segment != "." && segment != ".."),
            "{joined}"
        );
    }
}
