//! What the names of folders follow from, and charts in them.

use super::*;
use crate::{Assembly, ChartPath, Content, Strategy, assemble, pack};

type ChartError = crate::ChartError<ListedFilesError>;
type PackedChart = crate::PackedChart<EntryId>;

const FOLDERS: usize = 100;
const LARGEST: usize = 1000;

fn listed(objects: &[(&str, &str)]) -> Vec<ListedFile> {
    let listed = objects.iter().map(|(path, content)| ListedFile {
        path: (*path).to_owned(),
        // As of servers whose ETag follows from the content.
        tag: format!(
            "{:x}",
            content.len() * 31 + content.bytes().map(usize::from).sum::<usize>()
        ),
        size: content.len() as u64,
    });
    listed.collect()
}

fn folders(objects: &[(&str, &str)]) -> Arc<ListedFolders> {
    Arc::new(ListedFolders::new(&listed(objects), FOLDERS).unwrap())
}

/// Packs the chart at a path. Returns which objects were fetched for it, too.
fn packed(objects: &[(&str, &str)], path: &str) -> (Result<PackedChart, ChartError>, Vec<String>) {
    let folders = folders(objects);
    let mut files = ListedFiles::new(Arc::clone(&folders), LARGEST);
    let path = ChartPath::parse(path).unwrap();
    let mut fetched = Vec::new();
    for _ in 0..10 {
        let missing = match assemble(&mut files, folders.root(), &path) {
            Ok(Assembly::Complete(chart)) => {
                return (pack(&mut files, *chart, Strategy::ChartVersion, 1 << 20), fetched);
            }
            Ok(Assembly::Missing(missing)) => missing,
            Err(error) => return (Err(error), fetched),
        };
        for id in missing {
            let wanted = folders.object(id).unwrap();
            let (_, content) = objects.iter().find(|(path, _)| *path == wanted.path).unwrap();
            files.add(id, content.as_bytes().into());
            fetched.push(wanted.path.clone());
        }
    }
    panic!("objects are requested again and again")
}

const WEB: &[(&str, &str)] = &[
    ("web/Chart.yaml", "name: web\nversion: 1.0.0\n"),
    ("web/templates/a.yaml", "a: 1"),
    ("web/.helmignore", "*.md\n"),
    ("web/README.md", "ignored"),
    ("db/Chart.yaml", "name: db\nversion: 2.0.0\n"),
];

#[test]
fn a_chart_is_packed_from_the_objects_that_belong_to_it() {
    let (chart, mut fetched) = packed(WEB, "web");
    let chart = chart.unwrap();
    assert_eq!((&*chart.name, &*chart.version), ("web", "1.0.0"));
    fetched.sort_unstable();
    assert_eq!(
        fetched,
        ["web/.helmignore", "web/Chart.yaml", "web/templates/a.yaml"]
    );
    assert_eq!(packed(WEB, "web").0.unwrap().digest, chart.digest);
}

#[test]
fn the_list_says_whether_a_chart_is_the_same() {
    let content = packed(WEB, "web").0.unwrap().content;
    let is_same = |objects: &[(&str, &str)]| {
        let folders = folders(objects);
        let mut files = ListedFiles::new(Arc::clone(&folders), LARGEST);
        content.is_same_in(&mut files, folders.root(), &ChartPath::parse("web").unwrap())
    };
    assert!(is_same(WEB).unwrap());
    let with = |object| [WEB, &[object]].concat();
    assert!(is_same(&with(("other/a", "1"))).unwrap());
    assert!(!is_same(&with(("web/b", ""))).unwrap());
    let mut changed = WEB.to_vec();
    changed[1].1 = "a: 2";
    assert!(!is_same(&changed).unwrap());
    let mut reordered = WEB.to_vec();
    reordered.reverse();
    assert!(is_same(&reordered).unwrap());
    let other = [("db/Chart.yaml", "")];
    assert!(!is_same(&other).unwrap());
    let error = packed(&other, "web").0.unwrap_err().to_string();
    assert!(error.contains("\"web\"") && error.contains("db"), "{error}");
}

#[test]
fn a_chart_includes_another_folder_of_the_bucket() {
    let mut objects = WEB.to_vec();
    objects[0].1 =
        "name: web\nversion: 1.0.0\ndependencies:\n- {name: db, version: '*', repository: 'file://../db'}\n";
    let Content { local, .. } = packed(&objects, "web").0.unwrap().content;
    assert_eq!(
        local.into_keys().map(|path| path.to_string()).collect::<Vec<_>>(),
        ["\"db\""]
    );
}

#[test]
fn an_object_for_a_folder_is_no_file_and_a_large_one_is_not_fetched() {
    let (chart, fetched) = packed(&[WEB, &[("web/templates", "")]].concat(), "web");
    assert!(chart.is_ok() && !fetched.iter().any(|path| path == "web/templates"));
    let large = "x".repeat(LARGEST + 1);
    let (chart, fetched) = packed(&[WEB, &[("web/large", &large)]].concat(), "web");
    let error = chart.unwrap_err().to_string();
    assert!(
        error.contains("\"web/large\" has more than 1000 bytes"),
        "{error}"
    );
    assert!(!fetched.iter().any(|path| path == "web/large"));
}

#[test]
fn folders_are_bounded_and_odd_paths_left_out() {
    let deep = "a/".repeat(FOLDERS + 1);
    let error = ListedFolders::new(&listed(&[(&format!("{deep}b"), "1")]), FOLDERS);
    assert_eq!(error.err(), Some(TooManyFolders { limit: FOLDERS }));
    let odd = folders(&[("a//b", "1"), ("../c", "1"), ("/d", "1"), ("", "1"), ("e", "1")]);
    assert_eq!(
        odd.objects
            .values()
            .map(|object| &*object.path)
            .collect::<Vec<_>>(),
        ["e"]
    );
}

#[test]
fn objects_with_the_same_tag_have_names_of_their_own() {
    let object = |path: &str, tag: &str, size| {
        ListedFile {
            path: path.to_owned(),
            tag: tag.to_owned(),
            size,
        }
        .id()
    };
    let id = object("a", "1", 2);
    for other in [
        object("b", "1", 2),
        object("a", "2", 2),
        object("a", "1", 3),
        object("a1", "", 2),
    ] {
        assert_ne!(id, other);
    }
    assert_eq!(EntryId::from_hex(&id.to_string()), Some(id));
    assert_eq!(EntryId::from_hex(&"x".repeat(64)), None);
    assert_eq!(EntryId::from_hex(""), None);
}
