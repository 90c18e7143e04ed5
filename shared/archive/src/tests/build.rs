//! Builds archives: what `helm package` writes, and what it never would.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use tar::{EntryType, Header};

use crate::{ArchiveError, Chart, Limits};

pub const CHART_YAML: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";

/// A tar archive that is written entry by entry, whether it is valid or not.
#[derive(Clone, Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// With a `Chart.yaml`.
    pub fn chart() -> Self {
        Self::default().file("web/Chart.yaml", CHART_YAML)
    }

    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Regular, path, content.as_ref())
    }

    pub fn entry(self, kind: EntryType, path: impl AsRef<[u8]>, content: &[u8]) -> Self {
        self.with(content, |header| {
            header.set_entry_type(kind);
            set_path(header, path.as_ref());
        })
    }

    /// A symbolic or hard link.
    pub fn link(self, kind: EntryType, path: &str, target: &str) -> Self {
        self.with(b"", |header| {
            header.set_entry_type(kind);
            set_path(header, path.as_bytes());
            header.set_link_name(target).unwrap();
        })
    }

    /// A file whose path is in a header of POSIX.
    pub fn pax(self, records: &[(&str, &str)], path: &str, content: &[u8]) -> Self {
        let text: String = records
            .iter()
            .map(|(key, value)| pax_record(key, value))
            .collect();
        self.entry(EntryType::XHeader, "PaxHeaders/x", text.as_bytes())
            .entry(EntryType::Regular, path, content)
    }

    /// An entry whose header is changed before its checksum is computed.
    pub fn with(mut self, content: &[u8], change: impl FnOnce(&mut Header)) -> Self {
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        header.set_entry_type(EntryType::Regular);
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.pad()
    }

    fn pad(mut self) -> Self {
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Bytes that are no entry.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Without the last bytes.
    pub fn without_last(mut self, bytes: usize) -> Self {
        self.0.truncate(self.0.len() - bytes);
        self
    }

    pub fn tgz(self) -> Vec<u8> {
        gzip(&self.raw(&[0; 1024]).0)
    }

    /// Without the end of the archive.
    pub fn tgz_as_is(&self) -> Vec<u8> {
        gzip(&self.0)
    }

    pub fn raw_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Sets the path without the checks of the crate.
fn set_path(header: &mut Header, path: &[u8]) {
    let name = &mut header.as_old_mut().name;
    name.fill(0);
    name[..path.len()].copy_from_slice(path);
}

/// `length key=value`, in which the length counts itself.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len() + 1;
    while len != rest.len() + len.to_string().len() {
        len = rest.len() + len.to_string().len();
    }
    format!("{len}{rest}")
}

/// Bytes that cannot be compressed.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    bytes.take(len).collect()
}

/// Small limits, so that tests exceed them.
pub const LIMITS: Limits = Limits {
    file: 64 << 10,
    total: 1 << 20,
    files: 50,
    depth: 2,
};

pub fn check(archive: &[u8]) -> Result<Chart, ArchiveError> {
    crate::check(archive, LIMITS)
}
