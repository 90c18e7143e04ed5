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

/// The workspace: HelmOps in it are deployed to the clusters in it. This one has the Cluster of the control plane itself.
const WORKSPACE: &str = "fleet-local";

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

    deployment(&session, &server).await?;
    polling(&session, &charts).await?;
    drift(&session).await?;
    invalid_helmop(&session, &server).await?;
    private_repository(&session, &charts).await?;
    update(&session).await?;
    deletion(&session).await?;

    session.title("Done: all results were as expected")?;
    remark("Try it yourself: `make up`, and the quickstart in README.md; `make down` ends it.")
}

/// The processes, which end with this value.
struct Processes {
    _webhook: helmops::Webhook,
    _controller: helmops::Running,
    _agent: helmops::Running,
}

async fn install(
    session: &Session,
    cluster: &Cluster,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Processes> {
    session.title("helmops is installed")?;
    remark("on a cluster of yours, these two commands do what follows:")?;
    remark("  kubectl apply --server-side -k manifests/local")?;
    remark("  kubectl apply --server-side -f manifests/examples/local-cluster.yaml")?;
    remark(
        "here the processes run on this machine, each as its own ServiceAccount with the permissions of the manifests:",
    )?;
    let webhook = helmops::start_webhook(cluster, "webhook", command).await?;
    helmops::register_webhook(&cluster.kubectl(), &webhook).await?;
    remark("helmops-webhook checks every HelmOp that is created or changed")?;
    let controller = helmops::start_standalone_controller(cluster, "controller", command).await?;
    remark("helmops-controller selects the version of a chart and the clusters that get it")?;
    let agent = helmops::start_local_agent(cluster, "agent", command).await?;
    remark("helmops-agent runs Helm on its cluster, which is this one")?;
    session
        .succeeds(&format!("kubectl -n {WORKSPACE} get clusters.fleet.cattle.io"))
        .await?;
    Ok(Processes {
        _webhook: webhook,
        _controller: controller,
        _agent: agent,
    })
}

async fn deployment(session: &Session, server: &ChartServer) -> Result<()> {
    session.title("A HelmOp becomes a release: the newest version of the range 0.x")?;
    let options = "  namespace: shop\n  pollingInterval: 5s\n  correctDrift:\n    enabled: true\n";
    session.file("web.yaml", &helmop("web", &server.url(), "0.x", options))?;
    ensure_contains(
        &session
            .succeeds(&format!("kubectl -n {WORKSPACE} apply -f web.yaml"))
            .await?,
        "helmop.fleet.cattle.io/web created",
    )?;
    session
        .succeeds(&format!(
            "kubectl -n {WORKSPACE} wait --for=condition=Ready helmop/web --timeout=60s"
        ))
        .await?;
    let listed = session
        .succeeds(&format!("kubectl -n {WORKSPACE} get helmops"))
        .await?;
    ensure_contains(&listed, "0.2.0")?;
    ensure_contains(&listed, "1/1")?;
    let installed = session
        .succeeds("kubectl -n shop get deployments,services,pods")
        .await?;
    ensure_contains(&installed, "deployment.apps/web")?;
    remark("it is a release of Helm like any other:")?;
    ensure_contains(&session.succeeds("helm -n shop list").await?, "web-0.2.0")
}

async fn polling(session: &Session, charts: &ChartRepo) -> Result<()> {
    session.title("A newer version of the chart is published: the repository is polled every 5 seconds")?;
    charts.add_version("web", "0.3.0").await?;
    session
        .until_prints(
            &format!("kubectl -n {WORKSPACE} get helmop web -o jsonpath='{{.status.version}}'"),
            "0.3.0",
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get deployment web -o jsonpath='{.metadata.labels.helm\\.sh/chart}'",
            "web-0.3.0",
        )
        .await?;
    ensure_contains(&session.succeeds("helm -n shop history web").await?, "superseded")
}

async fn drift(session: &Session) -> Result<()> {
    session.title("An object of the release is changed by hand: correctDrift restores it")?;
    session
        .succeeds(&format!(
            "kubectl -n {WORKSPACE} wait --for=condition=Ready helmop/web --timeout=60s"
        ))
        .await?;
    session
        .succeeds("kubectl -n shop set image deployment/web web=example.com/other:1")
        .await?;
    session
        .until_prints(
            "kubectl -n shop get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}' | cut -d: -f1",
            "nginx",
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get events --field-selector=reason=DriftCorrected -o jsonpath='{.items[*].reason}'",
            "DriftCorrected",
        )
        .await?;
    let described = session
        .succeeds("kubectl -n shop describe deployment web | grep Drift | cut -c-160")
        .await?;
    ensure_contains(&described, "DriftDetected")
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
    let output = session
        .is_refused("kubectl -n fleet-local apply -f typo.yaml")
        .await?;
    ensure_contains(&output, "improper constraint: \"lates\"")?;
    ensure_contains(&output, "spec.helm.repo")?;
    ensure_contains(&output, "spec.namespace")?;
    session
        .until_prints("kubectl -n fleet-local get helmop typo --ignore-not-found", "")
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
            "  namespace: private\n  helmSecretName: charts-access\n",
        ),
    )?;
    session
        .succeeds("kubectl -n fleet-local apply -f private.yaml")
        .await?;
    session
        .succeeds("kubectl -n fleet-local wait --for=condition=Accepted=False helmop/private --timeout=30s")
        .await?;
    session
        .succeeds("kubectl -n fleet-local get helmop private -o jsonpath='{.status.conditions[?(@.type==\"Accepted\")].message}'")
        .await?;
    std::fs::write(session.path("ca.pem"), server.ca().unwrap_or_default())?;
    session
        .succeeds(
            "kubectl -n fleet-local create secret generic charts-access --from-literal=username=reader \
             --from-literal=password=swordfish --from-file=cacerts=ca.pem",
        )
        .await?;
    session
        .until_prints(
            "kubectl -n private get deployment private-web -o jsonpath='{.metadata.labels.helm\\.sh/chart}'",
            "web-0.1.0",
        )
        .await
}

async fn update(session: &Session) -> Result<()> {
    session.title("The version of the HelmOp changes")?;
    session
        .succeeds(
            r#"kubectl -n fleet-local patch helmop web --type merge -p '{"spec":{"helm":{"version":"1.0.0"}}}'"#,
        )
        .await?;
    session
        .until_prints(
            "kubectl -n shop get deployment web -o jsonpath='{.metadata.labels.helm\\.sh/chart}'",
            "web-1.0.0",
        )
        .await?;
    session
        .succeeds("kubectl -n fleet-local wait --for=condition=Ready helmop/web --timeout=60s")
        .await?;
    remark("what the agent did is in the Events of the namespace:")?;
    let events = "kubectl -n shop get events --sort-by=.metadata.creationTimestamp \
                  --field-selector=involvedObject.kind=Namespace \
                  -o custom-columns=REASON:.reason,MESSAGE:.message";
    ensure_contains(&session.succeeds(events).await?, "Upgraded")
}

async fn deletion(session: &Session) -> Result<()> {
    session.title("Deletion uninstalls the releases")?;
    session
        .succeeds("kubectl -n fleet-local delete helmop web private")
        .await?;
    session
        .until_prints("kubectl -n shop get deployments,services -o name", "")
        .await?;
    session.until_prints("helm -n shop list --short", "").await?;
    session
        .until_prints("kubectl -n fleet-local get bundles -o name", "")
        .await
}

fn helmop(name: &str, repo: &str, version: &str, more: &str) -> String {
    format!(
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata:\n  name: {name}\nspec:\n  helm:\n    repo: {repo}\n    \
         chart: web\n    version: \"{version}\"\n{more}  targets:\n    - clusterSelector: {{}}\n"
    )
}
