//! Hostile charts and values: each is refused with the cause or contained, and nothing else is affected.
//!
//! All of them are on one cluster, with two honest releases. `helm-archive` and `helmops-fetch` have more kinds of archives and servers.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context, ensure};
use flate2::{Compression, write::GzEncoder};
use helmops_bed::wait::eventually;
use helmops_release::marks;
use helmops_release::record::{SECRET_TYPE, secret_name};
use serde_json::{Value, json};
use tar::{EntryType, Header};

use crate::harness::SOON;
use crate::harness::agent::{CONFIG, Fixture};

const CHART_YAML: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
/// A release of another user.
const VICTIM: &str = "victim";

/// An archive, written entry by entry.
struct Archive(GzEncoder<Vec<u8>>);

impl Archive {
    fn chart() -> Self {
        Self::empty().file("web/Chart.yaml", CHART_YAML.as_bytes())
    }

    fn empty() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", content)
    }

    /// Without the checks of the crate.
    fn entry(mut self, kind: EntryType, path: &str, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_entry_type(kind);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        let padding = content.len().next_multiple_of(512) - content.len();
        for part in [header.as_bytes(), content, &[0; 512][..padding]] {
            self.0.write_all(part).unwrap();
        }
        self
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.write_all(&[0; 1024]).unwrap();
        self.0.finish().unwrap()
    }
}

/// Archives, by the name of their BundleDeployment, with parts of the message.
fn archives() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let zeros = vec![0; 5 << 20];
    let with = |path: &str| Archive::chart().file(path, b"x").bytes();
    let many = (0..10_001).fold(Archive::chart(), |archive, number| {
        archive.file(&format!("web/files/{number}"), b"")
    });
    let bomb = (0..22).fold(Archive::chart(), |archive, number| {
        archive.file(&format!("web/files/{number}"), &zeros)
    });
    let special = |kind, link: &str| Archive::chart().entry(kind, "web/values.yaml", link, b"").bytes();
    let subchart = with("web/../../../outside");
    vec![
        ("traversal", with("web/../../outside"), "leads out of the folder"),
        ("absolute", with("/tmp/outside"), "is absolute"),
        (
            "symlink",
            special(EntryType::Symlink, "/etc/passwd"),
            "a symbolic link",
        ),
        ("hardlink", special(EntryType::Link, "/etc/passwd"), "a hard link"),
        ("device", special(EntryType::Char, ""), "a device"),
        ("twice", with("web/Chart.yaml"), "web/Chart.yaml twice"),
        ("bomb", bomb.bytes(), "after decompression"),
        ("many", many.bytes(), "more than 10000 files"),
        (
            "large",
            Archive::chart().file("web/files/x", &vec![0; 6 << 20]).bytes(),
            "Helm reads files of at most",
        ),
        (
            "subchart",
            Archive::chart().file("web/charts/evil.tgz", &subchart).bytes(),
            "leads out of the folder",
        ),
        ("text", b"#!/bin/sh".to_vec(), "not a chart archive"),
        (
            "chartless",
            Archive::empty().file("web/values.yaml", b"").bytes(),
            "no Chart.yaml",
        ),
    ]
}

/// The record of a release that does not exist, as an object of a chart.
fn record(name: &str, r#type: &str) -> String {
    let labels = json!({ "owner": "helm", "name": VICTIM, "version": "9", "status": "deployed" });
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": r#type, "metadata": { "name": name, "labels": labels },
        "stringData": { "release": "H4sIAAAAAAAA" },
    })
    .to_string()
}

/// Charts with records of another release, each in a way of its own: Helm creates what is in folders `crds` without the post-renderer,
/// and finds records by their labels alone.
fn records() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let record_of_helm = record(&secret_name(VICTIM, 9), SECRET_TYPE);
    let labelled = record("settings", "Opaque");
    let chart = |path: &str, content: &str| Archive::chart().file(path, content.as_bytes());
    // Behind what is allowed there.
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.example.com}\n";
    let second = format!("{crd}---\n{record_of_helm}\n");
    let packed = chart("web/crds/record.json", &record_of_helm);
    let is_secret = "kind \"Secret\" and apiVersion \"v1\"; a folder crds is for CustomResourceDefinitions";
    let only_helm = "only Helm may write";
    vec![
        ("crds", chart("web/crds/record.yaml", &second).bytes(), is_secret),
        (
            "subcrds",
            Archive::chart()
                .file("web/charts/sub-1.0.0.tgz", &packed.bytes())
                .bytes(),
            "web/charts/sub-1.0.0.tgz in the archive: web/crds/record.json in the archive contains an object of kind \"Secret\"",
        ),
        (
            "named",
            chart("web/templates/record.yaml", &record_of_helm).bytes(),
            only_helm,
        ),
        (
            "labelled",
            chart("web/templates/record.yaml", &labelled).bytes(),
            only_helm,
        ),
    ]
}

/// An index with one version of the chart `web`.
fn index(more: &str) -> String {
    format!(
        "apiVersion: v1\nentries:\n  web:\n  - {{apiVersion: v2, name: web, version: 1.0.0, urls: [web.tgz]{more}}}\n"
    )
}

/// Repositories, with parts of the message.
fn repositories() -> Vec<(&'static str, String, Vec<u8>, &'static str)> {
    let digest = format!(", digest: '{}'", "0".repeat(64));
    let mut aliases = "apiVersion: v1\nentries:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let many = vec![format!("*a{}", level - 1); 10].join(", ");
        let _ = writeln!(aliases, "  a{level}: &a{level} [{many}]");
    }
    aliases.push_str("  web: *a8\n");
    vec![
        ("digest", index(&digest), Archive::chart().bytes(), "digest"),
        ("aliases", aliases, Vec::new(), "index.yaml"),
        (
            "huge",
            format!("{}#{}", index(""), "x".repeat(80 << 20)),
            Vec::new(),
            "index.yaml",
        ),
    ]
}

/// Templates that fail, with parts of the message.
fn templates() -> Vec<(&'static str, String, &'static str)> {
    let line = "x".repeat(1000);
    let output = format!("{CONFIG}  large: |\n    {{{{ range until 40000 }}}}{line}{{{{ end }}}}\n");
    vec![
        (
            "recursion",
            "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}".to_owned(),
            "error calling include",
        ),
        ("output", output, "more than the maximum of"),
        (
            "environment",
            "{{ env \"HOME\" }}".to_owned(),
            "function \"env\" not defined",
        ),
        (
            "foreign",
            "{{ readFile \"/etc/passwd\" }}".to_owned(),
            "not defined",
        ),
    ]
}

/// A chart in its own archive, in place of one of the repository.
fn of_archive(fixture: &Fixture, file: &str) -> Value {
    let url = format!("{}/{file}", fixture.charts.url());
    json!({ "options": { "helm": { "repo": null, "chart": url, "version": null } } })
}

/// Deploys everything that has to be refused, and returns the parts of the messages.
async fn deploy_refused(fixture: &Fixture) -> Vec<(&'static str, &'static str)> {
    let mut expected = Vec::new();
    for (name, archive, part) in archives().into_iter().chain(records()) {
        let file = format!("{name}.tgz");
        fixture.charts.file(&file, &archive);
        fixture.deploy(name, "", &of_archive(fixture, &file)).await;
        expected.push((name, part));
    }
    for (name, index, archive, part) in repositories() {
        fixture
            .charts
            .file(&format!("{name}/index.yaml"), index.as_bytes());
        fixture.charts.file(&format!("{name}/web.tgz"), &archive);
        let repo = format!("{}/{name}", fixture.charts.url());
        let spec = json!({ "options": { "helm": { "repo": repo } } });
        fixture.deploy(name, "1.0.0", &spec).await;
        expected.push((name, part));
    }
    for (name, template, part) in templates() {
        let chart = Archive::chart().file("web/templates/config.yaml", template.as_bytes());
        let file = format!("{name}.tgz");
        fixture
            .charts
            .file(&file, &chart.file("web/values.yaml", b"msg: hello\n").bytes());
        fixture.deploy(name, "", &of_archive(fixture, &file)).await;
        expected.push((name, part));
    }
    let with_helm = |helm: Value| json!({ "options": { "helm": helm } });
    for (name, spec, part) in [
        (
            "metadata",
            with_helm(json!({ "repo": "http://169.254.169.254/latest" })),
            "169.254.169.254",
        ),
        (
            "hash",
            json!({ "valuesHash": "0".repeat(64) }),
            "it has the Helm values",
        ),
    ] {
        fixture.deploy(name, "1.0.0", &spec).await;
        expected.push((name, part));
    }
    let deep = format!("a: {}{}\n", "[".repeat(20_000), "]".repeat(20_000));
    let hash = fixture.values("deep", &deep).await;
    fixture
        .deploy("deep", "1.0.0", &json!({ "valuesHash": hash }))
        .await;
    expected.push(("deep", "nests more than 100 deep"));
    expected
}

/// A template that computes for hours, and needs no memory for that.
const LOOP: &str = "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}";

/// Marks of another release, and the annotations of another BundleDeployment.
fn forged(fixture: &Fixture, of: &str, live: &Value) -> Vec<u8> {
    let chart = json!({
        "apiVersion": "v2", "name": "web", "version": "1.0.0",
        "annotations": { marks::BUNDLE_ID: of, marks::AGENT_NAMESPACE: fixture.system.name(), marks::SERVICE_ACCOUNT: "admin" },
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "forged", "labels": live["metadata"]["labels"], "annotations": live["metadata"]["annotations"],
        },
        "data": { "msg": "{{ .Files.Get `../../../../../../etc/passwd` }}{{ .Files.Get `/etc/passwd` }}" },
    });
    Archive::empty()
        .file("web/Chart.yaml", chart.to_string().as_bytes())
        .file("web/templates/config.yaml", object.to_string().as_bytes())
        .bytes()
}

/// Also not if the agent is to apply the CRDs in place of Helm: then the chart is deployed without what is in its folder.
async fn assert_no_record_of_a_chart(fixture: &Fixture) {
    let victim = format!("secret/{}", secret_name(VICTIM, 9));
    let mut skips_crds = of_archive(fixture, "crds.tgz");
    skips_crds["lifecycle"] = json!({ "install": { "crds": "Skip" } });
    fixture.deploy("crds", "", &skips_crds).await;
    fixture.until_ready("crds").await;
    for secret in [&*victim, "secret/settings"] {
        assert_eq!(fixture.object(secret).await, None, "{secret}");
    }
}

#[tokio::test]
async fn hostile_charts_and_values_are_refused_or_contained() {
    let fixture = Fixture::new("hostile").await;
    let mut agent = fixture.start().await;
    fixture.deploy("honest", "1.0.0", &json!({})).await;
    let before = fixture.until_ready("honest").await;
    let honest = format!("configmap/{}-config", fixture.name("honest"));
    let live = fixture.object(&honest).await.unwrap();

    let looping = Archive::chart().file("web/templates/loop.yaml", LOOP.as_bytes());
    fixture.charts.file("loop.tgz", &looping.bytes());
    fixture
        .deploy("loop", "", &of_archive(&fixture, "loop.tgz"))
        .await;
    let mut expected = deploy_refused(&fixture).await;
    // A build without optimization decompresses slowly.
    expected.sort_by_key(|(name, _)| *name == "bomb");
    fixture
        .charts
        .file("forged.tgz", &forged(&fixture, &fixture.name("honest"), &live));
    fixture
        .deploy("forged", "", &of_archive(&fixture, "forged.tgz"))
        .await;

    for (name, part) in &expected {
        let message = fixture.until_error(name, "Deployed", &[part]).await;
        assert!(message.len() < 5000, "{name}: {message}");
    }
    // Its marks are those of its own release, and it reads no file of the agent.
    fixture.until_ready("forged").await;
    let forged = fixture.object("configmap/forged").await.unwrap();
    assert_eq!(forged["data"]["msg"], "");
    let release = &forged["metadata"]["annotations"]["meta.helm.sh/release-name"];
    assert_eq!(*release, fixture.name("forged"));
    for (kind, mark) in [("labels", marks::SET_HASH), ("annotations", marks::SET_ID)] {
        let of = |object: &Value| object["metadata"][kind][mark].clone();
        assert!(of(&forged).is_string() && of(&forged) != of(&live), "{forged}");
    }
    // What computes takes one of the runs of Helm, and no other release waits for it.
    let looping = fixture.name("loop");
    assert_eq!(fixture.helm_runs_of(&looping), ["install"]);
    let second = fixture.barrier_without_removal().await;
    assert_eq!(fixture.helm_runs_of(&looping), ["install"], "it is still running");

    // Nothing of all this is left, and the honest release is as before.
    assert_eq!(fixture.object(&honest).await.unwrap(), live);
    let after = fixture.until_ready("honest").await;
    assert_eq!(after["status"], before["status"]);
    let records = fixture.records().await;
    let expected: Vec<_> = ["honest", "forged", &second]
        .map(|name| fixture.name(name))
        .to_vec();
    let is_expected = |record: &String| expected.iter().any(|name| record.contains(name.as_str()));
    assert!(
        records.len() == 3 && records.iter().all(is_expected),
        "{records:?}"
    );
    assert_no_record_of_a_chart(&fixture).await;
    let status = agent
        .process
        .pid()
        .and_then(|pid| Ok(std::fs::read_to_string(format!("/proc/{pid}/status"))?));
    let peak = peak(&status.unwrap()).unwrap();
    assert!(peak < 200 << 10, "the agent took {peak} KiB");
    eventually("only the loop to have files", SOON, async || {
        let left = std::fs::read_dir(fixture.folder("agent", "work"))?.count();
        // One workspace, and the token of the management cluster.
        ensure!(left <= 2, "{left} files");
        Ok(())
    })
    .await
    .unwrap();
    // The end of the agent ends it.
    let stopped = agent.process.terminate(SOON).await.unwrap();
    assert!(stopped.success(), "{stopped}");
}

/// The largest memory of a process, in KiB.
fn peak(status: &str) -> anyhow::Result<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmHWM")?.parse()?)
}
