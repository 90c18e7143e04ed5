//! `WWW-Authenticate`, and where it sends credentials to.

use helmops_shared::chart::{
    registry::{
        challenge::{self, Bearer, Scheme},
        endpoint::Transport,
        realm,
    },
    url::Url,
};

/// Each line is the value of a field.
pub fn check(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let all = challenge::parse(&values);
    // No value has a say in how another one is read.
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

/// Credentials go in the clear only where the registry itself is spoken to so, and to the host that we believe.
fn check_realm(bearer: &Bearer) {
    for (registry, schemes) in [
        (Transport::Https, &["https"][..]),
        (Transport::PlainHttp, &["https", "http"]),
    ] {
        let Ok(text) = realm::token_url(bearer, registry, "repository:a/b:pull") else {
            continue;
        };
        let ours = Url::parse(&text).expect("a URL to ask for");
        assert!(ours.userinfo.is_none(), "{text}");
        assert!(
            text.contains("scope=")
                || bearer
                    .scope
                    .as_deref()
                    .is_some_and(|scope| scope.trim().is_empty()),
            "{text}"
        );
        if let Ok(clients) = url::Url::parse(&text) {
            assert!(schemes.contains(&clients.scheme()), "{text}");
            assert!(
                clients.username().is_empty() && clients.password().is_none(),
                "{text}"
            );
        }
    }
}
