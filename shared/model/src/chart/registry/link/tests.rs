use super::*;

const PAGE: &str = "https://h:5000/v2/a/tags/list?n=1000";

fn followed(values: &[&str]) -> Result<Option<Url>, LinkError> {
    next(values, &Url::parse(PAGE).unwrap())
}

#[test]
fn the_link_to_the_next_page_is_found() {
    for (values, expected) in [
        (
            &["</v2/a/tags/list?n=1000&last=x>; rel=\"next\""][..],
            "https://h:5000/v2/a/tags/list?n=1000&last=x",
        ),
        (&["<https://H:5000/x>;rel=next"], "https://h:5000/x"),
        (
            &["<list?last=y> ; REL = \"prev NEXT\""],
            "https://h:5000/v2/a/tags/list?last=y",
        ),
        (
            &["<?last=z>; title=\"a, b; rel=\\\"prev\\\"\"; rel=next"],
            "https://h:5000/v2/a/tags/list?last=z",
        ),
        // Several links.
        (
            &["</p>; rel=prev, </n>; rel=\"next\", </l>; rel=last"],
            "https://h:5000/n",
        ),
        (
            &["</p>; rel=\"prev\"", ", </n>; rel=\"next\""],
            "https://h:5000/n",
        ),
        (&["</u>, </n>; rel=next"], "https://h:5000/n"),
        // No relation.
        (&["</u>"], "https://h:5000/u"),
        (&["</u>; title=x, </w>"], "https://h:5000/u"),
        // Flags, empty parameters, commas in the target.
        (
            &["</a,b?c=d;e>;;crossorigin;rel=next;"],
            "https://h:5000/a,b?c=d;e",
        ),
        (&["<https://u:secret@h:5000/n#f>; rel=next"], "https://h:5000/n"),
        // Of a registry behind a proxy.
        (&["<http://h:5000/n>; rel=next"], "https://h:5000/n"),
        // Tokens of pages are kept byte by byte.
        (
            &["</v2/a/tags/list?last=1.0.0_b%2B1&next_page=gAAA%3D%3D&n=1000>; rel=\"next\""],
            "https://h:5000/v2/a/tags/list?last=1.0.0_b%2B1&next_page=gAAA%3D%3D&n=1000",
        ),
        // As the HTTP client parses it.
        (
            &["<https://h:5000\\@evil.example/n>; rel=next"],
            "https://h:5000/@evil.example/n",
        ),
    ] {
        let next = followed(values).unwrap();
        assert_eq!(next.as_ref().map(Url::as_str), Some(expected), "{values:?}");
    }
}

#[test]
fn the_last_page_has_no_next_page() {
    for values in [
        &[][..],
        &[""],
        &[" , "],
        &["</p>; rel=prev"],
        &["</p>; rel=prev; rel=next"],
        &["</p>; rel=\"nextish\""],
        &["</p>; rel=\"\""],
        &["</n>; rel=next; anchor=\"/other\""],
    ] {
        assert_eq!(followed(values), Ok(None), "{values:?}");
    }
}

#[test]
fn an_invalid_link_is_an_error() {
    for value in [
        "/n; rel=next",
        "<",
        "</n",
        "</n> rel=next",
        "</n>; rel=\"next",
        "</n>; rel=\"next\"x",
        "</p>; rel=prev, x",
    ] {
        assert!(
            matches!(followed(&[value]), Err(LinkError::Malformed { .. })),
            "{value}"
        );
    }
    for target in ["https://", "//h:x/", "//h%2f.example/", "https://[zz]/"] {
        assert!(
            matches!(
                followed(&[&format!("<{target}>; rel=next")]),
                Err(LinkError::BadTarget { .. })
            ),
            "{target}"
        );
    }
}

#[test]
fn other_origins_are_not_followed() {
    for target in [
        "https://evil.example/n",
        "http://h/n",
        "http://h:80/n",
        "https://h/n",
        "https://h:443/n",
        "//evil.example/n",
        "https://h:5000@evil.example/n",
        r"https:\\evil.example/n",
        r"\\evil.example\n",
        "/\t/evil.example/n",
        "https:///n",
        "mailto:x",
        "oci://h:5000/n",
    ] {
        let error = followed(&[&format!("<{target}>; rel=next")]).unwrap_err();
        assert!(
            matches!(error, LinkError::ForeignOrigin { .. }),
            "{target}: {error:?}"
        );
    }
    let message = followed(&["<http://u:secret@evil.example/n?sig=secret>; rel=next"])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("evil.example") && !message.contains("secret"),
        "{message}"
    );
}

/// A page over plain HTTP stays on it, as the Secret of the HelmOp chooses.
#[test]
fn a_link_never_leads_from_one_scheme_to_the_other_port() {
    let page = Url::parse("http://h/v2/a/tags/list?n=1000").unwrap();
    let followed =
        |target: &str| next([format!("<{target}>; rel=next")], &page).map(|next| next.map(String::from));
    assert_eq!(followed("http://h/n"), Ok(Some("http://h/n".to_owned())));
    assert!(matches!(
        followed("https://h/n"),
        Err(LinkError::ForeignOrigin { .. })
    ));
}

#[test]
fn a_link_to_the_same_page_is_an_error() {
    for target in ["", "?n=1000", PAGE, "/v2/a/./tags/x/../list?n=1000", "#next"] {
        assert!(
            matches!(
                followed(&[&format!("<{target}>; rel=next")]),
                Err(LinkError::Loop { .. })
            ),
            "{target}"
        );
    }
}

#[test]
fn hostile_values_are_bounded() {
    let value = "</p>; rel=prev,".repeat(100);
    let values = vec![value.as_str(); 20];
    assert_eq!(followed(&values), Err(LinkError::TooLong));
    let Err(LinkError::Malformed { text }) = followed(&["x".repeat(1000).as_str()]) else {
        panic!("not the error Malformed")
    };
    assert!(text.len() <= MAX_QUOTED);
}
