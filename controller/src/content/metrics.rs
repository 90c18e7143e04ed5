//! The gauges of Contents. They are computed from the cache at each scrape.

use std::fmt::Write;

use crate::watch::Contents;

/// Writes the gauges.
pub fn expose(contents: &Contents, text: &mut String) {
    let (objects, bytes) = contents.size();
    for (name, help, value) in [
        (
            "helmops_content_objects",
            "Content objects that helmops has written into the management cluster.",
            objects as u64,
        ),
        (
            "helmops_content_bytes",
            "Bytes that are stored in them, compressed.",
            bytes,
        ),
    ] {
        // Writing into a String does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
}

#[cfg(test)]
mod tests {
    use helmops_core::content::StoredContent;

    use super::*;

    #[test]
    fn objects_and_bytes_are_counted() {
        let contents = Contents::listed();
        for (name, bytes) in [("a", 5), ("b", 7)] {
            contents.wrote(StoredContent {
                name: name.to_owned(),
                bytes,
                ..StoredContent::default()
            });
        }
        let mut text = String::new();
        expose(&contents, &mut text);
        assert!(
            text.contains("\nhelmops_content_objects 2\n") && text.ends_with("\nhelmops_content_bytes 12\n")
        );
    }
}
