//! The examples in `manifests/examples`.

use std::path::PathBuf;

use helmops_bed::helmops::manifests;
use helmops_bed::namespace::TestNamespace;
use serde_json::Value;

use crate::harness::joined::suite;

/// The namespace of the HelmOps in the examples.
const NAMESPACE: &str = "fleet-default";

fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(manifests().join("examples")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The lines of the documentation that links an example.
fn documentation() -> String {
    let page = manifests().join("../docs/lifecycle.md");
    std::fs::read_to_string(page).unwrap()
}

/// Nothing is stored, so that nothing is fetched from the servers in the examples.
#[tokio::test]
async fn every_example_is_accepted_as_it_is() {
    let bed = &suite().await.controllers.bed;
    let namespace = TestNamespace::create(bed, "examples").await.unwrap();
    for file in examples() {
        let name = file.display();
        let text = std::fs::read_to_string(&file).unwrap();
        if !text.contains(NAMESPACE) {
            continue;
        }
        let text = text.replace(NAMESPACE, namespace.name());
        let apply = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--output=json",
            "--filename=-",
        ];
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let input = object.to_string();
            let applied = namespace.kubectl().run_with_input(&apply, &input).await.unwrap();
            if text.contains("lifecycle:") {
                assert_eq!(applied.stderr, "", "{name}");
            }
            let stored: Value = serde_json::from_str(&applied.ok().unwrap()).unwrap();
            assert_eq!(
                stored["spec"]["lifecycle"], object["spec"]["lifecycle"],
                "{name}: a field is not stored"
            );
        }
    }
}

#[test]
fn every_example_of_a_life_cycle_is_in_the_documentation() {
    let documentation = documentation();
    let all = examples();
    let own: Vec<_> = all
        .iter()
        .map(|file| file.file_name().unwrap().to_string_lossy())
        .filter(|name| name.starts_with("lifecycle"))
        .collect();
    assert!(own.len() >= 8, "{own:?}");
    for name in own {
        let link = format!("../manifests/examples/{name}");
        assert!(documentation.contains(&link), "{link} is not linked");
    }
}
