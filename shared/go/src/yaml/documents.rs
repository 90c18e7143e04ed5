//! The documents of a text.

/// Splits at lines that start with `---`, as Kubernetes does. What follows on such a line is dropped.
pub fn documents(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            if line.starts_with("---") {
                let (document, after) = text.split_at(offset);
                rest = after.get(line.len()..);
                return Some(document);
            }
            offset += line.len();
        }
        rest = None;
        Some(text)
    })
}
