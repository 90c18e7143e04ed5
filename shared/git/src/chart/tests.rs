//! Charts in repositories: what belongs to them, what is refused, and their archives.

use std::{collections::BTreeMap, io::Read};

use flate2::read::GzDecoder;
use helm_index::Unmetered;

use super::*;
use crate::{
    Limits, ObjectId, Objects, Pack,
    testing::{FILE, LINK, Packed, Repository, SUBMODULE, pack as write_pack},
};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
const LIMIT: usize = 1 << 20;

fn all(repository: &Repository) -> Objects {
    let entries = repository.objects.values();
    let entries: Vec<_> = entries
        .map(|(kind, content)| Packed::Object(*kind, content.clone()))
        .collect();
    let bytes = write_pack(repository.format, &entries);
    let mut objects = Objects::default();
    objects.add(
        Pack::read(
            &*bytes,
            repository.format,
            Limits::default(),
            &mut Unmetered,
            || false,
        )
        .unwrap()
        .into(),
    );
    objects
}

fn files_at(repository: &Repository, commit: ObjectId, path: &str) -> Result<ChartFiles, String> {
    let mut objects = all(repository);
    let root = objects.root(commit).unwrap();
    match assemble(&mut objects, root, &ChartPath::parse(path).unwrap()).map_err(|error| error.to_string())? {
        Assembly::Complete(files) => Ok(*files),
        Assembly::Missing(_) => panic!("all objects are there"),
    }
}

fn packed_at(
    repository: &Repository,
    commit: ObjectId,
    path: &str,
    strategy: Strategy,
) -> Result<PackedChart, String> {
    let files = files_at(repository, commit, path)?;
    pack(&mut all(repository), files, strategy, LIMIT).map_err(|error| error.to_string())
}

fn packed(files: &[(&str, &str)], path: &str) -> Result<PackedChart, String> {
    let mut repository = Repository::default();
    let commit = repository.commit("main", files);
    packed_at(&repository, commit, path, Strategy::ChartVersion)
}

/// The files of an archive.
fn unpacked(chart: &PackedChart) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(&*chart.archive));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0);
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        files.insert(path, content);
    }
    files
}

#[track_caller]
fn assert_refused(result: Result<PackedChart, String>, expected: &[&str]) {
    let error = result.map(|chart| chart.name).unwrap_err();
    for part in expected {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn a_chart_is_the_files_of_its_folder() {
    let files = [
        ("README.md", "of the repository"),
        ("charts/web/Chart.yaml", CHART),
        ("charts/web/templates/a.yaml", "a: 1"),
        ("charts/web/values.yaml", "x: 1"),
        ("charts/web2/Chart.yaml", CHART),
    ];
    let chart = packed(&files, "./charts/web/").unwrap();
    assert_eq!((&*chart.name, &*chart.version), ("web", "1.2.3"));
    let names: Vec<_> = unpacked(&chart).into_keys().collect();
    assert_eq!(
        names,
        ["web/Chart.yaml", "web/templates/a.yaml", "web/values.yaml"]
    );
}

#[test]
fn the_same_files_have_the_same_archive_in_any_commit() {
    let files = [
        ("web/Chart.yaml", CHART),
        ("web/values.yaml", "x: 1"),
        ("other", "1"),
    ];
    let mut repository = Repository::default();
    let first = repository.commit("main", &files);
    let second = repository.commit("main", &[files[0], files[1], ("other", "2")]);
    let pack = |commit| packed_at(&repository, commit, "web", Strategy::Revision).unwrap();
    let (one, two) = (pack(first), pack(second));
    assert_ne!(first, second);
    assert_eq!(one, two);
    assert_eq!(one.version, format!("1.2.3+{}", &one.content.digest()[..12]));
    assert!(unpacked(&one)["web/Chart.yaml"].contains(&one.version));
}

#[test]
fn a_version_with_metadata_keeps_it() {
    let mut repository = Repository::default();
    let commit = repository.commit(
        "main",
        &[(
            "Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0+a\nannotations: {b: 'yes'}\n",
        )],
    );
    let chart = packed_at(&repository, commit, "", Strategy::Revision).unwrap();
    assert_eq!(
        chart.version,
        format!("1.0.0+a.{}", &chart.content.digest()[..12])
    );
    assert!(
        unpacked(&chart)["web/Chart.yaml"].contains("\"yes\""),
        "{:?}",
        unpacked(&chart)
    );
}

#[test]
fn what_helmignore_names_is_left_out_and_may_be_anything() {
    let mut repository = Repository::default();
    let commit = repository.commit_modes(
        "main",
        &[
            ("web/.helmignore", FILE, "ci/\n*.bak\nlink\n"),
            ("web/Chart.yaml", FILE, CHART),
            ("web/ci/test.yaml", FILE, "x"),
            ("web/ci/deep/module", SUBMODULE, "x"),
            ("web/a.bak", FILE, "x"),
            ("web/link", LINK, "/etc/passwd"),
            ("web/templates/.hidden", FILE, "x"),
            ("web/templates/a.yaml", FILE, "x"),
        ],
    );
    let chart = packed_at(&repository, commit, "web", Strategy::ChartVersion).unwrap();
    let names: Vec<_> = unpacked(&chart).into_keys().collect();
    assert_eq!(
        names,
        ["web/.helmignore", "web/Chart.yaml", "web/templates/a.yaml"]
    );
}

#[test]
fn links_submodules_and_files_of_lfs_are_refused() {
    for (mode, content, expected) in [
        (LINK, "../secret", "\"web/x\" is a symbolic link"),
        (SUBMODULE, "x", "\"web/x\" is a submodule"),
        (
            FILE,
            "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
            "\"web/x\" is a reference to a file of Git LFS",
        ),
    ] {
        let mut repository = Repository::default();
        let files = [("web/Chart.yaml", FILE, CHART), ("web/x", mode, content)];
        let commit = repository.commit_modes("main", &files);
        assert_refused(
            packed_at(&repository, commit, "web", Strategy::ChartVersion),
            &[expected, ".helmignore"],
        );
    }
    for (path, expected) in [("web/a\u{202e}b", "control character"), ("web/a\\b", "backslash")] {
        assert_refused(
            packed(&[("web/Chart.yaml", CHART), (path, "x")], "web"),
            &[expected, "rename"],
        );
    }
}

#[test]
fn a_missing_chart_is_reported_with_those_that_exist() {
    let mut repository = Repository::default();
    let commit = repository.commit_modes(
        "main",
        &[
            ("charts/web/Chart.yaml", FILE, CHART),
            ("charts/web/charts/sub/Chart.yaml", FILE, CHART),
            ("charts/db/Chart.yaml", FILE, CHART),
            ("docs/a.md", FILE, "x"),
            ("link", LINK, "charts/web"),
            ("module", SUBMODULE, "x"),
        ],
    );
    for (path, expected) in [
        ("charts/wep", "\"charts/wep\" is not in the repository"),
        ("docs", "\"docs\" has no file Chart.yaml"),
        ("", "the top of the repository has no file Chart.yaml"),
        ("docs/a.md", "has a file in it"),
        ("link", "symbolic link"),
        ("module/x", "submodule"),
    ] {
        let result = packed_at(&repository, commit, path, Strategy::ChartVersion);
        assert_refused(result, &[expected, "charts are in charts/db, charts/web"]);
    }
    assert_refused(packed(&[("a", "x")], "web"), &["no Chart.yaml in any folder"]);
}

#[test]
fn an_unusable_chart_yaml_is_reported_with_its_path() {
    for (text, expected) in [
        ("name: web\n", "it has no version"),
        ("name: web\nversion: 1.2\n", "in quotes"),
        ("name: [", "line"),
    ] {
        assert_refused(
            packed(&[("web/Chart.yaml", text)], "web"),
            &["\"web/Chart.yaml\" cannot be used", expected],
        );
    }
    let ignored = [("web/Chart.yaml", CHART), ("web/.helmignore", "Chart.yaml")];
    assert_refused(packed(&ignored, "web"), &["its .helmignore names"]);
    let rules = [("web/Chart.yaml", CHART), ("web/.helmignore", "a/**")];
    assert_refused(
        packed(&rules, "web"),
        &["\"web/.helmignore\" cannot be used", "line 1"],
    );
}

fn with_dependency(name: &str, version: &str, repository: &str) -> String {
    format!("{CHART}dependencies:\n- name: {name}\n  version: {version:?}\n  repository: {repository:?}\n")
}

#[test]
fn subcharts_are_those_in_the_folder_charts() {
    let declared = with_dependency(
        "redis",
        "1.x",
        "https://u:geheim@charts.example.com/a?token=geheim",
    );
    let folder = [
        ("web/Chart.yaml", &*declared),
        ("web/charts/redis/Chart.yaml", "name: redis\nversion: 1.0.0\n"),
    ];
    assert!(unpacked(&packed(&folder, "web").unwrap()).contains_key("web/charts/redis/Chart.yaml"));
    let missing = packed(&[("web/Chart.yaml", &declared)], "web");
    assert!(!missing.clone().unwrap_err().contains("geheim"));
    assert_refused(
        missing,
        &[
            "\"web/Chart.yaml\" declares the dependency \"redis\" of \"https://charts.example.com/a\"",
            "helm dependency build",
        ],
    );
    let other = [
        ("web/Chart.yaml", &*declared),
        (
            "web/charts/redis-cluster/Chart.yaml",
            "name: redis-cluster\nversion: 1.0.0\n",
        ),
    ];
    assert_refused(packed(&other, "web"), &["\"redis\""]);
}

#[test]
fn the_number_of_included_folders_is_limited() {
    let numbers = 0..33;
    let dependencies = numbers
        .clone()
        .map(|number| format!("- {{name: c{number}, version: 1.0.0, repository: 'file://../c{number}'}}\n"));
    let declared = format!("{CHART}dependencies:\n{}", dependencies.collect::<String>());
    let mut files = vec![("web/Chart.yaml".to_owned(), declared)];
    files.extend(numbers.map(|number| {
        let chart = format!("name: c{number}\nversion: 1.0.0\n");
        (format!("c{number}/Chart.yaml"), chart)
    }));
    let files: Vec<_> = files
        .iter()
        .map(|(path, content)| (&**path, &**content))
        .collect();
    assert_refused(
        packed(&files, "web"),
        &["\"c32\"", "more than 32 folders are included"],
    );
}

#[test]
fn charts_of_the_same_repository_are_included_by_file() {
    let common = "apiVersion: v2\nname: common\nversion: 2.1.0\ntype: library\n";
    let declared = with_dependency("common", "^2", "file://../lib/common");
    let files = |lib: &'static str| {
        [
            ("web/Chart.yaml".to_owned(), declared.clone()),
            ("lib/common/Chart.yaml".to_owned(), common.to_owned()),
            ("lib/common/.helmignore".to_owned(), "*.md\n".to_owned()),
            ("lib/common/README.md".to_owned(), "x".to_owned()),
            ("lib/common/templates/_a.tpl".to_owned(), lib.to_owned()),
        ]
    };
    let mut repository = Repository::default();
    let mut commit = |lib| {
        let files = files(lib);
        let files: Vec<_> = files
            .iter()
            .map(|(path, content)| (&**path, &**content))
            .collect();
        repository.commit("main", &files)
    };
    let (first, second) = (commit("1"), commit("2"));
    let chart = packed_at(&repository, first, "web", Strategy::ChartVersion).unwrap();
    let names: Vec<_> = unpacked(&chart).into_keys().collect();
    let expected = [
        "web/Chart.yaml",
        "web/charts/common/.helmignore",
        "web/charts/common/Chart.yaml",
        "web/charts/common/templates/_a.tpl",
    ];
    assert_eq!(names, expected);

    let changed = packed_at(&repository, second, "web", Strategy::ChartVersion).unwrap();
    assert_eq!(chart.content.tree, changed.content.tree);
    assert_ne!(chart.content.digest(), changed.content.digest());
    let mut objects = all(&repository);
    let path = ChartPath::parse("web").unwrap();
    for (commit, expected) in [(first, true), (second, false)] {
        let root = objects.root(commit).unwrap();
        assert_eq!(
            chart.content.is_same_in(&mut objects, root, &path).unwrap(),
            expected
        );
    }
}

#[test]
fn an_unusable_chart_of_the_same_repository_is_reported() {
    let common = ("common/Chart.yaml", "name: common\nversion: 2.1.0\n");
    for (name, version, location, expected) in [
        (
            "common",
            "^3",
            "file://../common",
            "version \"2.1.0\", which is not in the range \"^3\"",
        ),
        ("other", "^2", "file://../common", "has the name \"common\""),
        ("common", "^2", "file:///common", "absolute"),
        (
            "common",
            "^2",
            "file://../../common",
            "leads out of the repository",
        ),
        (
            "common",
            "^2",
            "file://../none",
            "\"none\" is not in the repository",
        ),
        ("common", "not a range", "file://../common", "no range"),
        ("web", "", "file://../web", "do they include themselves?"),
    ] {
        let declared = with_dependency(name, version, location);
        assert_refused(
            packed(&[("web/Chart.yaml", &declared), common], "web"),
            &["declares the dependency", expected],
        );
    }
}

/// How many files of the chart `web` are fetched in each step, and how many it has.
fn rounds(repository: &Repository, commit: ObjectId) -> (Vec<usize>, usize) {
    let is_file = |kind: &ObjectKind| *kind == ObjectKind::Blob;
    let (files, trees): (BTreeMap<_, _>, BTreeMap<_, _>) = repository
        .objects
        .clone()
        .into_iter()
        .partition(|(_, (kind, _))| is_file(kind));
    let mut fetched = Repository {
        objects: trees,
        ..Repository::default()
    };
    let mut rounds = Vec::new();
    let complete = loop {
        let mut objects = all(&fetched);
        let root = objects.root(commit).unwrap();
        match assemble(&mut objects, root, &ChartPath::parse("web").unwrap()).unwrap() {
            Assembly::Complete(files) => break files,
            Assembly::Missing(missing) => {
                rounds.push(missing.len());
                fetched
                    .objects
                    .extend(missing.iter().map(|id| (*id, files[id].clone())));
            }
        }
    };
    let chart = pack(&mut all(&fetched), *complete, Strategy::ChartVersion, LIMIT).unwrap();
    (rounds, unpacked(&chart).len())
}

/// They may be large.
#[test]
fn what_helmignore_names_is_not_fetched() {
    let mut repository = Repository::default();
    let files = [
        ("web/.helmignore", "docs/\n"),
        ("web/Chart.yaml", CHART),
        ("web/docs/a.mp4", "a"),
        ("web/docs/b.mp4", "b"),
        ("web/values.yaml", "x: 1"),
    ];
    let commit = repository.commit("main", &files);
    assert_eq!(rounds(&repository, commit), (vec![2, 1], 3));
}

#[test]
fn a_tag_of_a_file_is_no_commit() {
    let mut repository = Repository::default();
    let file = repository.add(ObjectKind::Blob, "x");
    let error = all(&repository).root(file).unwrap_err().to_string();
    assert!(error.contains("not of a commit; name another one"), "{error}");
}

#[test]
fn files_that_are_not_there_yet_are_named_step_by_step() {
    let declared = with_dependency("common", "^2", "file://../common");
    let mut repository = Repository::default();
    let commit = repository.commit(
        "main",
        &[
            ("web/Chart.yaml", &declared),
            ("common/Chart.yaml", "name: common\nversion: 2.1.0\n"),
            ("other", "x"),
        ],
    );
    assert_eq!(rounds(&repository, commit), (vec![1, 1], 2));
}

#[test]
fn an_archive_is_bounded() {
    let mut repository = Repository::default();
    // Hashes do not compress well.
    let noise: String = (0..1000)
        .map(|n: u32| crate::ObjectFormat::Sha256.digest(&n.to_be_bytes()).to_string())
        .collect();
    let commit = repository.commit("main", &[("Chart.yaml", CHART), ("large", &noise)]);
    let files = files_at(&repository, commit, "").unwrap();
    let error = pack(&mut all(&repository), files, Strategy::ChartVersion, 10_000)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"large\" cannot be used") || error.contains("more than 0 MiB"),
        "{error}"
    );
}

#[test]
fn long_paths_are_kept() {
    let long = format!("templates/{}/{}.yaml", "a".repeat(120), "b".repeat(120));
    let chart = packed(&[("Chart.yaml", CHART), (&long, "x")], "").unwrap();
    assert!(unpacked(&chart).contains_key(&format!("web/{long}")));
    let long = "a/".repeat(40) + "b";
    assert_refused(packed(&[("Chart.yaml", CHART), (&long, "x")], ""), &["too deep"]);
}

/// Ten thousand files may be one object, which is sent once.
#[test]
fn a_chart_is_bounded_before_it_is_compressed() {
    let zeros = "0".repeat(5 << 20);
    let names: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    let mut files = vec![("Chart.yaml", CHART)];
    files.extend(names.iter().map(|name| (&**name, &*zeros)));
    let chart = packed(&files, "");
    assert_refused(
        chart,
        &["\"20\" cannot be used", "more than 100 MiB", ".helmignore"],
    );
}

#[test]
fn the_same_subchart_is_parsed_once() {
    // Each has nearly all nodes that the YAML of a chart may have.
    let large = format!("name: sub\nversion: 1.0.0\nx: [{}]\n", "1,".repeat(150_000));
    let declared = with_dependency("sub", "1.x", "https://charts.example.com");
    let files = [
        ("web/Chart.yaml", &*declared),
        ("web/charts/a/Chart.yaml", &*large),
        ("web/charts/b/Chart.yaml", &*large),
    ];
    assert!(packed(&files, "web").is_ok());
    let other = format!("{large}# another object\n").replace("name: sub", "name: other");
    let files = [
        ("web/Chart.yaml", &*declared),
        ("web/charts/a/Chart.yaml", &*large),
        ("web/charts/b/Chart.yaml", &*other),
    ];
    // What is left is not enough for both.
    assert_refused(packed(&files, "web"), &["\"sub\""]);
}

/// One folder in many places must not be searched in each of them.
#[test]
fn the_search_for_charts_is_bounded() {
    let mut repository = Repository::default();
    let entry = |name: &str, id: ObjectId| [format!("40000 {name}\0").as_bytes(), id.as_bytes()].concat();
    let empty = repository.add(ObjectKind::Tree, "");
    let wide: Vec<_> = (0..20_000)
        .flat_map(|n| entry(&format!("{n:05}"), empty))
        .collect();
    let wide = repository.add(ObjectKind::Tree, wide);
    let root: Vec<_> = (0..2000).flat_map(|n| entry(&format!("{n:05}"), wide)).collect();
    let root = repository.add(ObjectKind::Tree, root);
    let text = format!("tree {root}\nauthor A <a@h> 0 +0000\ncommitter A <a@h> 0 +0000\n\nmessage\n");
    let commit = repository.add(ObjectKind::Commit, text);
    // Not all 40 million folders were looked at.
    assert_refused(
        packed_at(&repository, commit, "none", Strategy::ChartVersion),
        &["\"none\" is not in the repository", "folders near the top"],
    );
}

fn packed_manifests(repository: &Repository, commit: ObjectId, path: &str) -> Result<PackedChart, String> {
    let mut objects = all(repository);
    let root = objects.root(commit).unwrap();
    let path = ChartPath::parse(path).unwrap();
    let assembled = assemble_manifests(&mut objects, root, &path).map_err(|error| error.to_string())?;
    let Assembly::Complete(files) = assembled else {
        panic!("all objects are there")
    };
    pack(&mut objects, *files, Strategy::Manifests, LIMIT).map_err(|error| error.to_string())
}

#[test]
fn manifests_are_all_files_of_the_folder_but_hidden_ones() {
    let mut repository = Repository::default();
    let files = [
        ("deploy/.github/workflows/a.yaml", FILE, "x"),
        ("deploy/.hidden.yaml", LINK, "/etc/passwd"),
        ("deploy/a.yaml", FILE, "a: '{{ .Values.x }}'"),
        ("deploy/base/kustomization.yaml", FILE, "x"),
        ("deploy/base/web/Chart.yaml", FILE, CHART),
        ("deploy/config.txt", FILE, "x"),
        ("other/a.yaml", FILE, "1"),
    ];
    let first = repository.commit_modes("main", &files);
    let packed = packed_manifests(&repository, first, "deploy").unwrap();
    let names: Vec<_> = unpacked(&packed).into_keys().collect();
    assert_eq!(
        names,
        [
            "manifests/a.yaml",
            "manifests/base/kustomization.yaml",
            "manifests/base/web/Chart.yaml",
            "manifests/config.txt"
        ]
    );
    assert!(packed.version.starts_with("0.0.0+"), "{}", packed.version);

    let mut later = files;
    later[6].2 = "2";
    let second = repository.commit_modes("main", &later);
    assert_eq!(
        packed_manifests(&repository, second, "deploy").unwrap(),
        packed,
        "another folder has changed"
    );
    // A hidden file is in the folder, and not in what is deployed.
    let hidden = files
        .iter()
        .position(|(path, ..)| path.starts_with("deploy/."))
        .unwrap();
    let mut with_hidden = files;
    with_hidden[hidden].2 = "2";
    let same = repository.commit_modes("main", &with_hidden);
    let same = packed_manifests(&repository, same, "deploy").unwrap();
    assert_eq!((&same.version, &same.digest), (&packed.version, &packed.digest));
    assert_ne!(same.content, packed.content);
    later[2].2 = "b: 1";
    let third = repository.commit_modes("main", &later);
    let changed = packed_manifests(&repository, third, "deploy").unwrap();
    assert_ne!(
        (&changed.version, &changed.digest),
        (&packed.version, &packed.digest)
    );
}

#[test]
fn what_is_no_folder_of_manifests_is_refused_with_the_fix() {
    let mut repository = Repository::default();
    let commit = repository.commit_modes(
        "main",
        &[
            ("web/Chart.yaml", FILE, CHART),
            ("docs/a.md", FILE, "x"),
            ("docs/.a.yaml", FILE, "x"),
            ("link/a.yaml", LINK, "x"),
            (
                "lfs/a.yaml",
                FILE,
                "version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            ),
        ],
    );
    for (path, expected) in [
        (
            "web",
            &["has a Chart.yaml", "remove spec.chartSource.manifests"][..],
        ),
        ("docs", &["no file that ends with .yaml", "name the folder"]),
        ("none", &["\"none\" is not in the repository", "correct path"]),
        ("link", &["\"link/a.yaml\" is a symbolic link", "move it out"]),
        ("lfs", &["\"lfs/a.yaml\" is a reference to a file of Git LFS"]),
    ] {
        assert_refused(packed_manifests(&repository, commit, path), expected);
    }
}

#[test]
fn manifests_are_fetched_before_they_are_packed() {
    let mut repository = Repository::default();
    let commit = repository.commit("main", &[("a.yaml", "x"), (".b", "y")]);
    repository
        .objects
        .retain(|_, (kind, _)| *kind != ObjectKind::Blob);
    let mut objects = all(&repository);
    let root = objects.root(commit).unwrap();
    let assembled = assemble_manifests(&mut objects, root, &ChartPath::default()).unwrap();
    assert!(
        matches!(&assembled, Assembly::Missing(missing) if missing.len() == 1),
        "{assembled:?}"
    );
}
