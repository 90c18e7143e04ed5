//! The steps of the demo.

use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;
use tokio::process::Command;

use super::session::{Session, ensure_contains, remark};
use crate::chart_server::ChartServer;
use crate::charts::ChartRepo;
use crate::cluster::Cluster;
use crate::helmops;

const VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", "1.0.0"];

/// Runs all steps on a cluster.
///
/// # Errors
/// If the result of a step is not as expected.
pub async fn run(cluster: &Cluster, command: &dyn Fn(&Path) -> Command) -> Result<()> {
    let folder = TempDir::with_prefix("helmops-demo-")?;
    let session = Session::new(cluster, folder.path().to_owned())?;

    let _running = install(&session, cluster, command).await?;
    session.title("Helm publishes three versions of a chart")?;
    let charts = ChartRepo::build(
        &cluster.tools,
        &folder.path().join("charts"),
        &[("web", &VERSIONS)],
    )
    .await?;
    let server = ChartServer::http(charts.folder()).await?;
    session
        .succeeds("grep -E '^    (name|version):' charts/index.yaml")
        .await?;
    remark(&format!("the repository is served at {}", server.url()))?;

    version_range(&session, &server).await?;
    invalid_helmop(&session, &server).await?;
    private_repository(&session, &charts).await?;
    update(&session).await?;
    deletion(&session).await?;

    session.title("Done: all results were as expected")?;
    remark("Try it yourself: `make up`, and the quickstart in README.md; `make down` ends it.")
}

async fn install(
    session: &Session,
    cluster: &Cluster,
    command: &dyn Fn(&Path) -> Command,
) -> Result<(helmops::Webhook, helmops::Running)> {
    session.title("helmops is installed from its manifests")?;
    let manifests = helmops::manifests().canonicalize()?;
    let manifests = manifests.display();
    for file in ["crd/bases", "base/namespace.yaml", "base/rbac.yaml"] {
        session
            .succeeds(&format!("kubectl apply --server-side -f {manifests}/{file}"))
            .await?;
    }
    let webhook = helmops::start_webhook(cluster, "webhook", command).await?;
    remark(&format!(
        "helmops-webhook serves at {} as its own ServiceAccount, with only the permissions of rbac.yaml",
        webhook.url
    ))?;
    helmops::register_webhook(&cluster.kubectl(), &webhook).await?;
    remark("both webhook configurations are applied, with this address instead of the Service")?;
    let controller = helmops::start_controller(cluster, "controller", command).await?;
    remark("helmops-controller runs as its own ServiceAccount, with only the permissions of rbac.yaml")?;
    Ok((webhook, controller))
}

async fn version_range(session: &Session, server: &ChartServer) -> Result<()> {
    session.title("A HelmOp with a version range becomes a Bundle with one version")?;
    session.file("web.yaml", &helmop("web", &server.url(), "0.x", ""))?;
    session.succeeds("kubectl create namespace shop").await?;
    session
        .succeeds("kubectl -n shop apply --dry-run=server -f web.yaml")
        .await?;
    ensure_contains(
        &session.succeeds("kubectl -n shop apply -f web.yaml").await?,
        "helmop.fleet.cattle.io/web created",
    )?;
    session
        .until_prints(
            "kubectl -n shop get helmop web -o jsonpath='{.spec.pollingInterval}'",
            "0s",
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get bundle web -o jsonpath='{.spec.helm.version}'",
            "0.2.0",
        )
        .await?;
    session
        .succeeds("kubectl -n shop wait --for=condition=Accepted helmop/web --timeout=30s")
        .await?;
    ensure_contains(&session.succeeds("kubectl -n shop get helmops").await?, "0.2.0")
}

async fn invalid_helmop(session: &Session, server: &ChartServer) -> Result<()> {
    session.title("An invalid HelmOp is rejected immediately, with all its errors")?;
    session.file(
        "typo.yaml",
        &helmop(
            "typo",
            &server.url().replace("http://", ""),
            "lates",
            "  namespace: My_Shop\n",
        ),
    )?;
    let output = session.is_refused("kubectl -n shop apply -f typo.yaml").await?;
    ensure_contains(&output, "improper constraint: \"lates\"")?;
    ensure_contains(&output, "spec.helm.repo")?;
    ensure_contains(&output, "spec.namespace")?;
    session
        .until_prints("kubectl -n shop get helmop typo --ignore-not-found", "")
        .await
}

async fn private_repository(session: &Session, charts: &ChartRepo) -> Result<()> {
    session.title("A private repository: credentials and CA certificate in a Secret")?;
    let server = ChartServer::https(charts.folder()).await?;
    server.require_login("reader", "swordfish");
    session.file(
        "private.yaml",
        &helmop(
            "private",
            &server.url(),
            "~0.1",
            "  helmSecretName: charts-access\n",
        ),
    )?;
    session.succeeds("kubectl -n shop apply -f private.yaml").await?;
    session
        .succeeds("kubectl -n shop wait --for=condition=Accepted=False helmop/private --timeout=30s")
        .await?;
    session
        .succeeds("kubectl -n shop get helmop private -o jsonpath='{.status.conditions[?(@.type==\"Accepted\")].message}'")
        .await?;
    std::fs::write(session.path("ca.pem"), server.ca().unwrap_or_default())?;
    session
        .succeeds(
            "kubectl -n shop create secret generic charts-access --from-literal=username=reader \
             --from-literal=password=swordfish --from-file=cacerts=ca.pem",
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get bundle private -o jsonpath='{.spec.helm.version}'",
            "0.1.0",
        )
        .await
}

async fn update(session: &Session) -> Result<()> {
    session.title("The version of the HelmOp changes")?;
    session
        .succeeds(
            r#"kubectl -n shop patch helmop web --type merge -p '{"spec":{"helm":{"version":"1.0.0"}}}'"#,
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get bundle web -o jsonpath='{.spec.helm.version}'",
            "1.0.0",
        )
        .await
}

async fn deletion(session: &Session) -> Result<()> {
    session.title("Deletion leaves nothing")?;
    session
        .succeeds("kubectl -n shop delete helmop web private")
        .await?;
    session
        .until_prints("kubectl -n shop get bundles -o name", "")
        .await
}

fn helmop(name: &str, repo: &str, version: &str, more: &str) -> String {
    format!(
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata:\n  name: {name}\nspec:\n  helm:\n    repo: {repo}\n    \
         chart: web\n    version: \"{version}\"\n{more}  targets:\n    - clusterSelector: {{}}\n"
    )
}
