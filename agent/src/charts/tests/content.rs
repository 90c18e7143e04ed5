//! From the BundleDeployment to the file, with the files of a Bundle.

use std::{
    fs::{self, File},
    io::Read,
    num::NonZeroUsize,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use helmops_api::{BundleDeployment, labels};
use helmops_content::{Encoded, Limits, Manifest};
use helmops_helm::{Helm, HelmProgram, run_scope::RunScope, workspace::Workspaces};
use helmops_model::reason::Reason;
use helmops_release::names::ReleaseKey;
use helmops_runtime::error_class::ClassifiedError;
use kube::Client;
use prometheus::Registry;
use serde_json::{Value, json};
use tar::Archive;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::downloads::charts;
use crate::{
    charts::{ChartError, ChartFile, Charts, OverlayPatches},
    error::AgentError,
    helm::{HelmMetrics, HelmRuns},
    inputs, testing,
};

/// The file, with a program that stands in for Helm: `helm` in the work folder.
pub async fn get(
    charts: &Charts,
    upstream: &Client,
    deployment: &BundleDeployment,
    work: &Path,
) -> Result<ChartFile, ChartError> {
    let program = HelmProgram::Engine {
        path: work.parent().unwrap_or(work).join("helm"),
        post_renderer: PathBuf::new(),
    };
    let runs = TempDir::new().unwrap();
    let workspaces = Workspaces::open(runs.path()).unwrap();
    let metrics = HelmMetrics::register(&Registry::new()).unwrap();
    let helm = HelmRuns::new(Helm::new(program, workspaces), NonZeroUsize::MIN, None, metrics);
    let patches = OverlayPatches {
        helm: &helm,
        release: &ReleaseKey::new("shop", "web"),
        stop: &RunScope::of_agent(&CancellationToken::new(), ""),
    };
    charts.get(upstream, deployment, &patches).await
}

fn encoded(files: &[(&str, &[u8])]) -> Encoded {
    let files = files
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.to_vec()));
    // Files of Bundles may be larger than those of charts.
    let limits = Limits {
        file: Limits::CHART.json,
        ..Limits::CHART
    };
    let manifest = Manifest::of_files(files.collect(), limits).unwrap();
    manifest.encode(limits).unwrap()
}

/// A management cluster with these Contents.
fn cluster(contents: Vec<helmops_api::Content>) -> (Client, impl Fn() -> usize) {
    let found = move |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let content = contents
            .iter()
            .find(|content| content.metadata.name.as_deref() == Some(name));
        match content {
            Some(content) => (200, json!(content)),
            None => (
                404,
                json!({ "kind": "Status", "code": 404, "reason": "NotFound" }),
            ),
        }
    };
    let (client, requests) = testing::server(move |_, path| found(path));
    (client, move || helmops_process::lock(&requests).len())
}

fn deployment(id: &str, options: &Value) -> BundleDeployment {
    let object = json!({
        "metadata": { "name": "web", "namespace": "cluster-a" },
        "spec": { "deploymentID": format!("{id}:1"), "options": options },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

struct Folders(TempDir);

impl Folders {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["cache", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn charts(&self) -> Charts {
        charts(&self.path("cache"), &self.path("work"), 1 << 20)
    }
}

fn files_of(path: &Path) -> Vec<(String, String)> {
    let mut archive = Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().display().to_string(), text)
    };
    archive.entries().unwrap().map(read).collect()
}

#[tokio::test]
async fn files_are_read_once_and_packed_as_a_chart() {
    let (folders, encoded) = (Folders::new(), encoded(&[("a.yaml", b"a: b\n")]));
    let (client, requests) = cluster(vec![encoded.head()]);
    let deployment = deployment(encoded.id().as_str(), &json!({}));
    let (charts, work) = (folders.charts(), folders.path("work"));
    let file = get(&charts, &client, &deployment, &work).await.unwrap();
    let files = files_of(file.path());
    let version = format!("v0.0.0+{}", encoded.id());
    assert_eq!(
        files,
        [
            ("chart/raw-yaml/a.yaml".to_owned(), "a: b\n".to_owned()),
            (
                "chart/Chart.yaml".to_owned(),
                format!("apiVersion: v2\nname: \"web\"\nversion: {version}\n")
            ),
        ]
    );
    let bytes = fs::read(file.path()).unwrap();
    drop(file);
    assert_eq!(requests(), 1);
    get(&charts, &client, &deployment, &work).await.unwrap();
    assert_eq!(requests(), 1, "it is in the cache");

    let other = Folders::new();
    let again = get(&other.charts(), &client, &deployment, &other.path("work"))
        .await
        .unwrap();
    assert_eq!(
        fs::read(again.path()).unwrap(),
        bytes,
        "the same files are the same archive"
    );
}

#[tokio::test]
async fn split_files_are_put_together() {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(2 << 20).collect();
    let chart = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let encoded = encoded(&[("Chart.yaml", chart), ("noise", &noise)]);
    let mut contents: Vec<_> = encoded.parts().chain([encoded.head()]).collect();
    assert!(contents.len() > 2);
    let folders = Folders::new();
    let (charts, work) = (
        charts(&folders.path("cache"), &folders.path("work"), 8 << 20),
        folders.path("work"),
    );
    let deployment = deployment(encoded.id().as_str(), &json!({}));
    let (client, _) = cluster(contents.clone());
    let file = get(&charts, &client, &deployment, &work).await.unwrap();
    let chart = Charts::chart_in(&file).await.unwrap();
    assert_eq!((&*chart.version, chart.files), ("1.0.0", 2));
    drop(file);

    // One of the parts is gone.
    contents.remove(1);
    let folders = Folders::new();
    let (client, _) = cluster(contents);
    let error = get(&folders.charts(), &client, &deployment, &folders.path("work"))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::ContentMissing);
    assert!(error.to_string().contains("with a part of the files"), "{error}");
}

#[tokio::test]
async fn what_is_not_the_content_of_the_deployment_is_refused() {
    let encoded = encoded(&[("a.yaml", b"a: b\n")]);
    let mut forged = self::encoded(&[("a.yaml", b"a: c\n")]).head();
    forged.metadata.name = Some(encoded.id().to_string());
    let id = encoded.id().as_str();
    let unreadable = json!({ "helm": { "chart": "app" } });
    for (contents, deployment, reason, text) in [
        (
            vec![],
            deployment(id, &json!({})),
            Reason::ContentMissing,
            "does not exist in the management cluster",
        ),
        (
            vec![forged],
            deployment(id, &json!({})),
            Reason::InvalidFiles,
            "cut; delete the Content object",
        ),
        (
            vec![],
            deployment("", &json!({})),
            Reason::InvalidFiles,
            "does not start with the ID",
        ),
        (
            vec![self::encoded(&[("app/Chart.yaml", b"name: [")]).head()],
            deployment(
                self::encoded(&[("app/Chart.yaml", b"name: [")]).id().as_str(),
                &unreadable,
            ),
            Reason::InvalidFiles,
            "the files of the Bundle make no chart: ",
        ),
    ] {
        let folders = Folders::new();
        let (client, _) = cluster(contents);
        let error = get(&folders.charts(), &client, &deployment, &folders.path("work"))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        let left = |name| fs::read_dir(folders.path(name)).unwrap().count();
        assert_eq!((left("cache"), left("work")), (0, 0));
    }
}

#[tokio::test]
async fn values_files_of_a_delivered_chart_are_read_and_those_of_a_bundle_are_in_its_values() {
    let chart = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let encoded = encoded(&[("web/Chart.yaml", chart), ("web/prod.yaml", b"a: 1\n")]);
    let helm = json!({ "chart": "web", "version": "1.0.0", "valuesFiles": ["prod.yaml"] });
    let mut deployment = deployment(encoded.id().as_str(), &json!({ "helm": helm }));
    let record = json!({ "repo": "", "chart": "web", "version": "1.0.0", "digest": "a" });
    for (record, expected) in [(None, json!({})), (Some(record), json!({ "a": 1 }))] {
        deployment.metadata.annotations =
            record.map(|record| [(labels::RESOLVED.to_owned(), record.to_string())].into());
        let folders = Folders::new();
        let (client, _) = cluster(vec![encoded.head()]);
        let file = get(&folders.charts(), &client, &deployment, &folders.path("work")).await;
        let file = file.unwrap();
        let merged = inputs::merged(&deployment, file.path(), inputs::Values::default()).await;
        let values: Value = serde_json::from_slice(&merged.unwrap().json).unwrap();
        assert_eq!(values, expected);
    }
}

/// A kustomization may name some of the files, and Helm has to read all of them.
#[tokio::test]
async fn files_beside_a_chart_that_no_archive_can_have_are_left_out() {
    let large = vec![b'a'; (5 << 20) + 1];
    let binary = vec![0xff; (5 << 20) + 1];
    let encoded = encoded(&[
        ("kustomization.yaml", b"resources: [a.yaml]\n"),
        ("a.yaml", b"a: b\n"),
        ("a\\b", b""),
        ("C:/a", b""),
        ("dashboards/large.json", &large),
        ("logo.png", &binary),
    ]);
    let folders = Folders::new();
    let (client, _) = cluster(vec![encoded.head()]);
    let deployment = deployment(encoded.id().as_str(), &json!({}));
    let file = get(&folders.charts(), &client, &deployment, &folders.path("work")).await;
    let files = files_of(file.unwrap().path());
    let paths: Vec<_> = files.iter().map(|(path, _)| &**path).collect();
    assert_eq!(
        paths,
        [
            "chart/Chart.yaml",
            "chart/.helmops-content/a.yaml",
            "chart/.helmops-content/kustomization.yaml"
        ]
    );
}

/// The kustomization of a HelmOp is a folder of its chart, wherever that comes from.
#[tokio::test]
async fn a_delivered_chart_is_the_one_that_was_published() {
    let chart = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let encoded = encoded(&[("web/Chart.yaml", chart), ("web/dev/kustomization.yaml", b"{}")]);
    let options =
        json!({ "helm": { "chart": "web", "version": "1.0.0" }, "kustomize": { "dir": "web/dev" } });
    let mut deployment = deployment(encoded.id().as_str(), &options);
    let record = json!({ "repo": "", "chart": "web", "version": "1.0.0", "digest": "" });
    let folders = Folders::new();
    let (client, _) = cluster(vec![encoded.head()]);
    let (charts, work) = (folders.charts(), folders.path("work"));
    for (annotations, count) in [
        (None, 4),
        (
            Some([(labels::RESOLVED.to_owned(), record.to_string())].into()),
            2,
        ),
    ] {
        deployment.metadata.annotations = annotations;
        let file = get(&charts, &client, &deployment, &work).await.unwrap();
        assert_eq!(files_of(file.path()).len(), count);
    }
}

/// A program that stands in for Helm.
fn write_helm(folders: &Folders, script: &str) {
    fs::write(folders.path("script"), script).unwrap();
    fs::set_permissions(folders.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    // Another process writes it: a child of another test could inherit our file, and one that is open cannot be executed.
    let copied = std::process::Command::new("cp")
        .arg(folders.path("script"))
        .arg(folders.path("helm"))
        .status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn files_of_others_wait_for_no_helm() {
    let patched = encoded(&[("a.yaml", b"a: b\n"), ("overlays/x/a_patch.yaml", b"a: c\n")]);
    let plain = encoded(&[("b.yaml", b"a: b\n")]);
    let folders = Folders::new();
    // It is ended with the test.
    write_helm(&folders, "#!/bin/sh\nexec sleep 30\n");
    let (client, _) = cluster(vec![patched.head(), plain.head()]);
    let (charts, work) = (folders.charts(), folders.path("work"));
    let waits = deployment(patched.id().as_str(), &json!({ "yaml": { "overlays": ["x"] } }));
    let other = deployment(plain.id().as_str(), &json!({}));
    let (slow, fast) = (
        get(&charts, &client, &waits, &work),
        get(&charts, &client, &other, &work),
    );
    tokio::select! {
        biased;
        ended = slow => panic!("{ended:?}"),
        file = fast => drop(file.unwrap()),
    }
}

#[tokio::test]
async fn patches_of_overlays_are_applied_by_helm() {
    let encoded = encoded(&[("a.yaml", b"a: b\n"), ("overlays/x/a_patch.yaml", b"a: c\n")]);
    let deployment = deployment(encoded.id().as_str(), &json!({ "yaml": { "overlays": ["x"] } }));
    for (outcome, expected) in [
        (r#"{"printed":"[\"{\\\"a\\\":\\\"c\\\"}\"]"}"#, Ok(r#"{"a":"c"}"#)),
        (
            r#"{"error":{"text":"overlays: cannot patch a.yaml: no","reason":"ObjectsRefused"}}"#,
            Err("cannot patch a.yaml"),
        ),
        ("{}", Err("0 of 1 files were patched")),
    ] {
        let folders = Folders::new();
        fs::write(folders.path("outcome"), outcome).unwrap();
        write_helm(
            &folders,
            &format!("#!/bin/sh\ncat {}\n", folders.path("outcome").display()),
        );
        let (client, _) = cluster(vec![encoded.head()]);
        let got = get(&folders.charts(), &client, &deployment, &folders.path("work")).await;
        match (got, expected) {
            (Ok(file), Ok(text)) => assert_eq!(files_of(file.path())[0].1, text),
            (Err(error), Err(text)) => {
                assert!(error.to_string().contains(text), "{error}");
                // What has ended it is for others to see.
                assert!(matches!(error.into(), AgentError::Helm(_)));
            }
            (got, expected) => panic!("{got:?} {expected:?}"),
        }
    }
}
