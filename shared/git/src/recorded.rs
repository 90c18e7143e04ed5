//! Responses and packs of `git` 2.39.5: a repository with one commit and two tags, as `git http-backend` sends it, and its objects as
//! `git pack-objects` writes them, with deltas by offset and by name.

use std::io::Read;

use helm_index::Unmetered;

use crate::{
    Limits, ObjectFormat, ObjectId, Objects, Pack, Reference, ReferenceFields,
    chart::{Assembly, ChartPath, Strategy, assemble, pack},
    wire::{Capabilities, ReferenceQuery, Version, advertisement, pack_body, references},
};

const COMMIT: &str = "6072fd4b00b3395406520dd13101aae401ea211a";
const TREE: &str = "afbed05973402d7566a408a6510c1a8340822268";
const CHART: &str = "81814639cd27d7155caea74229f6e7c04809db4f";

macro_rules! recorded {
    ($name:literal) => {
        &include_bytes!(concat!("../tests/recorded/", $name))[..]
    };
}

fn id(text: &str) -> ObjectId {
    ObjectId::from_hex(text).unwrap()
}

fn objects(pack: impl Read) -> Objects {
    let mut objects = Objects::default();
    let pack = Pack::read(
        pack,
        ObjectFormat::Sha1,
        Limits::default(),
        &mut Unmetered,
        || false,
    );
    objects.add(pack.unwrap().into());
    objects
}

fn capabilities(greeting: &[u8]) -> Capabilities {
    let read = advertisement(greeting, &ReferenceQuery::Tags, Limits::default(), &mut Unmetered);
    read.unwrap().capabilities
}

fn chart(objects: &mut Objects) -> Assembly {
    let root = objects.root(id(COMMIT)).unwrap();
    assert_eq!(root, id(TREE));
    assemble(objects, root, &ChartPath::parse("charts/web").unwrap()).unwrap()
}

#[test]
fn greetings_and_references_are_read() {
    let new = capabilities(recorded!("greeting.bin"));
    assert_eq!(
        (new.version, new.has_filter, new.names_format),
        (Version::Two, true, true)
    );
    let listed = references(
        recorded!("references.bin"),
        &ReferenceQuery::Tags,
        Limits::default(),
        &mut Unmetered,
    );
    let old = advertisement(
        recorded!("greeting-old.bin"),
        &ReferenceQuery::Tags,
        Limits::default(),
        &mut Unmetered,
    );
    let old = old.unwrap();
    assert_eq!(old.capabilities.version, Version::Old);
    let range = Reference::parse(ReferenceFields {
        semver: ">=1.0.1",
        ..ReferenceFields::default()
    });
    for references in [listed.unwrap(), old.references.unwrap()] {
        let selected = range.as_ref().unwrap().select(&references).unwrap();
        assert_eq!(
            (&*selected.name, selected.commit),
            ("refs/tags/v1.1.0", id(COMMIT))
        );
    }
}

#[test]
fn folders_come_without_files_and_a_whole_pack_with_them() {
    let body = pack_body(recorded!("trees.bin"), capabilities(recorded!("greeting.bin"))).unwrap();
    let Assembly::Missing(missing) = chart(&mut objects(body)) else {
        panic!("there are no files")
    };
    assert_eq!(missing.len(), 5);
    let body = pack_body(
        recorded!("whole-old.bin"),
        capabilities(recorded!("greeting-old.bin")),
    )
    .unwrap();
    let mut all = objects(body);
    let Assembly::Complete(files) = chart(&mut all) else {
        panic!("all files are there")
    };
    assert_eq!(files.content.tree, id(CHART));
    let packed = pack(&mut all, *files, Strategy::ChartVersion, 1 << 20).unwrap();
    assert_eq!((&*packed.name, &*packed.version), ("web", "1.0.0"));
}

#[test]
fn both_kinds_of_deltas_of_git_are_applied() {
    for pack in [recorded!("offsets.pack"), recorded!("names.pack")] {
        let mut objects = objects(pack);
        let large = objects
            .get(id("6df791d4aaabb0a1cccb73e2b2c29ca17788125d"))
            .unwrap()
            .unwrap();
        assert_eq!(large.content.len(), 1795);
        for delta in [
            "6aec38763b208e1ba88bcb9926e5b442889baac9",
            "ded1a49e341c3ceba61bbb882dde5e83d37ff4e4",
        ] {
            let object = objects.get(id(delta)).unwrap().unwrap();
            assert_eq!(
                ObjectId::of(ObjectFormat::Sha1, object.kind, &object.content),
                id(delta)
            );
            assert!(object.content.starts_with(b"# values\n"));
        }
        assert!(matches!(chart(&mut objects), Assembly::Complete(_)));
    }
}
