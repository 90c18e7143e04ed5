use super::*;

const PAGE: &str = "https://h:5000/v2/a/tags/list?n=1000";

fn followed(values: &[&str]) -> Result<Option<String>, LinkError> {
    next(values, PAGE)
}

#[test]
fn finds_the_next_page() {
    for (values, expected) in [
        (
            &["</v2/a/tags/list?n=1000&last=x>; rel=\"next\""][..],
            "https://h:5000/v2/a/tags/list?n=1000&last=x",
        ),
        (&["<https://H:5000/x>;rel=next"], "https://H:5000/x"),
        (
            &["<list?last=y> ; REL = \"prev NEXT\""],
            "https://h:5000/v2/a/tags/list?last=y",
        ),
        (
            &["<?last=z>; title=\"a, b; rel=\\\"prev\\\"\"; rel=next"],
            "https://h:5000/v2/a/tags/list?last=z",
        ),
        // Among several.
        (
            &["</p>; rel=prev, </n>; rel=\"next\", </l>; rel=last"],
            "https://h:5000/n",
        ),
        (
            &["</p>; rel=\"prev\"", ", </n>; rel=\"next\""],
            "https://h:5000/n",
        ),
        (&["</u>, </n>; rel=next"], "https://h:5000/n"),
        // No relation at all.
        (&["</u>"], "https://h:5000/u"),
        (&["</u>; title=x, </w>"], "https://h:5000/u"),
        // Flags, empty parameters, commas inside of the target.
        (
            &["</a,b?c=d;e>;;crossorigin;rel=next;"],
            "https://h:5000/a,b?c=d;e",
        ),
        (&["<https://u:secret@h:5000/n#f>; rel=next"], "https://h:5000/n"),
    ] {
        assert_eq!(followed(values).unwrap().as_deref(), Some(expected), "{values:?}");
    }
}

#[test]
fn the_last_page_has_none() {
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
fn a_link_that_cannot_be_read_is_not_the_end() {
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
    for target in ["https://", "mailto:x", "//h:x/", "/a\u{1}b", "https:///n"] {
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
        "http://h:5000/n",
        "https://h/n",
        "https://h:443/n",
        "//evil.example/n",
        "https://h:5000@evil.example/n",
        "https://h:5000\\@evil.example/n",
        "oci://h:5000/n",
    ] {
        let error = followed(&[&format!("<{target}>; rel=next")]).unwrap_err();
        assert!(
            matches!(error, LinkError::ForeignOrigin { .. }),
            "{target}: {error:?}"
        );
    }
    let told = followed(&["<http://u:secret@evil.example/n?sig=secret>; rel=next"])
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("evil.example") && !told.contains("secret"),
        "{told}"
    );
}

#[test]
fn no_way_back_to_the_same_page() {
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
        panic!("malformed")
    };
    assert!(text.len() <= MAX_TOLD);
}
