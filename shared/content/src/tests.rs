use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use helmops_api::{Content, labels};

use super::*;

const LIMITS: Limits = Limits::CHART;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn object(bytes: &[u8]) -> Content {
    Content {
        content: STANDARD.encode(bytes),
        ..Content::default()
    }
}

/// A Content as Fleet writes it, with the ID of its JSON.
fn of_json(json: &str) -> (Content, ContentId) {
    let id = ContentId::of_sha256(&digest::sha256(json.as_bytes()));
    (object(&gzip(json.as_bytes())), id)
}

fn open_json(json: &str, limits: Limits) -> Result<Manifest, ContentError> {
    let (content, id) = of_json(json);
    whole(&content, &id, limits)
}

/// What is in one object.
fn whole(content: &Content, id: &ContentId, limits: Limits) -> Result<Manifest, ContentError> {
    match open(content, id, limits)? {
        Opened::Whole(compressed) => Manifest::decompress(&*compressed, id, limits),
        Opened::Split(parts) => panic!("{parts:?}"),
    }
}

fn manifest(files: &[(&str, &[u8])]) -> Manifest {
    let files = files
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.to_vec()));
    Manifest::of_files(files.collect(), LIMITS).unwrap()
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(step).collect()
}

fn split() -> (Manifest, Encoded) {
    let manifest = manifest(&[
        ("chart/files/noise", &noise(3 << 20)),
        ("chart/Chart.yaml", b"name: web\n"),
    ]);
    let encoded = manifest.encode(LIMITS).unwrap();
    (manifest, encoded)
}

fn parts_of(encoded: &Encoded) -> Parts {
    match open(&encoded.head(), encoded.id(), LIMITS).unwrap() {
        Opened::Split(parts) => parts,
        Opened::Whole(_) => panic!("it is not split"),
    }
}

#[test]
fn ids_are_those_of_fleet() {
    // Computed by `Manifest.ID` of Fleet's internal/manifest.
    for (files, id) in [
        (
            &[("foo", &b"bar"[..])][..],
            "s-b538e5004002a3ba4700d90b52d258f575e288e584c03e0e301f2032e937f",
        ),
        (
            &[],
            "s-ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442",
        ),
        (
            &[
                (
                    "chart/templates/a.yaml",
                    "a: \"<&>\"\tä\u{2028}\u{1}\u{7f}\n".as_bytes(),
                ),
                ("chart/Chart.yaml", b"apiVersion: v2\nname: web\nversion: 1.2.3\n"),
            ],
            "s-1640f14b295a8ffc9bfabdd9bede92d9eeb3d39a900109b49d664ccde27aa",
        ),
    ] {
        assert_eq!(
            manifest(files).encode(LIMITS).unwrap().id().as_str(),
            id,
            "{files:?}"
        );
    }
}

#[test]
fn content_of_fleet_is_read_as_it_was_written() {
    // From the test of `Store` in Fleet's internal/manifest/store_test.go: spaces are a part of what is hashed.
    let json = r#"{"resources": [{"name": "foo", "content": "bar"}]}"#;
    let (content, id) = of_json(json);
    assert_eq!(
        id.as_str(),
        "s-752ebbb975f52eea5e87950ef2ca5de4055de3c68a17f54d94527d7fd79c2"
    );
    let read = whole(&content, &id, LIMITS).unwrap();
    assert_eq!(read, manifest(&[("foo", b"bar")]));
    assert_eq!(Manifest::read(json.as_bytes(), &id, LIMITS).unwrap(), read);
    for empty in [r"{}", r#"{"resources":null}"#, r#"{"commit":"a","resources":[]}"#] {
        assert_eq!(open_json(empty, LIMITS).unwrap(), Manifest::default());
    }
    let nulls = open_json(
        r#"{"resources":[{"name":null,"content":null,"encoding":null}]}"#,
        LIMITS,
    );
    assert_eq!(nulls.unwrap().resources, [Resource::default()]);
}

#[test]
fn files_are_sorted_and_survive_whatever_they_contain() {
    let binary = [0_u8, 159, 146, 150];
    let manifest = manifest(&[("b", &binary), ("a", "ä\r\n".as_bytes()), ("c", b"")]);
    let encodings = manifest.resources.iter().map(|resource| &*resource.encoding);
    assert_eq!(encodings.collect::<Vec<_>>(), ["", "base64+gz", ""]);
    let encoded = manifest.encode(LIMITS).unwrap();
    assert_eq!(encoded.parts().count(), 0);
    let head = encoded.head();
    assert_eq!(head.metadata.name.as_deref(), Some(encoded.id().as_str()));
    assert!(head.sha256sum.starts_with(encoded.id().digits()));
    let read = whole(&head, encoded.id(), LIMITS).unwrap();
    assert_eq!(read, manifest);
    let decoded = read
        .resources
        .iter()
        .map(|resource| resource.decode(LIMITS).unwrap());
    assert_eq!(decoded.collect::<Vec<_>>(), ["ä\r\n".as_bytes(), &binary, b""]);
}

#[test]
fn encodings_of_fleet_are_decoded() {
    let resource = |encoding: &str, content: &str| Resource {
        name: "a".to_owned(),
        content: content.to_owned(),
        encoding: encoding.to_owned(),
    };
    let compressed = STANDARD.encode(gzip(b"text"));
    for (encoding, content) in [
        ("", "text"),
        ("base64", "dGV4\ndA=="),
        ("base64+gz", &*compressed),
    ] {
        let resource = resource(encoding, content);
        assert_eq!(*resource.decode(LIMITS).unwrap(), *b"text", "{encoding}");
    }
    for (encoding, content) in [("base64", "dGV0dA"), ("base64+gz", "dGV0dA=="), ("gz", "text")] {
        let resource = resource(encoding, content);
        let error = resource.decode(LIMITS).unwrap_err();
        assert!(matches!(error, ContentError::File { .. }), "{error}");
    }
    let small = Limits { file: 3, ..LIMITS };
    for (encoding, content) in [("", "text"), ("base64+gz", &*compressed)] {
        let resource = resource(encoding, content);
        let error = resource.decode(small).unwrap_err();
        assert!(error.is_size(), "{error}");
    }
}

#[test]
fn large_content_is_split_and_put_together() {
    let (manifest, encoded) = split();
    let parts: Vec<_> = encoded.parts().collect();
    assert_eq!(parts.len(), encoded.bytes().div_ceil(BYTES_IN_OBJECT));
    for part in &parts {
        let size = serde_json::to_string(part).unwrap().len();
        assert!(size < 1_500_000, "{size}");
    }
    let (mut missing, mut compressed) = (parts_of(&encoded), Vec::new());
    let names: Vec<_> = missing.names().collect();
    let head = encoded.head();
    let annotations = head.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[labels::CONTENT_PARTS], names.join(","));
    for part in &parts {
        assert_eq!(missing.next_name(), part.metadata.name.clone());
        compressed.extend(missing.read(part).unwrap());
    }
    assert_eq!(missing.next_name(), None);
    let read = Manifest::decompress(&*compressed, encoded.id(), LIMITS);
    assert_eq!(read.unwrap(), manifest);
}

#[test]
fn a_character_of_six_bytes_may_be_anywhere() {
    let text = format!("{}ä{}<", "a".repeat((64 << 10) - 1), "\u{1}".repeat(100_000));
    let encoded = manifest(&[("a", text.as_bytes())]).encode(LIMITS).unwrap();
    assert_eq!(manifest(&[("a", text.as_bytes())]).id(), *encoded.id());
    let read = whole(&encoded.head(), encoded.id(), LIMITS).unwrap();
    assert!(read.resources[0].content == text);
    assert_eq!(encoded.json_bytes(), 42 + (64 << 10) - 1 + 2 + 600_000 + 6);
}

#[test]
fn the_head_of_split_content_is_no_content_for_fleet() {
    let (_, encoded) = split();
    let head = encoded.head();
    let opened = STANDARD.decode(&head.content).unwrap();
    let Ok(opened) = gunzip::gunzip(&*opened, 1 << 20, 0) else {
        panic!("it is not compressed");
    };
    // Fleet's agent compares these before it deploys anything.
    assert_ne!(opened.sha256, head.sha256sum);
}

#[test]
fn a_part_that_is_missing_changed_or_in_another_place_is_found() {
    let (_, encoded) = split();
    let mut parts: Vec<_> = encoded.parts().collect();
    let first = parts_of(&encoded).read(&parts[0]).unwrap();
    let error = Manifest::decompress(&*first, encoded.id(), LIMITS).unwrap_err();
    assert!(matches!(error, ContentError::Damaged { .. }), "{error}");

    parts.swap(0, 1);
    let error = parts_of(&encoded).read(&parts[0]).unwrap_err();
    assert!(matches!(error, ContentError::Mismatch { .. }), "{error}");

    let mut changed = STANDARD.decode(&parts[1].content).unwrap();
    changed[5] ^= 1;
    let error = parts_of(&encoded).read(&object(&changed)).unwrap_err();
    assert!(matches!(error, ContentError::Mismatch { .. }), "{error}");

    let mut all = parts_of(&encoded);
    for part in encoded.parts() {
        all.read(&part).unwrap();
    }
    let error = all.read(&parts[0]).unwrap_err();
    assert!(matches!(error, ContentError::SurplusPart { .. }), "{error}");
}

#[test]
fn parts_of_other_content_are_refused() {
    let (_, encoded) = split();
    let other = manifest(&[("a", b"b")]).encode(LIMITS).unwrap();
    let Opened::Split(mut parts) = open(&encoded.head(), other.id(), LIMITS).unwrap() else {
        panic!("it is split");
    };
    let read = encoded.parts().flat_map(|part| parts.read(&part).unwrap());
    let compressed: Vec<_> = read.collect();
    let error = Manifest::decompress(&*compressed, other.id(), LIMITS).unwrap_err();
    assert!(matches!(error, ContentError::Mismatch { .. }), "{error}");
}

#[test]
fn ids_are_found_in_any_text() {
    let (one, other) = (manifest(&[("a", b"")]).id(), manifest(&[("b", b"")]).id());
    let text =
        format!("{{\"x\":\"[{{\\\"content\\\":\\\"{one}\\\"}}]\",\"s-1\":[\"{other}:s-{one}\", \"s-ä\"]}}s-");
    let found: Vec<_> = ContentId::all_in(&text).collect();
    assert_eq!(found, [one.clone(), other, one]);
}

#[test]
fn what_is_not_the_content_of_the_id_is_refused() {
    let (content, id) = of_json(r#"{"resources":[]}"#);
    let (other, _) = of_json("{}");
    let list = r#"{"parts":["../../api/v1/secrets"]}"#;
    let (names, _) = of_json(list);
    let whole = STANDARD.decode(&content.content).unwrap();
    let cut = object(&whole[..whole.len() - 3]);
    let text = Content {
        content: "§".to_owned(),
        ..Content::default()
    };
    for (content, expected) in [
        (other, "SHA-256 sum"),
        (names, "SHA-256 sums"),
        (cut, "damaged"),
        (text, "not base64"),
        (Content::default(), "damaged"),
    ] {
        let error = open(&content, &id, LIMITS).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(id.as_str()), "{error}");
    }
    for json in [r#"{"resources":[1]}"#, r#"{"resources":[null]}"#, "{} {}", "1"] {
        let opened = open_json(json, LIMITS);
        assert!(
            matches!(opened, Err(ContentError::Json { .. })),
            "{json}: {opened:?}"
        );
    }
}

#[test]
fn whatever_is_read_or_written_has_limits() {
    let small = Limits {
        compressed: 400,
        json: 2_000,
        file: 1_000,
        files: 3,
    };
    let files = |count: usize, bytes: usize| {
        let file = |index| (format!("{index}"), noise(bytes));
        let manifest = Manifest::of_files((0..count).map(file).collect(), small);
        manifest.and_then(|manifest| manifest.encode(small))
    };
    let limits: Vec<_> = [(4, 0), (1, 1_001), (1, 900), (3, 900), (3, 10)]
        .map(|(count, bytes)| match files(count, bytes) {
            Err(ContentError::TooManyFiles { .. }) => "files",
            Err(ContentError::FileTooLarge { .. }) => "file",
            Err(ContentError::CompressedTooLarge { .. }) => "compressed",
            Err(ContentError::TooLarge { .. }) => "json",
            Err(error) => panic!("{error}"),
            Ok(_) => "-",
        })
        .into();
    assert_eq!(limits, ["files", "file", "compressed", "json", "-"]);

    let roomy = Limits {
        compressed: 10_000,
        ..small
    };
    let bomb = format!(r#"{{"resources":[{{"content":"{}"}}]}}"#, "a".repeat(100_000));
    assert!(matches!(
        open_json(&bomb, roomy),
        Err(ContentError::TooLarge { .. })
    ));
    for many in ["{},", "[],"] {
        let json = format!(r#"{{"resources":[{}{{}}]}}"#, many.repeat(10));
        assert!(matches!(
            open_json(&json, small),
            Err(ContentError::TooManyFiles { .. })
        ));
    }
    let (content, id) = of_json("{}");
    let tiny = Limits {
        compressed: 5,
        ..small
    };
    assert!(open(&content, &id, tiny).unwrap_err().is_size());
}

#[test]
fn paths_stay_in_their_folder() {
    for (path, problem) in [
        ("/etc/passwd", PathProblem::Absolute),
        ("a/../../b", PathProblem::Parent),
        ("a\\..\\b", PathProblem::Parent),
        ("a\nb", PathProblem::Control),
        (&"a".repeat(1_025), PathProblem::TooLong),
    ] {
        let json = format!(
            r#"{{"resources":[{{"name":{}}}]}}"#,
            serde_json::Value::from(path)
        );
        let read = open_json(&json, LIMITS).unwrap_err();
        let written = Resource::of_file(path.to_owned(), Vec::new()).unwrap_err();
        assert_eq!(read, written);
        assert!(
            matches!(read, ContentError::Path { problem: found, .. } if found == problem),
            "{read}"
        );
    }
    for path in ["", "a", "a/b..c", "ä/…", ".chart/0/web/Chart.yaml"] {
        assert!(Resource::of_file(path.to_owned(), Vec::new()).is_ok(), "{path}");
    }
}

#[test]
fn ids_are_found_in_names_and_deployment_ids() {
    let (_, encoded) = split();
    let id = encoded.id();
    assert_eq!(id.as_str().len(), 63);
    for object in encoded.parts().chain([encoded.head()]) {
        let name = object.metadata.name.as_deref().unwrap();
        assert_eq!(ContentId::of_object(name).as_ref(), Some(id));
        assert!(
            object
                .metadata
                .labels
                .as_ref()
                .unwrap()
                .contains_key(labels::CONTENT)
        );
        assert!(
            object
                .metadata
                .annotations
                .as_ref()
                .unwrap()
                .contains_key(labels::CONTENT_BYTES)
        );
    }
    assert_eq!(deployment_content(&format!("{id}:abc")).as_ref(), Some(id));
    assert_eq!(deployment_content(id.as_str()).as_ref(), Some(id));
    for text in [
        "",
        ":abc",
        "s-",
        "sha256:abc",
        &format!("{id}0:abc"),
        &id.as_str().to_uppercase(),
    ] {
        assert_eq!(deployment_content(text), None, "{text}");
    }
    assert_eq!(ContentId::of_object(&format!("{id}x")), None);
}

/// The archive of a chart with these files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[test]
fn the_content_of_a_chart_depends_only_on_its_files() {
    let chart: &[u8] = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let of = |archive: &[u8]| of_chart(archive, "web", helm_archive::Limits::HELM, LIMITS);
    let one = of(&archive(&[("web/Chart.yaml", chart), ("web/a.bin", &[255, 0])])).unwrap();
    let other = of(&archive(&[
        ("web-1.0.0/a.bin", &[255, 0]),
        ("web-1.0.0/Chart.yaml", chart),
    ]))
    .unwrap();
    assert_eq!(one, other);
    let read = whole(&one.head(), one.id(), LIMITS).unwrap();
    assert_eq!(
        read,
        manifest(&[("web/Chart.yaml", chart), ("web/a.bin", &[255, 0])])
    );

    let error = of(b"no archive").unwrap_err();
    assert!(
        matches!(error, ChartContentError::Archive(_)) && !error.is_size(),
        "{error}"
    );
    let tiny = helm_archive::Limits {
        file: 10,
        ..helm_archive::Limits::HELM
    };
    let error = of_chart(&archive(&[("web/Chart.yaml", chart)]), "web", tiny, LIMITS).unwrap_err();
    assert!(error.is_size(), "{error}");
}
