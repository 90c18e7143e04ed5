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

/// The examples of RFC 3986, section 5.4, without fragments.
#[test]
fn references_are_resolved_as_in_rfc_3986() {
    let base = Url::parse("http://u:p@a/b/c/d;p?q").unwrap();
    for (reference, expected) in [
        ("g:h", Err(UrlError::Relative)),
        ("g", Ok("http://a/b/c/g")),
        ("./g", Ok("http://a/b/c/g")),
        ("g/", Ok("http://a/b/c/g/")),
        ("/g", Ok("http://a/g")),
        ("//g", Ok("http://g")),
        ("?y", Ok("http://a/b/c/d;p?y")),
        ("g?y", Ok("http://a/b/c/g?y")),
        ("#s", Ok("http://a/b/c/d;p?q")),
        ("g?y#s", Ok("http://a/b/c/g?y")),
        (";x", Ok("http://a/b/c/;x")),
        ("g;x?y#s", Ok("http://a/b/c/g;x?y")),
        ("", Ok("http://a/b/c/d;p?q")),
        (".", Ok("http://a/b/c/")),
        ("./", Ok("http://a/b/c/")),
        ("..", Ok("http://a/b/")),
        ("../", Ok("http://a/b/")),
        ("../g", Ok("http://a/b/g")),
        ("../..", Ok("http://a/")),
        ("../../", Ok("http://a/")),
        ("../../g", Ok("http://a/g")),
        ("../../../g", Ok("http://a/g")),
        ("../../../../g", Ok("http://a/g")),
        ("/./g", Ok("http://a/g")),
        ("/../g", Ok("http://a/g")),
        ("g.", Ok("http://a/b/c/g.")),
        (".g", Ok("http://a/b/c/.g")),
        ("g..", Ok("http://a/b/c/g..")),
        ("..g", Ok("http://a/b/c/..g")),
        ("./../g", Ok("http://a/b/g")),
        ("./g/.", Ok("http://a/b/c/g/")),
        ("g/./h", Ok("http://a/b/c/g/h")),
        ("g/../h", Ok("http://a/b/c/h")),
        ("g;x=1/./y", Ok("http://a/b/c/g;x=1/y")),
        ("g;x=1/../y", Ok("http://a/b/c/y")),
        ("g?y/./x", Ok("http://a/b/c/g?y/./x")),
        ("g?y/../x", Ok("http://a/b/c/g?y/../x")),
        // More than the examples.
        ("https://u:p@h:1/x/../y?z", Ok("https://h:1/y?z")),
        ("//g:x/", Err(UrlError::BadPort)),
        ("x y:z", Ok("http://a/b/c/x y:z")),
        ("/a//b", Ok("http://a/a//b")),
        ("/a\n", Err(UrlError::ControlCharacter)),
    ] {
        assert_eq!(
            base.join(reference).as_deref(),
            expected.as_deref(),
            "{reference}"
        );
    }
    let root = Url::parse("http://a").unwrap();
    assert_eq!(root.join("g").as_deref(), Ok("http://a/g"));
    assert_eq!(root.join("?y").as_deref(), Ok("http://a?y"));
}

#[test]
fn the_default_port_belongs_to_the_same_origin() {
    for (a, b, same) in [
        ("https://h/x", "HTTPS://H:443", true),
        ("http://h", "http://h:80/", true),
        ("http://h:", "http://h:80/", true),
        ("https://u@h:5000/", "https://h:5000/y?z", true),
        ("https://[::1]/", "https://[::1]:443/", true),
        ("https://[::1]:1/", "https://[::1]:2/", false),
        ("https://h/", "http://h/", false),
        ("https://h:443/", "http://h:443/", false),
        ("https://h/", "https://h:80/", false),
        ("https://h/", "https://h.evil/", false),
        ("oci://h/", "oci://h:443/", false),
    ] {
        let (a, b) = (Url::parse(a).unwrap(), Url::parse(b).unwrap());
        assert_eq!(a.is_same_origin(&b), same, "{a} {b}");
        assert_eq!(b.is_same_origin(&a), same, "{b} {a}");
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
