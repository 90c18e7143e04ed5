//! Archives that are refused, and why.

use std::io::{self, Read};

use proptest::prelude::*;
use tar::EntryType::{
    Block, Char, Directory, Fifo, GNULongLink, GNULongName, GNUSparse, Link, Symlink, XGlobalHeader, XHeader,
};

use super::build::{CHART_YAML, LIMITS, Tar, check, gzip, noise};
use crate::ArchiveError;

/// What a refused archive is, the archive, and a part of the error.
type Hostile = (&'static str, Vec<u8>, &'static str);

fn paths() -> Vec<Hostile> {
    let with = |path: &str| Tar::chart().file(path, "x").tgz();
    let long = format!("web/{}", "a".repeat(600));
    vec![
        ("an absolute path", with("/etc/passwd"), "is absolute"),
        ("a path to a parent", with("web/../../x"), "leads out"),
        ("a path that only begins there", with("../x"), "leads out"),
        ("a harmless path to a parent", with("web/a/../x"), "leads out"),
        ("a path with backslashes", with("web\\..\\x"), "backslash"),
        ("a path with a drive", with("c:/x"), "drive"),
        ("a path with a drive in the chart", with("web/C:x"), "drive"),
        ("a path with an empty part", with("web//etc/x"), "empty part"),
        ("a path from the current folder", with("./web/x"), "`.`"),
        ("a path with a line feed", with("web/a\nb"), "control character"),
        ("a file in no folder", with("values.yaml"), "is not in the folder"),
        ("an empty path", with(""), "empty part"),
        (
            "a path that is no text",
            Tar::chart()
                .entry(tar::EntryType::Regular, b"web/\xff", b"")
                .tgz(),
            "not UTF-8",
        ),
        (
            "a folder outside",
            Tar::chart().entry(Directory, "../x/", b"").tgz(),
            "leads out",
        ),
        (
            "a folder outside, in the oldest format",
            Tar::chart().file("../x/", "").tgz(),
            "leads out",
        ),
        (
            "a path of GNU to a parent",
            Tar::chart()
                .entry(GNULongName, "././@LongLink", b"web/../../etc/passwd\0")
                .file("web/harmless", "x")
                .tgz(),
            "leads out",
        ),
        (
            "a path of POSIX to a parent",
            Tar::chart()
                .pax(&[("path", "/etc/passwd")], "web/harmless", b"x")
                .tgz(),
            "is absolute",
        ),
        (
            "a very long path",
            Tar::chart().pax(&[("path", &long)], "web/harmless", b"x").tgz(),
            "too long",
        ),
        (
            "files in two folders",
            Tar::chart().file("other/x", "").tgz(),
            "\"web\" and \"other\"",
        ),
    ]
}

fn special_files() -> Vec<Hostile> {
    let special = |kind| Tar::chart().entry(kind, "web/x", b"").tgz();
    vec![
        (
            "a symbolic link",
            Tar::chart().link(Symlink, "web/values.yaml", "/etc/passwd").tgz(),
            "web/values.yaml in the archive is a symbolic link",
        ),
        (
            "a symbolic link as folder, and a file in it",
            Tar::chart()
                .link(Symlink, "web/templates", "/tmp")
                .file("web/templates/x", "x")
                .tgz(),
            "a symbolic link",
        ),
        (
            "a hard link",
            Tar::chart().link(Link, "web/x", "web/Chart.yaml").tgz(),
            "a hard link",
        ),
        (
            "a link with a long target",
            Tar::chart()
                .entry(GNULongLink, "././@LongLink", b"/etc/passwd\0")
                .tgz(),
            "a link with a long target",
        ),
        ("a character device", special(Char), "a device"),
        ("a block device", special(Block), "a device"),
        ("a named pipe", special(Fifo), "a named pipe"),
        ("a sparse file", special(GNUSparse), "a sparse file"),
        (
            "an unknown type",
            special(tar::EntryType::new(b'Z')),
            "of an unknown type",
        ),
    ]
}

fn sizes() -> Vec<Hostile> {
    let zeros = vec![0; 60 << 10];
    let bomb = (0..20).fold(Tar::chart(), |tar, at| tar.file(&format!("web/{at}"), &zeros));
    let many = (0..60).fold(Tar::chart(), |tar, at| tar.file(&format!("web/{at}"), ""));
    let claimed = Tar::chart().with(b"x", |header| {
        header.set_path("web/x").unwrap();
        header.set_size(1 << 40);
    });
    vec![
        (
            "a file above the limit",
            Tar::chart().file("web/x", vec![0; (64 << 10) + 1]).tgz(),
            "web/x in the archive has 65537 bytes; Helm reads files of at most 65536",
        ),
        (
            "a bomb of many files",
            bomb.tgz(),
            "more than 1048576 bytes after decompression",
        ),
        (
            "a bomb after the end of the archive",
            Tar::chart().raw(&vec![0; 2 << 20]).tgz(),
            "more than 1048576 bytes",
        ),
        (
            "a bomb in skipped headers",
            Tar::chart().entry(XGlobalHeader, "g", &vec![b'0'; 2 << 20]).tgz(),
            "more than 1048576 bytes",
        ),
        ("too many files", many.tgz(), "more than 50 files"),
        (
            "a header that claims a terabyte",
            claimed.tgz(),
            "web/x in the archive has 1099511627776 bytes",
        ),
        (
            "a size of POSIX that differs from the header",
            Tar::chart().pax(&[("size", "1")], "web/x", b"12345").tgz(),
            "\"size\"",
        ),
        (
            "a sparse file of POSIX",
            Tar::chart()
                .pax(&[("GNU.sparse.realsize", "1099511627776")], "web/x", b"x")
                .tgz(),
            "\"GNU.sparse",
        ),
        (
            "a long extended header",
            Tar::chart().entry(XHeader, "x", &vec![b'0'; 40 << 10]).tgz(),
            "an extended header has 40960 bytes",
        ),
        (
            "a long name of GNU that is too long",
            Tar::chart().entry(GNULongName, "x", &vec![b'0'; 40 << 10]).tgz(),
            "an extended header has 40960 bytes",
        ),
        (
            "an extended header that does not decode",
            Tar::chart()
                .entry(XHeader, "x", b"99999 path")
                .file("web/x", "")
                .tgz(),
            "cannot be decoded",
        ),
    ]
}

fn contents() -> Vec<Hostile> {
    let chart_yaml = |text: &str| Tar::default().file("web/Chart.yaml", text).tgz();
    vec![
        (
            "no Chart.yaml",
            Tar::default().file("web/values.yaml", "").tgz(),
            "no Chart.yaml",
        ),
        (
            "the Chart.yaml of a subchart only",
            Tar::default().file("web/charts/db/Chart.yaml", CHART_YAML).tgz(),
            "no Chart.yaml",
        ),
        (
            "two Chart.yaml",
            Tar::chart()
                .file("web/Chart.yaml", "name: other\nversion: 1.2.3")
                .tgz(),
            "contains web/Chart.yaml twice",
        ),
        (
            "a second Chart.yaml with a path of POSIX",
            Tar::chart()
                .pax(&[("path", "web/Chart.yaml")], "web/x", b"name: other")
                .tgz(),
            "contains web/Chart.yaml twice",
        ),
        (
            "a file that occurs twice",
            Tar::chart()
                .file("web/values.yaml", "")
                .file("web/values.yaml", "")
                .tgz(),
            "twice",
        ),
        (
            "a Chart.yaml that is no YAML",
            chart_yaml("name: ["),
            "Chart.yaml in the archive cannot be used",
        ),
        (
            "a Chart.yaml with an alias bomb",
            chart_yaml(&alias_bomb()),
            "Chart.yaml in the archive cannot be used: more than",
        ),
        (
            "a Chart.yaml that is no text",
            Tar::default()
                .entry(tar::EntryType::Regular, "web/Chart.yaml", b"name: \xff")
                .tgz(),
            "not UTF-8",
        ),
        (
            "a missing subchart",
            chart_yaml("name: web\nversion: 1.2.3\ndependencies: [{name: db, version: 1.x.x}]"),
            "dependency \"db\"",
        ),
        (
            "a missing subchart of the first format",
            Tar::chart()
                .file("web/requirements.yaml", "dependencies: [{name: db}]")
                .tgz(),
            "dependency \"db\"",
        ),
    ]
}

fn alias_bomb() -> String {
    let start = "name: web\nversion: 1.2.3\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    (1..9).fold(start, |text, level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("{text}a{level}: &a{level} [{aliases}]\n")
    })
}

fn nested() -> Vec<Hostile> {
    let subchart = |content: Vec<u8>| Tar::chart().file("web/charts/db-1.0.0.tgz", content).tgz();
    let zeros = vec![0; 60 << 10];
    let bomb = (0..40).fold(Tar::chart(), |tar, at| tar.file(&format!("web/{at}"), &zeros));
    let half = (0..9)
        .fold(Tar::chart(), |tar, at| tar.file(&format!("web/{at}"), &zeros))
        .tgz();
    let deep = (0..3).fold(Tar::chart().tgz(), |inner, _| subchart(inner));
    vec![
        (
            "a subchart that is no archive",
            subchart(b"x".to_vec()),
            "web/charts/db-1.0.0.tgz in the archive",
        ),
        (
            "a subchart with a link",
            subchart(Tar::chart().link(Symlink, "db/x", "/etc").tgz()),
            "db-1.0.0.tgz in the archive: db/x in the archive is a symbolic link",
        ),
        (
            "a subchart without Chart.yaml",
            subchart(Tar::default().file("db/x", "").tgz()),
            "no Chart.yaml",
        ),
        (
            "a bomb in a subchart",
            subchart(bomb.clone().tgz()),
            "more than 1048576 bytes",
        ),
        (
            "a bomb in two subcharts",
            Tar::chart()
                .file("web/charts/a-1.tgz", &half)
                .file("web/charts/b-1.tgz", &half)
                .tgz(),
            "more than 1048576 bytes",
        ),
        (
            "a bomb in the subchart of a folder",
            Tar::chart()
                .file("web/charts/a/Chart.yaml", "name: a\nversion: 1.0.0")
                .file("web/charts/a/charts/b-1.tgz", bomb.tgz())
                .tgz(),
            "more than 1048576 bytes",
        ),
        ("subcharts in subcharts in subcharts", deep, "more than 2 deep"),
        (
            "a damaged subchart in a subchart",
            subchart(subchart(b"x".to_vec())),
            "db-1.0.0.tgz in the archive: web/charts/db-1.0.0.tgz in the archive: it is not a chart archive",
        ),
    ]
}

fn damaged() -> Vec<Hostile> {
    let whole = Tar::chart().file("web/values.yaml", "a: 1").tgz();
    let mut flipped = whole.clone();
    let checksum = flipped.len() - 6;
    flipped[checksum] ^= 1;
    let mut header = Tar::chart().file("web/x", "").raw_bytes();
    let name = header.len() - 512;
    header[name] = b'W';
    vec![
        ("nothing", Vec::new(), "it ends too early"),
        (
            "HTML instead of an archive",
            b"<html>Log in</html>".to_vec(),
            "not a chart archive (.tgz)",
        ),
        (
            "a tar archive without gzip",
            Tar::chart().raw(&[0; 1024]).raw_bytes(),
            "not a chart archive (.tgz)",
        ),
        ("gzip of no tar archive", gzip(&[b'x'; 2000]), "damaged"),
        ("gzip of nothing", gzip(b""), "no Chart.yaml"),
        (
            "half of an archive",
            whole[..whole.len() / 2].to_vec(),
            "it ends too early",
        ),
        (
            "an archive without its last byte",
            whole[..whole.len() - 1].to_vec(),
            "it ends too early",
        ),
        ("a wrong checksum of the content", flipped, "corrupt"),
        ("a header with a wrong checksum", gzip(&header), "checksum"),
        (
            "an archive that ends within a file",
            Tar::chart()
                .file("web/x", [b'x'; 1000])
                .without_last(600)
                .tgz_as_is(),
            "it ends within a file",
        ),
        (
            "an archive that ends within a header",
            Tar::chart().file("web/x", "x").without_last(700).tgz_as_is(),
            "damaged",
        ),
        (
            "an archive that ends after an extended header",
            Tar::chart().entry(GNULongName, "x", b"web/x\0").tgz(),
            "ends with an extended header",
        ),
        (
            "garbage after the archive",
            [whole.clone(), b"garbage".to_vec()].concat(),
            "not a chart archive",
        ),
    ]
}

/// What Go's `archive/tar` reads as another path, or as other files.
fn ambiguous() -> Vec<Hostile> {
    let hidden = Tar::default().file("web/crds/a.yaml", "kind: Secret").raw_bytes();
    let with_prefix = |change: fn(&mut [u8; 512])| {
        let tar = Tar::chart().with(b"x", |header| {
            header.set_path("web/x").unwrap();
            header.as_mut_bytes()[345..352].copy_from_slice(b"x/crds!");
            change(header.as_mut_bytes());
        });
        tar.tgz()
    };
    let several = "an entry has several extended headers";
    let named = |tar: Tar| tar.entry(GNULongName, "x", b"web/x\0");
    let pax = |tar: Tar| tar.entry(XHeader, "x", b"14 path=web/y\n");
    let different = "programs read different paths in the header of";
    vec![
        (
            "a folder with entries as its content",
            Tar::chart().entry(Directory, "web/x/", &hidden).tgz(),
            "the folder \"web/x/\" has content",
        ),
        (
            "a file with the path of a folder",
            Tar::chart().file("web/crds/a.yaml/", "kind: Secret").tgz(),
            "the folder \"web/crds/a.yaml/\" has content",
        ),
        (
            "a path of POSIX before one of GNU",
            named(pax(Tar::chart())).file("web/z", "x").tgz(),
            several,
        ),
        (
            "a path of GNU before one of POSIX",
            pax(named(Tar::chart())).file("web/z", "x").tgz(),
            several,
        ),
        (
            "a path before a global header",
            pax(Tar::chart())
                .entry(XGlobalHeader, "g", b"")
                .file("web/z", "x")
                .tgz(),
            several,
        ),
        (
            "a prefix in a header of GNU",
            with_prefix(|header| header[257..265].copy_from_slice(b"ustar  \0")),
            different,
        ),
        (
            "a prefix in a header of an unknown version",
            with_prefix(|header| header[263..265].copy_from_slice(b"11")),
            different,
        ),
        (
            "a prefix that is shorter for some",
            with_prefix(|header| header[508..].copy_from_slice(b"tar\0")),
            different,
        ),
    ]
}

#[test]
fn hostile_archives_are_refused_with_the_path_and_the_cause() {
    let groups = [
        paths(),
        special_files(),
        sizes(),
        contents(),
        nested(),
        damaged(),
        ambiguous(),
    ];
    let mut kinds = 0;
    for (what, archive, expected) in groups.into_iter().flatten() {
        let error = check(&archive).expect_err(what);
        let message = error.to_string();
        assert!(message.contains(expected), "{what}: {message}");
        assert!(
            message.len() < 1000 && !message.contains('\n'),
            "{what}: {message}"
        );
        assert!(!error.is_io(), "{what}: {error:?}");
        kinds += 1;
    }
    assert!(kinds > 60, "{kinds}");
}

#[test]
fn an_error_of_the_disk_is_distinguished_from_one_of_the_archive() {
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) => Err(io::Error::other("the disk is broken")),
                other => other,
            }
        }
    }
    let archive = Tar::chart().file("web/x", vec![b'x'; 5000]).tgz();
    for len in [0, archive.len() / 2, archive.len() - 1] {
        let error = crate::check(Failing(&archive[..len]), LIMITS).unwrap_err();
        assert!(matches!(error, ArchiveError::Input(_)), "{len}: {error:?}");
        assert!(error.to_string().contains("the disk is broken"), "{error}");
    }
}

#[test]
fn a_bomb_is_read_up_to_the_limit_only() {
    let noise = noise(60 << 10);
    let tar = (0..40).fold(Tar::chart(), |tar, at| tar.file(&format!("web/{at}"), &noise));
    let archive = tar.tgz();
    let mut rest = &*archive;
    let error = crate::check(&mut rest, LIMITS).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge { .. }), "{error:?}");
    assert!(
        rest.len() > archive.len() / 4,
        "{} of {} bytes are left",
        rest.len(),
        archive.len()
    );
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let tar = Tar::chart()
        .entry(GNULongName, "x", b"web/templates/a-long-name.yaml\0")
        .file("web/x", "x")
        .pax(&[("path", "web/other")], "web/y", b"y")
        .file("web/charts/db-1.0.0.tgz", Tar::chart().tgz());
    let len = tar.len();
    prop::collection::vec((0..len, any::<u8>()), 1..8).prop_map(move |changes| {
        let mut bytes = tar.clone().raw_bytes();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        gzip(&bytes)
    })
}

proptest! {
    /// Whatever the bytes of the headers are: nothing panics, and what is accepted is a chart.
    #[test]
    fn a_damaged_header_is_refused_or_harmless(archive in mutated()) {
        if let Ok(chart) = check(&archive) {
            prop_assert!(!chart.name.is_empty() && chart.files > 0);
        }
    }
}
