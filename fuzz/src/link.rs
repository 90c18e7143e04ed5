//! `Link`, and the URL of the next page.

use helmops_model::chart::registry::link;
use url::Url;

const PAGE: &str = "https://registry.example.com:5000/v2/charts/web/tags/list?n=1000";

/// Each line is a header value.
pub fn check(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let page = Url::parse(PAGE).expect("PAGE is a valid URL");
    if let Ok(Some(next)) = link::next(&values, &page) {
        // The next page is another page of the same registry.
        assert_eq!(next.origin(), page.origin(), "{next}");
        assert!(next.username().is_empty() && next.password().is_none(), "{next}");
        assert_ne!(next, page);
    }
}
