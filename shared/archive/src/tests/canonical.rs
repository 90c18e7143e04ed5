//! What is passed on of a valid archive.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::build::{CHART_YAML, LIMITS, Tar, check, gzip, noise};
use crate::{ArchiveError, rewrite};

/// The files of an archive, as another program reads them.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = Archive::new(GzDecoder::new(archive));
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().entry_type(), EntryType::Regular);
        assert_eq!(
            (entry.header().mode().unwrap(), entry.header().uid().unwrap()),
            (0o644, 0)
        );
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), content)
    });
    files.collect()
}

/// Everything that charts contain.
fn chart() -> Tar {
    let long = format!("web/templates/{}/deployment.yaml", "long".repeat(40));
    let subchart = Tar::default()
        .file("db/Chart.yaml", "name: db\nversion: 1.0.0")
        .tgz();
    Tar::default()
        .entry(
            EntryType::XGlobalHeader,
            "pax_global_header",
            b"52 comment=0123456789012345678901234567890123456789\n",
        )
        .entry(EntryType::Directory, "web/", b"")
        .file("web/.helmignore", "*.bak")
        .file("web/values.yaml", "a: 1\r\n")
        .file(
            "web/Chart.yaml",
            format!("\u{feff}{CHART_YAML}dependencies: [{{name: db}}, {{name: cache}}]\n"),
        )
        .entry(EntryType::Directory, "web/templates/", b"")
        .pax(
            &[("path", &long), ("mtime", "1.5")],
            "web/short",
            b"{{ .Values.a }}",
        )
        .entry(
            EntryType::GNULongName,
            "././@LongLink",
            format!("web/{}\0", "x".repeat(150)).as_bytes(),
        )
        .file("web/xxx", [0, 159, 146, 150])
        .file("web/charts/db-1.0.0.tgz", subchart)
        .file("web/charts/cache/Chart.yaml", "name: cache\nversion: 2.0.0")
        .file("web/charts/cache/templates/_helpers.tpl", "")
        .file("web/charts/_ignored.tgz", "not an archive")
        .file("web/files/a.tgz", "not a subchart")
        .file("web/files/größe", "ü")
}

#[test]
fn all_files_but_chart_yaml_pass_unchanged() {
    let archive = chart().tgz();
    let before = {
        // The reader of the crate itself, as it finds files.
        let mut archive = Archive::new(GzDecoder::new(&*archive));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.header().entry_type() == EntryType::Regular {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                files.insert(entry.path().unwrap().to_str().unwrap().to_owned(), content);
            }
        }
        files
    };
    let mut output = Vec::new();
    let edit = |text: &str| {
        assert!(text.starts_with("apiVersion"), "without a byte order mark");
        format!("{text}annotations: {{a: b}}\n")
    };
    let chart = rewrite(&*archive, &mut output, LIMITS, edit).unwrap();
    assert_eq!((&*chart.name, &*chart.version, chart.files), ("web", "1.2.3", 12));
    let mut after = files(&output);
    let edited = after
        .insert("web/Chart.yaml".to_owned(), before["web/Chart.yaml"].clone())
        .unwrap();
    assert!(edited.ends_with(b"annotations: {a: b}\n"));
    assert_eq!(after, before);
    assert_eq!(check(&output).unwrap().files, 12);
}

#[test]
fn the_same_archive_and_edit_give_the_same_bytes() {
    let rewritten = || {
        let mut output = Vec::new();
        rewrite(&*chart().tgz(), &mut output, LIMITS, str::to_owned).unwrap();
        output
    };
    assert_eq!(rewritten(), rewritten());
}

/// Some programs write them so.
#[test]
fn parts_compressed_one_by_one_are_one_archive() {
    let bytes = Tar::chart()
        .file("web/values.yaml", "a: 1")
        .raw(&[0; 1024])
        .raw_bytes();
    let (one, other) = bytes.split_at(700);
    assert_eq!(check(&[gzip(one), gzip(other)].concat()).unwrap().files, 2);
}

#[test]
fn a_full_disk_is_an_error_of_the_output() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let archive = Tar::chart().file("web/x", noise(60 << 10)).tgz();
    for capacity in [0, 100, 30 << 10] {
        let error = rewrite(&*archive, Full(capacity), LIMITS, str::to_owned).unwrap_err();
        assert!(matches!(error, ArchiveError::Output(_)), "{capacity}: {error:?}");
        assert!(error.is_io());
    }
}
