//! `WWW-Authenticate`, and the URL to which credentials are sent.

use helmops_model::chart::registry::{challenge::{self, Bearer, Scheme}, endpoint::Transport, realm};

/// Each line is a header value.
pub fn check(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let all = challenge::parse(&values);
    // Values are parsed independently of each other.
    let mut one_by_one = Vec::new();
    for value in &values {
        one_by_one.extend(challenge::parse([value]));
    }
    one_by_one.truncate(all.len());
    assert_eq!(all, one_by_one);
    for challenge in &all {
        assert!(challenge.has_scheme(&challenge.scheme) && !challenge.scheme.is_empty());
    }
    if let Ok(Scheme::Bearer(bearer)) = challenge::pick(&all) {
        check_realm(&bearer);
    }
}

/// Credentials are sent in plain text only if the registry itself uses plain HTTP, and never in the URL.
fn check_realm(bearer: &Bearer) {
    for (registry, schemes) in [
        (Transport::Https, &["https"][..]),
        (Transport::PlainHttp, &["https", "http"]),
    ] {
        let Ok(url) = realm::token_url(bearer, registry, "repository:a/b:pull") else {
            continue;
        };
        assert!(schemes.contains(&url.scheme()), "{url}");
        assert!(url.username().is_empty() && url.password().is_none(), "{url}");
        assert!(
            url.as_str().contains("scope=")
                || bearer
                    .scope
                    .as_deref()
                    .is_some_and(|scope| scope.trim().is_empty()),
            "{url}"
        );
    }
}
