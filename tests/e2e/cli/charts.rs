//! `resolve`, `versions` and `outdated`.

use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::oci_registry::{LOGIN, OciRegistry};
use serde_json::{Value, json};

use crate::harness::whole::{NAMESPACE, Whole, whole};
use crate::harness::{condition, until, until_reason};

/// The test servers are on this machine.
const LOOPBACK: [&str; 2] = ["--allow-cidrs", "127.0.0.0/8"];

const VERSIONS: [&str; 6] = ["0.1.0", "0.2.0", "1.0.0", "1.2.0-rc.1", "1.1.0+build.5", "2.0.0"];

/// Runs a command on the test servers; it must succeed.
async fn succeeds(whole: &Whole, arguments: &[&str]) -> String {
    whole.succeeds(&[arguments, &LOOPBACK].concat()).await
}

/// The same with JSON.
async fn json_of(whole: &Whole, arguments: &[&str]) -> Value {
    let text = succeeds(whole, &[arguments, &["-o", "json"]].concat()).await;
    serde_json::from_str(&text).unwrap()
}

/// What a command prints on standard output and on standard error; it must end with this exit code.
async fn ends_with(whole: &Whole, code: i32, arguments: &[&str]) -> (String, String) {
    let output = whole.plugin(&[arguments, &LOOPBACK].concat()).await;
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    (output.stdout, output.stderr)
}

fn object(name: &str, label: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
        "metadata": { "name": name, "labels": { "test": label } }, "spec": spec,
    })
    .to_string()
}

async fn apply(whole: &Whole, object: &str) {
    whole.kubectl().apply(object).await.unwrap().ok().unwrap();
}

async fn secret(whole: &Whole, name: &str, data: &Value) {
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data });
    apply(whole, &secret.to_string()).await;
}

/// The charts that the controller has resolved.
async fn recorded(whole: &Whole, name: &str) -> Value {
    let helmop = until(whole.kubectl(), &format!("helmop/{name}"), |helmop| {
        let accepted = condition(helmop, "Accepted").is_some_and(|condition| condition["status"] == "True");
        anyhow::ensure!(accepted, "it is not accepted");
        Ok(())
    })
    .await;
    helmop["status"]["resolved"].clone()
}

/// Before a HelmOp is applied, `resolve` selects what the controller then records: versions, digests and URLs.
#[tokio::test]
async fn resolve_agrees_with_the_controller() {
    let whole = &whole().await;
    let registry = OciRegistry::private(&whole.bed).await.unwrap();
    for version in VERSIONS {
        registry.push("web", version).await.unwrap();
    }
    let (username, password) = LOGIN;
    let oci_secret = Whole::name("registry");
    let data = json!({ "username": username, "password": password, "cacerts": registry.ca() });
    secret(whole, &oci_secret, &data).await;

    let folder = whole.bed.directory.join("resolve-charts");
    let charts = ChartRepo::build(
        &whole.bed.tools,
        &folder,
        &[("web", &VERSIONS), ("db", &["3.0.0", "3.1.0"])],
    )
    .await
    .unwrap();
    let server = ChartServer::https(charts.folder()).await.unwrap();
    server.require_login("reader", "geheim");
    let repo_secret = Whole::name("repository");
    let data = json!({ "username": "reader", "password": "geheim", "cacerts": server.ca() });
    secret(whole, &repo_secret, &data).await;

    let repo = |version: &str| {
        json!({
            "helm": { "repo": server.url(), "chart": "web", "version": version }, "helmSecretName": repo_secret, "paused": true,
        })
    };
    let oci = |version: &str| {
        json!({
            "helm": { "repo": format!("oci://{}/charts/web", registry.host), "version": version },
            "helmSecretName": oci_secret, "paused": true,
        })
    };
    let mut several = repo("^1.0");
    several["targets"] = json!([
        { "clusterSelector": {}, "helm": { "chart": "db", "version": "~3.0" } },
        { "clusterSelector": {}, "helm": { "version": "0.1.0" } },
    ]);
    let public =
        json!({ "helm": { "repo": whole.server.url(), "chart": "web", "version": "0.x" }, "paused": true });
    let label = Whole::name("resolve");
    for (number, (spec, version)) in [
        (repo("^1.0"), "1.1.0+build.5"),
        (repo(""), "2.0.0"),
        (repo(">=1.2.0-0 <2"), "1.2.0-rc.1"),
        (repo("0.1.0"), "0.1.0"),
        (oci("^1.0"), "1.1.0+build.5"),
        (oci("*"), "2.0.0"),
        (oci(">=1.2.0-0 <2"), "1.2.0-rc.1"),
        (oci("0.2.0"), "0.2.0"),
        (several, "1.1.0+build.5"),
        (public, "0.2.0"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{label}-{number}");
        let helmop = object(&name, &label, &spec);
        let arguments = [&["resolve", "-f", "-", "-o", "json"], &LOOPBACK[..]].concat();
        let before = whole.plugin_with_input(&arguments, &helmop).await.ok().unwrap();
        let before: Value = serde_json::from_str(&before).unwrap();
        assert_eq!(before["charts"][0]["selected"]["version"], version, "{spec}");
        assert_eq!(
            before["charts"][0]["uptake"]["message"],
            "when the file is applied"
        );

        apply(whole, &helmop).await;
        let recorded = recorded(whole, &name).await;
        let after = json_of(whole, &["resolve", &name]).await;
        let charts = before["charts"].as_array().unwrap();
        assert_eq!(charts.len(), recorded.as_array().unwrap().len(), "{recorded}");
        for (at, chart) in charts.iter().enumerate() {
            for field in ["version", "digest", "url"] {
                let expected = &recorded[at][field];
                assert!(
                    expected.as_str().is_some_and(|text| !text.is_empty()),
                    "{recorded}"
                );
                assert_eq!(&chart["selected"][field], expected, "{field} before {spec}");
                assert_eq!(
                    &after["charts"][at]["selected"][field], expected,
                    "{field} after {spec}"
                );
                assert_eq!(
                    &after["charts"][at]["recorded"][field], expected,
                    "{field} recorded {spec}"
                );
            }
            assert_eq!(after["charts"][at]["uptake"]["differs"], false, "{after}");
        }
    }
}

/// The error without its hints; a condition says first what it was for.
fn error_of(printed: &str) -> &str {
    printed
        .lines()
        .find_map(|line| line.strip_prefix("error: "))
        .unwrap()
}

/// The reasons of the controller, with exit codes: 1 if no version matches, 2 if the versions are unknown.
#[tokio::test]
async fn failures_are_those_of_the_controller() {
    let whole = &whole().await;
    let name = Whole::name("prerelease");
    let spec = |version: &str, secret: &str| {
        json!({
            "helm": { "repo": whole.server.url(), "chart": "web", "version": version }, "helmSecretName": secret,
        })
    };
    apply(whole, &object(&name, &name, &spec("~1.1", ""))).await;
    let message = until_reason(whole.kubectl(), &name, "Accepted", "OnlyPrereleases").await;
    let (out, err) = ends_with(whole, 1, &["resolve", &name]).await;
    assert!(
        message.ends_with(error_of(&err)) && err.contains("kubectl helmop explain OnlyPrereleases"),
        "{err} and {message}"
    );
    assert!(
        out.contains("1.1.0-rc.1   rejected   pre-release; to include pre-releases, write \"~1.1-0\""),
        "{out}"
    );

    apply(whole, &object(&name, &name, &spec("1.x", "missing"))).await;
    let message = until_reason(whole.kubectl(), &name, "Accepted", "SecretNotFound").await;
    let (_, err) = ends_with(whole, 2, &["resolve", &name]).await;
    assert!(message.ends_with(error_of(&err)), "{err} and {message}");

    let (_, err) = ends_with(whole, 2, &["resolve", "-f", "/dev/null"]).await;
    assert!(err.contains("/dev/null contains no HelmOp"), "{err}");
    let (_, err) = ends_with(
        whole,
        2,
        &["resolve", "--repo", "http://127.0.0.1:1", "--chart", "web"],
    )
    .await;
    assert!(
        err.contains("requested from this machine: ") && err.contains("HTTPS_PROXY"),
        "{err}"
    );
    let denied = whole
        .fails(&["resolve", "--repo", &whole.server.url(), "--chart", "web"], 2)
        .await;
    assert!(
        denied.contains("this command has the flag --allow-cidrs too"),
        "{denied}"
    );
}

/// A newer version in the range is shown with what keeps the HelmOp from it, and one request serves all HelmOps of a repository.
#[tokio::test]
async fn outdated_charts_are_listed_with_one_request_for_each_repository() {
    let whole = &whole().await;
    let folder = whole.bed.directory.join("outdated-charts");
    let charts = ChartRepo::build(
        &whole.bed.tools,
        &folder,
        &[("web", &["1.0.0"]), ("db", &["3.0.0"])],
    )
    .await
    .unwrap();
    let server = ChartServer::http(charts.folder()).await.unwrap();
    let label = Whole::name("outdated");
    let spec = |repo: &str, chart: &str, version: &str| json!({ "helm": { "repo": repo, "chart": chart, "version": version }, "paused": true });
    let name = |suffix: &str| format!("{label}-{suffix}");
    for (suffix, chart, version) in [
        ("a", "web", "1.x"),
        ("b", "web", "1.0.0"),
        ("c", "web", ""),
        ("d", "db", "3.x"),
    ] {
        apply(
            whole,
            &object(&name(suffix), &label, &spec(&server.url(), chart, version)),
        )
        .await;
        recorded(whole, &name(suffix)).await;
    }
    let broken = spec("http://127.0.0.1:1", "web", "1.x");
    apply(whole, &object(&name("e"), &label, &broken)).await;
    let selector = format!("test={label}");
    let outdated = ["outdated", "-l", &selector];
    let (out, err) = ends_with(whole, 0, &outdated).await;
    assert!(
        out.lines().count() == 2 && out.contains("<unknown>"),
        "only the broken one: {out}"
    );
    assert!(
        err.contains("warning: ") && err.contains(&name("e")) && err.contains("from this machine"),
        "{err}"
    );

    charts.add_version("web", "1.1.0").await.unwrap();
    charts.add_version("web", "2.0.0").await.unwrap();
    let before = server.requests("/index.yaml");
    let (out, err) = ends_with(
        whole,
        1,
        &[&outdated[..], &["--exit-code", "-o", "wide"]].concat(),
    )
    .await;
    assert_eq!(
        server.requests("/index.yaml"),
        before + 1,
        "one request for three charts"
    );
    assert!(err.contains("3 charts have a newer version"), "{err}");
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| {
            line.split("   ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let url = server.url();
    let excluded = "the range excludes the newest version";
    let off = "polling is off";
    for (suffix, row) in [
        (
            "a",
            [
                "web",
                "1.0.0",
                "1.1.0",
                "2.0.0",
                "1.x",
                &url,
                &format!("{off}; {excluded}"),
            ],
        ),
        ("b", ["web", "1.0.0", "1.0.0", "2.0.0", "1.0.0", &url, excluded]),
        ("c", ["web", "1.0.0", "2.0.0", "2.0.0", "*", &url, off]),
    ] {
        let name = name(suffix);
        let expected = [&[name.as_str()], &row[..]].concat();
        assert!(rows.contains(&expected), "{expected:?} in {out}");
    }
    assert!(!out.contains(&name("d")), "{out}");
    let names = succeeds(whole, &[&outdated[..], &["-o", "name"]].concat()).await;
    let expected = ["a", "b", "c"].map(|suffix| format!("helmop.fleet.cattle.io/{}\n", name(suffix)));
    assert_eq!(names, expected.concat());

    let text = succeeds(whole, &["resolve", &name("b")]).await;
    assert!(text.contains("it is the recorded version"), "{text}");
    a_poll_takes_what_is_selected(whole, &name("a"), &label, spec(&server.url(), "web", "1.x")).await;
}

/// A HelmOp has version 1.0.0, and 1.1.0 is in its range.
async fn a_poll_takes_what_is_selected(whole: &Whole, name: &str, label: &str, spec: Value) {
    let text = succeeds(whole, &["resolve", name]).await;
    assert!(
        text.contains("Recorded:   1.0.0\n  Selected:   1.1.0\n")
            && text.contains(&format!("kubectl helmop poll {name} -n {NAMESPACE}")),
        "{text}"
    );
    // A poll takes what was selected.
    let mut polled = spec;
    polled["pollingInterval"] = json!("1h");
    let selected = json_of(whole, &["resolve", name]).await["charts"][0]["selected"].clone();
    apply(whole, &object(name, label, &polled)).await;
    // The Bundle has the version before the status has.
    let helmop = until(whole.kubectl(), &format!("helmop/{name}"), |helmop| {
        let version = &helmop["status"]["resolved"][0]["version"];
        anyhow::ensure!(version == "1.1.0", "version {version} is recorded");
        Ok(())
    })
    .await;
    assert_eq!(helmop["status"]["resolved"][0]["digest"], selected["digest"]);

    let versions = succeeds(whole, &["versions", name]).await;
    let rows: Vec<Vec<&str>> = versions
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        (rows[0][0], rows[0][3], rows[0][4]),
        ("2.0.0", "no", "newest"),
        "{versions}"
    );
    assert_eq!(
        (rows[1][0], rows[1][3], &rows[1][4..]),
        ("1.1.0", "yes", &["current,", "recorded,", "selected"][..]),
        "{versions}"
    );
    assert_eq!((rows[2][0], rows[2][3]), ("1.0.0", "yes"), "{versions}");
}
