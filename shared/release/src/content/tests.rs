use helmops_api::BundleDeploymentOptions;
use helmops_content::{ContentId, Limits, Manifest, Resource};
use serde_json::{Value, json};

use super::*;

/// Recorded from Fleet's agent at commit 3b2c622ce: what was given to it, and what it has recorded.
const RECORDED: &str = include_str!("../../tests/truth/content.jsonl");
/// The namespace of the releases then. The table has `@NS@` in its place.
const NAMESPACE: &str = "agc-apps";

const LIMITS: Limits = Limits::CHART;

fn resources(files: &[(&str, &str)]) -> Vec<Resource> {
    let resource = |(name, content): &(&str, &str)| Resource {
        name: (*name).to_owned(),
        content: (*content).to_owned(),
        encoding: String::new(),
    };
    files.iter().map(resource).collect()
}

fn options(options: &Value) -> BundleDeploymentOptions {
    serde_json::from_str(&options.to_string()).unwrap()
}

struct Made {
    id: ContentId,
    entries: Vec<(String, String)>,
    patched: Vec<PatchedFile>,
}

impl Made {
    fn paths(&self) -> Vec<&str> {
        self.entries.iter().map(|(path, _)| &**path).collect()
    }

    fn text(&self, path: &str) -> &str {
        let found = self.entries.iter().find(|(name, _)| name == path);
        &found
            .unwrap_or_else(|| panic!("no {path} in {:?}", self.paths()))
            .1
    }
}

fn made_of(
    resources: Vec<Resource>,
    over: &Value,
    commit: &str,
    results: &[&str],
) -> Result<Made, ContentChartError> {
    let manifest = Manifest { resources };
    let (id, options) = (manifest.id(), options(over));
    let source = ContentSource {
        deployment: "123",
        commit,
        options: &options,
        id: &id,
        limits: LIMITS,
    };
    let files = ContentFiles::new(manifest, source)?;
    let patched = files.patched();
    let results = results.iter().map(|result| (*result).to_owned()).collect();
    let text = |entry: ChartEntry| {
        let bytes = entry.content.bytes(LIMITS).unwrap();
        (entry.path.clone(), String::from_utf8(bytes.into_owned()).unwrap())
    };
    let entries = files.entries(results).into_iter().map(text).collect();
    Ok(Made { id, entries, patched })
}

fn made(files: &[(&str, &str)], options: &Value) -> Made {
    made_of(resources(files), options, "", &[]).unwrap()
}

#[test]
fn manifests_are_files_of_a_chart_with_the_name_of_the_deployment() {
    let made = made(
        &[
            ("b.yaml", "b"),
            ("a/c.yml", "c"),
            ("d.json", "d"),
            ("templates/t.yaml", "t"),
            ("templates/_helpers.tpl", "h"),
            ("README.md", "r"),
            ("fleet.yaml", "f"),
            ("other/fleet.yml", "f"),
            ("other/deep/x.yaml", "x"),
            ("chart/Chart.yaml", "x"),
            ("chart/values.yaml", "x"),
            ("overlays/dev/b.yaml", "o"),
            ("", "n"),
            ("ü/ä.yaml", "ä"),
        ],
        &json!({ "helm": { "chart": "elsewhere" } }),
    );
    let expected = [
        "chart/raw-yaml/a/c.yml",
        "chart/raw-yaml/b.yaml",
        "chart/raw-yaml/d.json",
        "chart/raw-yaml/manifests/file012.yaml",
        "chart/templates/t.yaml",
        "chart/raw-yaml/ü/ä.yaml",
        "chart/Chart.yaml",
    ];
    assert_eq!(made.paths(), expected);
    let chart_yaml = made.text("chart/Chart.yaml");
    assert!(
        chart_yaml.starts_with("apiVersion: v2\nname: \"123\"\nversion: v0.0.0+s-"),
        "{chart_yaml}"
    );
    assert!(
        !chart_yaml.contains(made.id.as_str()),
        "the files are sorted, and fewer"
    );
}

#[test]
fn the_version_has_the_id_of_sorted_files_or_a_long_commit() {
    let files = [("a.yaml", "a"), ("b.yaml", "b")];
    let version = |commit: &str, over: &Value| {
        let made = made_of(resources(&files), over, commit, &[]).unwrap();
        let text = made.text("chart/Chart.yaml").to_owned();
        let version = text.rsplit_once('+').unwrap().1.trim_end().to_owned();
        (version == made.id.as_str(), version)
    };
    let none = json!({});
    assert!(version("", &none).0);
    assert!(version("0123456789ab", &none).0, "it is not longer");
    assert_eq!(version("0123456789abc", &none).1, "git-0123456789ab");
    // Fleet forgets the commit.
    assert!(version("0123456789abc", &json!({ "yaml": { "overlays": ["dev"] } })).0);
}

#[test]
fn a_chart_has_the_files_of_its_folder() {
    let files = [
        ("Chart.yaml", "root"),
        ("app/Chart.yaml", "app"),
        ("app/.helmignore", "i"),
        ("app/templates/a.tpl", "t"),
        ("application/a.yaml", "no"),
    ];
    let own = ["chart/Chart.yaml", "chart/.helmignore", "chart/templates/a.tpl"];
    for folder in ["app", "./app/", "x/../app"] {
        let made = made(&files, &json!({ "helm": { "chart": folder } }));
        assert_eq!(made.paths(), own, "{folder}");
        assert_eq!(made.text("chart/Chart.yaml"), "app");
    }
    assert_eq!(made(&files, &json!({ "helm": { "repo": "app" } })).paths(), own);
    let all = made(&files, &json!({}));
    assert_eq!(all.text("chart/Chart.yaml"), "root");
    assert_eq!(all.text("chart/app/Chart.yaml"), "app");
}

#[test]
fn a_downloaded_chart_is_found_by_the_digest_of_its_name() {
    // sha256 of "web:https://h:1.0.0".
    let options = json!({ "helm": { "chart": "web", "repo": "https://h", "version": "1.0.0" } });
    let sum = hex_of("web:https://h:1.0.0");
    let (one, deep) = (
        format!(".chart/{sum}/Chart.yaml"),
        format!(".chart/{sum}/web/Chart.yaml"),
    );
    let (too_deep, other) = (
        format!(".chart/{sum}/a/b/Chart.yaml"),
        format!(".chart/{}/Chart.yaml", hex_of("x")),
    );
    for (file, is_chart) in [(&one, true), (&deep, true), (&too_deep, false), (&other, false)] {
        let made = made(&[(file, "name: web")], &options);
        assert_eq!(made.text("chart/Chart.yaml") == "name: web", is_chart, "{file}");
    }
}

fn hex_of(text: &str) -> String {
    bounded_text::hex(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref())
}

#[test]
fn a_kustomization_has_all_files_beside_a_chart_without_any() {
    let files = [
        ("base/a.yaml", "a"),
        ("overlays/dev/kustomization.yaml", "k"),
        ("overlays/dev/p.yaml", "p"),
    ];
    let kustomized = made(&files, &json!({ "kustomize": { "dir": "./overlays/dev" } }));
    assert_eq!(
        kustomized.paths(),
        [
            "chart/Chart.yaml",
            "chart/.helmops-content/base/a.yaml",
            "chart/.helmops-content/overlays/dev/kustomization.yaml",
            "chart/.helmops-content/overlays/dev/p.yaml",
        ]
    );
    assert!(
        kustomized
            .text("chart/Chart.yaml")
            .contains(kustomized.id.as_str())
    );
    let manifests = made(&files, &json!({}));
    assert_eq!(
        manifests.paths(),
        ["chart/raw-yaml/base/a.yaml", "chart/Chart.yaml"]
    );
}

#[test]
fn a_chart_can_have_a_kustomization_in_a_folder_of_all_files() {
    let files = [
        ("app/Chart.yaml", "app"),
        ("app/patch/kustomization.yaml", "in"),
        ("dev/kustomization.yaml", "beside"),
    ];
    let made = |dir: &str| {
        made(
            &files,
            &json!({ "helm": { "chart": "app" }, "kustomize": { "dir": dir } }),
        )
    };
    assert_eq!(
        made("dev").text("chart/.helmops-content/dev/kustomization.yaml"),
        "beside"
    );
    assert_eq!(
        made("app/patch").text("chart/.helmops-content/app/patch/kustomization.yaml"),
        "in"
    );
    for dir in ["none", "patch"] {
        assert_eq!(
            made(dir).paths(),
            ["chart/Chart.yaml", "chart/patch/kustomization.yaml"],
            "{dir}"
        );
    }
}

#[test]
fn a_chart_has_no_files_where_those_of_kustomizations_are() {
    let options = json!({ "helm": { "chart": "app" } });
    let made = |path| {
        made_of(
            resources(&[("app/Chart.yaml", "app"), (path, "")]),
            &options,
            "",
            &[],
        )
    };
    assert!(made(".helmops-content/a").is_ok());
    let Err(error) = made("app/.helmops-content/a") else {
        panic!("it is a file for Kustomize");
    };
    assert!(
        error.to_string().contains("the file \"app/.helmops-content/a\""),
        "{error}"
    );
}

#[test]
fn overlays_replace_files_and_patch_them_in_their_order() {
    let files = [
        ("a.yaml", "a"),
        ("b.yaml", "b"),
        ("overlays/one/a_patch.yaml", "patch 1"),
        ("overlays/one/new.yaml", "new"),
        ("overlays/two/a_patch.yaml", "patch 2"),
        ("overlays/two/deep/b.yaml", "deep"),
        ("overlays/other/b.yaml", "other"),
    ];
    let over = |overlays: &Value| json!({ "yaml": { "overlays": overlays } });
    let made = made_of(resources(&files), &over(&json!(["one", "two"])), "", &["patched"]).unwrap();
    let [patched] = &made.patched[..] else {
        panic!("{:?}", made.patched);
    };
    assert_eq!(
        (&*patched.path, &*patched.text, &*patched.patches),
        ("a.yaml", "a", &["patch 1".to_owned(), "patch 2".to_owned()][..])
    );
    let expected = [
        "chart/raw-yaml/a.yaml",
        "chart/raw-yaml/b.yaml",
        "chart/raw-yaml/deep/b.yaml",
        "chart/raw-yaml/new.yaml",
        "chart/Chart.yaml",
    ];
    assert_eq!(made.paths(), expected);
    assert_eq!(made.text("chart/raw-yaml/a.yaml"), "patched");

    // A later overlay that has the file itself ends what was patched before.
    let replaced = [
        ("a.yaml", "a"),
        ("overlays/one/a_patch.yaml", "patch"),
        ("overlays/two/a.yaml", "other"),
    ];
    let made = made_of(resources(&replaced), &over(&json!(["one", "two"])), "", &[]).unwrap();
    assert!(made.patched.is_empty());
    assert_eq!(made.text("chart/raw-yaml/a.yaml"), "other");
}

#[test]
fn what_cannot_be_laid_over_files_is_named() {
    let over = json!({ "yaml": { "overlays": ["dev"] } });
    let error = |resources: Vec<Resource>, options: &Value| {
        let Err(error) = made_of(resources, options, "", &[]) else {
            panic!("it is accepted");
        };
        error.to_string()
    };
    let nothing = error(resources(&[("overlays/dev/x/a_patch.yaml", "p")]), &over);
    assert_eq!(
        nothing,
        "overlay \"dev\": the patch \"x/a_patch.yaml\" is for the file \"x/a.yaml\", which does not exist; correct its name: `_patch` is \
         left out of it"
    );
    let mut binary = resources(&[("a.yaml", "/w=="), ("overlays/dev/a_patch.yaml", "p")]);
    binary[0].encoding = "base64".to_owned();
    assert!(error(binary, &over).starts_with("\"a.yaml\" is not UTF-8 text"));
    let twice = resources(&[("a.yaml", "1"), ("a.yaml", "2")]);
    assert_eq!(
        error(twice, &json!({})),
        "the file \"a.yaml\" exists twice; remove one of the two from the Bundle"
    );
}

/// The files of a chart that a record has, by their paths.
fn recorded_files(record: &Value) -> Vec<(String, String)> {
    let of = |field: &str| record[field].as_object().into_iter().flatten();
    let files = of("templates").chain(of("files"));
    let text = |text: &Value| text.as_str().unwrap_or_default().replace("@NS@", NAMESPACE);
    let mut files: Vec<_> = files.map(|(path, value)| (path.clone(), text(value))).collect();
    files.sort_unstable();
    files
}

/// Whether a record has a file of a chart: others are in fields of their own.
fn is_recorded(path: &str) -> bool {
    let others = ["Chart.yaml", "values.yaml", "values.schema.json"];
    !others.contains(&path) && !["charts/", FOLDER].iter().any(|folder| path.starts_with(folder))
}

#[test]
fn charts_are_those_of_fleet() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        for step in row["steps"].as_array().unwrap() {
            let record = &step["expect"]["record"];
            if record["status"] != "deployed" {
                continue;
            }
            let (name, commit) = (row["name"].as_str().unwrap(), row["commit"].as_str().unwrap());
            let text = step["resources"].to_string().replace("@NS@", NAMESPACE);
            let manifest = Manifest {
                resources: serde_json::from_str(&text).unwrap(),
            };
            let (id, options) = (manifest.id(), options(&step["options"]));
            let source = ContentSource {
                deployment: name,
                commit,
                options: &options,
                id: &id,
                limits: LIMITS,
            };
            let files = ContentFiles::new(manifest, source).unwrap();
            // What the patches make of the files is for Helm's program.
            let patched = files.patched();
            let result = |file: &PatchedFile| {
                let text = record["files"][format!("raw-yaml/{}", file.path)].as_str();
                text.unwrap().to_owned()
            };
            let entries = files.entries(patched.iter().map(result).collect());
            let mut found = Vec::new();
            let mut chart_yaml = Value::Null;
            for entry in entries {
                let path = entry.path.strip_prefix(CHART).unwrap();
                let bytes = entry.content.bytes(LIMITS).unwrap().into_owned();
                let text = String::from_utf8(bytes).unwrap_or_default();
                if path == "Chart.yaml" {
                    chart_yaml =
                        go_formats::yaml::read(&text, &mut go_formats::yaml::Quota::default()).unwrap();
                }
                if is_recorded(path) {
                    found.push((path.to_owned(), text));
                }
            }
            found.sort_unstable();
            assert_eq!(found, recorded_files(record), "{name}");
            for field in ["name", "version"] {
                assert_eq!(chart_yaml[field], record["metadata"][field], "{name}");
            }
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}
