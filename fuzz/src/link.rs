//! `Link`, and where it leads.

use helmops_shared::chart::{registry::link, url::Url};

const PAGE: &str = "https://registry.example.com:5000/v2/charts/web/tags/list?n=1000";

/// Each line is the value of a field. The first one is a reference, too.
pub fn check(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    if let Ok(Some(next)) = link::next(&values, PAGE) {
        check_next(&next);
    }
    if let Some(reference) = values.first().and_then(|line| std::str::from_utf8(line).ok()) {
        check_join(reference);
    }
}

/// It is another page of the same registry: for us, and for the HTTP client that reads URLs as browsers do.
fn check_next(next: &str) {
    let page = Url::parse(PAGE).expect("our own URL");
    let ours = Url::parse(next).expect("a URL to ask for");
    assert!(ours.is_same_origin(&page) && ours.userinfo.is_none(), "{next}");
    assert_ne!(next, PAGE);
    if let Ok(clients) = url::Url::parse(next) {
        let page = url::Url::parse(PAGE).expect("our own URL");
        assert_eq!(clients.origin(), page.origin(), "{next}");
        assert!(
            clients.username().is_empty() && clients.password().is_none(),
            "{next}"
        );
    }
}

/// An absolute URL stays what it is.
fn check_join(reference: &str) {
    let page = Url::parse(PAGE).expect("our own URL");
    if let Ok(joined) = page.join(reference) {
        assert_eq!(page.join(&joined).as_ref(), Ok(&joined), "{reference:?}");
        let url = Url::parse(&joined).expect("an absolute URL");
        assert!(url.userinfo.is_none(), "{reference:?}: {joined}");
        assert!(
            url.path
                .split('/')
                .all(|segment| segment != "." && segment != ".."),
            "{joined}"
        );
    }
}
