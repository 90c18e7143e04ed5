//! Archives of charts: what is accepted has a name, and nothing panics.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use helm_archive::{Limits, check as check_archive};

const LIMITS: Limits = Limits {
    file: 64 << 10,
    total: 1 << 20,
    files: 100,
    depth: 2,
};

/// The input is an archive as it comes from a server, and a tar archive whose checksums are corrected.
pub fn check(input: &[u8]) {
    check_compressed(input);
    let mut tar = input.to_vec();
    correct_checksums(&mut tar);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(&tar).expect("memory takes all");
    check_compressed(&gzip.finish().expect("memory takes all"));
}

fn check_compressed(archive: &[u8]) {
    if let Ok(chart) = check_archive(archive, LIMITS) {
        assert!(!chart.name.is_empty() && chart.files > 0);
    }
}

/// Corrects the checksum of each header, or else almost every mutation would end there.
fn correct_checksums(tar: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = tar.get_mut(at..at + 512) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = String::from_utf8_lossy(&header[124..136]).into_owned();
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).unwrap_or_default();
        at = at.saturating_add(512).saturating_add(size.min(1 << 30).next_multiple_of(512));
    }
}
