use super::*;

#[test]
fn a_url_is_split_into_its_parts() {
    let url = Url::parse("HTTPS://u:p@ss@h.example:8443/charts/a?token=x#f").unwrap();
    assert_eq!(url.userinfo, Some("u:p@ss"));
    assert_eq!(
        (url.host, url.path, url.query),
        ("h.example:8443", "/charts/a", Some("token=x"))
    );
    assert!(url.has_scheme("https"));
    assert_eq!(url.to_string(), "HTTPS://h.example:8443/charts/a?…");
    assert_eq!(Url::parse("http://[::1]:80").unwrap().host, "[::1]:80");
}

#[test]
fn an_invalid_url_is_rejected_with_its_error() {
    use UrlError::{BadHost, BadPort, ControlCharacter, NoHost, Relative};
    for (text, error) in [
        ("", Relative),
        ("charts.example.com", Relative),
        ("//charts.example.com", Relative),
        ("1http://a", Relative),
        ("https://", NoHost),
        ("https:///charts", NoHost),
        ("https://user@/charts", NoHost),
        ("https://:443/", NoHost),
        ("https://a b/", BadHost),
        ("https://[::1/", BadHost),
        ("https://[zz]/", BadHost),
        ("https://a:b/", BadPort),
        ("https://a:65536/", BadPort),
        ("https://a:-1/", BadPort),
        ("https://a\n/", ControlCharacter),
    ] {
        assert_eq!(Url::parse(text), Err(error), "{text}");
    }
}

#[test]
fn redacted_text_never_contains_credentials() {
    for text in [
        "https://u:secret@h/x?sig=secret",
        "u:secret@h",
        "https://u:secret@h:bad/x",
        "https://[bad/x?token=secret",
        "h/x?token=secret",
        "https://h:bad/x#secret",
        "https://u:sec?secret@[bad/x",
        "https://[bad?mail=me@example.com&token=secret",
        "https://h/\n?token=secret",
        "https://h,https://u:secret@h",
        "https://u:secret@h/https://v:secret@h/x?token=secret",
    ] {
        assert!(!redacted(text).contains("secret"), "{text}");
    }
    assert_eq!(redacted("not a url"), "not a url");
}

#[test]
fn redacted_invalid_urls_keep_the_text_before_the_query() {
    for (text, shown) in [
        ("https://[bad/x?token=1", "https://[bad/x?…"),
        ("u:p@h/x?token=1", "…@h/x?…"),
        ("h/x#y", "h/x"),
        ("https://u:p?q@[bad", "…"),
    ] {
        assert_eq!(redacted(text), shown, "{text}");
    }
}

#[test]
fn identities_differ_by_query_without_containing_it() {
    let a = identity("https://u:p@h/charts?channel=secret#x");
    assert!(
        a.starts_with("https://h/charts?…#") && !a.contains("secret"),
        "{a}"
    );
    assert_eq!(a, identity("https://u:rotated@h/charts?channel=secret"));
    assert_ne!(a, identity("https://h/charts?channel=beta"));
    assert_eq!(
        identity_without_digest(&a),
        redacted("https://h/charts?channel=beta")
    );
    for text in ["https://u:p@h/charts", "oci://h/web:1.0.0", "not a url"] {
        assert_eq!(identity(text), redacted(text));
    }
}
