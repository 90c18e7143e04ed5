//! What a commit or an annotated tag points to.

use super::{ObjectId, ObjectKind};

/// What a commit or a tag points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// The folder of a commit.
    Tree(ObjectId),
    /// The object of a tag, which may be a tag too.
    Object(ObjectId),
}

/// What an object points to; `None` if it is no commit or tag, or is malformed.
pub fn pointer(kind: ObjectKind, content: &[u8]) -> Option<Pointer> {
    let line = content.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    match kind {
        ObjectKind::Commit => ObjectId::from_hex(line.strip_prefix("tree ")?).map(Pointer::Tree),
        ObjectKind::Tag => ObjectId::from_hex(line.strip_prefix("object ")?).map(Pointer::Object),
        ObjectKind::Tree | ObjectKind::Blob => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_name() {
        let name = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        let id = ObjectId::from_hex(name).unwrap();
        for (kind, text, expected) in [
            (
                ObjectKind::Commit,
                format!("tree {name}\nauthor x\n\ntree other"),
                Some(Pointer::Tree(id)),
            ),
            (
                ObjectKind::Tag,
                format!("object {name}\ntype commit\n"),
                Some(Pointer::Object(id)),
            ),
            (ObjectKind::Commit, format!("object {name}\n"), None),
            (ObjectKind::Commit, "tree abc\n".to_owned(), None),
            (ObjectKind::Blob, format!("tree {name}\n"), None),
            (ObjectKind::Commit, String::new(), None),
        ] {
            assert_eq!(pointer(kind, text.as_bytes()), expected, "{text}");
        }
    }
}
