//! Archives that are accepted.

use tar::EntryType;

use super::build::{CHART_YAML, Tar, check, gzip};

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
fn whatever_charts_contain_is_accepted() {
    let chart = check(&chart().tgz()).unwrap();
    assert_eq!((&*chart.name, &*chart.version, chart.files), ("web", "1.2.3", 12));
}

#[test]
fn all_files_are_unpacked_as_they_are() {
    let files = crate::files(&*chart().tgz(), crate::Limits::HELM, crate::Layout::Chart).unwrap();
    let paths: Vec<_> = files.iter().map(|(path, _)| &**path).collect();
    assert_eq!(paths.len(), 11, "subcharts stay archives: {paths:?}");
    assert!(
        paths.contains(&"Chart.yaml") && paths.contains(&"charts/db-1.0.0.tgz"),
        "{paths:?}"
    );
    let binary = files.iter().find(|(path, _)| path.starts_with("xxx"));
    assert_eq!(binary.unwrap().1, [0, 159, 146, 150]);
    let small = crate::Limits {
        total: 1_000,
        ..crate::Limits::HELM
    };
    let error = crate::files(&*chart().tgz(), small, crate::Layout::Chart).unwrap_err();
    assert!(
        matches!(error, crate::ArchiveError::TooLarge { limit: 1_000 }),
        "{error}"
    );
}

/// As Flux, tar and ORAS write what is no chart.
#[test]
fn files_may_be_at_the_top() {
    let files = |tar: Tar| crate::files(&*tar.tgz(), crate::Limits::HELM, crate::Layout::Top);
    let tar = Tar::default()
        .entry(EntryType::Directory, ".", b"")
        .entry(EntryType::Directory, "./", b"")
        .file("./web.yaml", "a")
        .entry(EntryType::Directory, "base/", b"")
        .file("base/db.yaml", "b");
    let found = files(tar).unwrap();
    let expected = [("web.yaml", "a"), ("base/db.yaml", "b")];
    let expected = expected.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    assert_eq!(found, expected);
    for (refused, word) in [
        (Tar::default().file("../web.yaml", ""), "leads out"),
        (Tar::default().file("/web.yaml", ""), "absolute"),
        (Tar::default().file("././web.yaml", ""), "empty part"),
        (Tar::default().file(".", ""), "empty part"),
        (
            Tar::default().file("web.yaml", "").file("./web.yaml", ""),
            "twice",
        ),
        (
            Tar::default().link(EntryType::Symlink, "web.yaml", "/etc"),
            "a symbolic link",
        ),
    ] {
        let error = files(refused).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
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
