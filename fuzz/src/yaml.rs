//! YAML: what is read can be printed and read again, with the same meaning, and positions are in the text.

use go_formats::yaml::{Quota, emit_exact, place::{Content, Place, Span}, read, read_exact, read_located};

/// The text is a document.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let quota = || Quota::new(20_000, 1 << 20);
    let exact = read_exact(&text, &mut quota());
    let located = read_located(&text, &mut quota());
    match (&exact, &located) {
        (Ok(value), Ok(located)) => {
            assert_eq!(value, &located.value, "{text:?}");
            if let Some(place) = &located.place {
                check_place(place, &text);
            }
        }
        (Err(error), Err(located)) => {
            assert_eq!(error, &located.error, "{text:?}");
            assert!(text.is_char_boundary(located.at), "{text:?}: {located:?}");
        }
        _ => panic!("{text:?}: {exact:?}, {located:?}"),
    }
    if let Ok(value) = exact {
        // Only the depth differs.
        if let Err(error) = read(&text, &mut quota()) {
            assert!(error.to_string().contains("deep"), "{text:?}: {error}");
        }
        let printed = emit_exact(&value).expect("short texts are short when they are printed");
        let again = read_exact(&printed, &mut Quota::new(100_000, 16 << 20));
        assert_eq!(again.as_ref(), Ok(&value), "{printed:?}");
    }
}

fn check_place(place: &Place, text: &str) {
    check_span(place.span, text);
    if let Some(alias) = place.alias {
        check_span(alias, text);
    }
    match &place.content {
        Content::Scalar => {}
        Content::List(items) => items.iter().for_each(|item| check_place(item, text)),
        Content::Mapping(entries) => {
            for entry in entries.values() {
                check_span(entry.key, text);
                entry.replaced.iter().for_each(|key| check_span(*key, text));
                check_place(&entry.value, text);
            }
        }
    }
}

fn check_span(span: Span, text: &str) {
    assert!(text.get(span.start..span.end).is_some(), "{text:?}: {span:?}");
}
