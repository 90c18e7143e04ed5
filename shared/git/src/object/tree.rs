//! The entries of a folder.

use helmops_chart::EntryKind;

use super::{ObjectFormat, ObjectId};

/// The bits of a mode that say what an entry is. The others are permissions.
const KIND: u32 = 0o170_000;

/// An entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// Its name, in any encoding.
    pub name: &'a [u8],
    /// The object that has its content.
    pub id: ObjectId,
}

/// The entries of a folder, in their order there; `None` if one is malformed, or has a name that is none.
pub fn entries(format: ObjectFormat, mut content: &[u8]) -> Option<Vec<TreeEntry<'_>>> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let (entry, rest) = entry(format, content)?;
        entries.push(entry);
        content = rest;
    }
    Some(entries)
}

fn entry(format: ObjectFormat, content: &[u8]) -> Option<(TreeEntry<'_>, &[u8])> {
    let (mode, rest) = until(content, b' ')?;
    let (name, rest) = until(rest, 0)?;
    let (id, rest) = rest.split_at_checked(format.len())?;
    let is_name = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
    let entry = TreeEntry {
        kind: kind(mode).filter(|_| is_name)?,
        name,
        id: ObjectId::from_bytes(format, id)?,
    };
    Some((entry, rest))
}

fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == end)?;
    let (before, rest) = bytes.split_at(at);
    Some((before, rest.split_first()?.1))
}

fn kind(mode: &[u8]) -> Option<EntryKind> {
    let mode = std::str::from_utf8(mode).ok().filter(|mode| mode.len() <= 7)?;
    // As Git does: imports have all kinds of permissions.
    match u32::from_str_radix(mode, 8).ok()? & KIND {
        0o040_000 => Some(EntryKind::Folder),
        0o100_000 => Some(EntryKind::File),
        0o120_000 => Some(EntryKind::Link),
        0o160_000 => Some(EntryKind::Submodule),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mode: &str, name: &str) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), &[0], &[7; 20]].concat()
    }

    #[test]
    fn entries_have_a_kind_and_a_name() {
        let all = [
            ("100644", "Chart.yaml", EntryKind::File),
            ("100755", "run.sh", EntryKind::File),
            ("100640", "imported", EntryKind::File),
            ("100444", "read-only", EntryKind::File),
            ("40000", "templates", EntryKind::Folder),
            ("040755", "imported-folder", EntryKind::Folder),
            ("120000", "link", EntryKind::Link),
            ("160000", "module", EntryKind::Submodule),
        ];
        let content: Vec<u8> = all.iter().flat_map(|(mode, name, _)| line(mode, name)).collect();
        let read = entries(ObjectFormat::Sha1, &content).unwrap();
        let read: Vec<_> = read.iter().map(|entry| (entry.name, entry.kind)).collect();
        let expected: Vec<_> = all
            .iter()
            .map(|(_, name, kind)| (name.as_bytes(), *kind))
            .collect();
        assert_eq!(read, expected);
        assert_eq!(entries(ObjectFormat::Sha1, b""), Some(Vec::new()));
    }

    #[test]
    fn a_malformed_folder_is_none() {
        for content in [
            line("100644", ""),
            line("100644", "."),
            line("40000", ".."),
            line("100644", "a/b"),
            line("777", "a"),
            line("100644", "a")[..25].to_vec(),
            b"100644 a".to_vec(),
            b"100644".to_vec(),
        ] {
            assert_eq!(entries(ObjectFormat::Sha1, &content), None, "{content:?}");
        }
    }
}
