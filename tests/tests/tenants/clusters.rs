//! A downstream cluster that claims namespaces of others.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_tests::api::at;
use helmops_tests::wait::eventually;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bed::{Bed, FLEET, Mode};
use crate::neighbour::NAMESPACE;
use crate::stage::{SOON, Stage, run};

/// The name that makes such a Secret a login in kube-system.
const TOKEN: &str = "bootstrap-token-abcdef";
/// The HelmOps of the attacker, which are also the names of their deployments.
const WITH_TOKEN: &str = "with-token";
const PLAIN: &str = "plain";
/// How often the agent repeats its claim, and how often is looked for what must not happen.
const CLAIMS: usize = 20;
const CLAIM_PAUSE: Duration = Duration::from_millis(150);
/// Changes of the other cluster's deployment that have another reason: its creation and its one new option.
const GENERATIONS: u64 = 3;

/// Both clusters are of one workspace; the agent of one claims the namespace of the other.
#[test]
fn the_namespace_of_another_cluster() {
    run(
        Mode::Standalone,
        "claim of a cluster's namespace",
        async |stage| {
            stage.cluster("lab").await?;
            let prod = stage.cluster("prod").await?;
            stage.create("helmops", "web", spec_of(stage, "of-prod")).await?;
            until_deployed_to(stage.bed, &prod, "of-prod").await?;
            let misplaced = claim(stage, &prod, async |bed| {
                let found = deployment(bed, &prod).await?;
                let namespace = at(&found, "/spec/options/namespace");
                Ok((namespace != "of-prod").then(|| format!("the deployment for prod is {namespace}")))
            });
            let misplaced = misplaced.await?;
            stage.check(misplaced.is_none(), misplaced.unwrap_or_default());
            let found = deployment(stage.bed, &prod).await?;
            let generation = at(&found, "/metadata/generation").as_u64().unwrap_or_default();
            stage.check(
                generation <= GENERATIONS,
                format!("the deployment for prod has generation {generation}"),
            );

            // What is new still arrives where it belongs.
            let change = json!({ "spec": spec_of(stage, "of-prod-2") });
            stage
                .bed
                .api
                .patch(&stage.tenant, "helmops", "web", change)
                .await?;
            let outcome = until_deployed_to(stage.bed, &prod, "of-prod-2").await;
            stage.check(outcome.is_ok(), "prod does not get what is new");
            stage.neighbour_works().await;
            Ok(())
        },
    );
}

#[test]
fn a_namespace_of_the_system() {
    run(Mode::Standalone, "claim of kube-system", async |stage| {
        let token = json!({
            "metadata": { "name": TOKEN }, "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:tenants",
            },
        });
        stage.create_core("secrets", token).await?;
        stage.cluster("lab").await?;
        let mut spec = spec_of(stage, "of-prod");
        // Without the Secret, whose type is refused for any cluster, nothing but the claim stops the delivery.
        stage.create("helmops", PLAIN, spec.clone()).await?;
        spec["downstreamResources"] = json!([{ "kind": "Secret", "name": TOKEN }]);
        stage.create("helmops", WITH_TOKEN, spec).await?;
        for bundle in [PLAIN, WITH_TOKEN] {
            stage.until_exists("bundles", bundle).await?;
        }
        for namespace in ["kube-system", NAMESPACE, "made-for-the-tenant"] {
            let intruded = claim(stage, namespace, async |bed| intrusion(bed, namespace).await).await?;
            stage.check(intruded.is_none(), intruded.unwrap_or_default());
        }
        let kubectl = stage.bed.kubectl.in_namespace("kube-system");
        kubectl
            .run(&["delete", "secret", TOKEN, "--ignore-not-found"])
            .await?
            .ok()?;
        stage.neighbour_works().await;
        Ok(())
    });
}

fn spec_of(stage: &Stage<'_>, namespace: &str) -> Value {
    json!({
        "helm": stage.chart(),
        "targets": [
            { "clusterName": "prod", "namespace": namespace },
            { "clusterName": "lab", "namespace": "of-lab" },
        ],
    })
}

/// The agent of `lab` writes the namespace into its own status, again and again; gives the first that was found wrong.
async fn claim(
    stage: &Stage<'_>,
    namespace: &str,
    wrong: impl AsyncFn(&Bed) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let status = json!({ "status": { "namespace": namespace } });
    for _ in 0..CLAIMS {
        let patch = vec![("lab".to_owned(), status.clone())];
        stage
            .bed
            .api
            .patch_status(&stage.tenant, "clusters", patch)
            .await?;
        sleep(CLAIM_PAUSE).await;
        if let Some(found) = wrong(stage.bed).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What the controller made in a namespace that is not the cluster's.
async fn intrusion(bed: &Bed, namespace: &str) -> Result<Option<String>> {
    let exists = async |path: &str| -> Result<bool> {
        match bed.api.get(path).await {
            Ok(_) => Ok(true),
            Err(error) => {
                let is_absent = error.to_string().contains(StatusCode::NOT_FOUND.as_str());
                ensure!(is_absent, "{error:#}");
                Ok(false)
            }
        }
    };
    let mut paths = vec![
        format!("api/v1/namespaces/{namespace}/secrets/{TOKEN}"),
        "api/v1/namespaces/made-for-the-tenant".to_owned(),
    ];
    for name in [PLAIN, WITH_TOKEN] {
        paths.push(format!("api/v1/namespaces/{namespace}/secrets/{name}"));
        paths.push(format!("{FLEET}/namespaces/{namespace}/bundledeployments/{name}"));
    }
    for path in paths {
        if exists(&path).await? {
            let _ = bed.api.call(Method::DELETE, &path, Value::Null).await;
            return Ok(Some(format!("the controller made {path}")));
        }
    }
    Ok(None)
}

async fn deployment(bed: &Bed, namespace: &str) -> Result<Value> {
    let path = format!("{FLEET}/namespaces/{namespace}/bundledeployments/web");
    bed.api.get(&path).await
}

async fn until_deployed_to(bed: &Bed, cluster: &str, namespace: &str) -> Result<()> {
    let outcome = eventually("the deployment", SOON, async || {
        let found = deployment(bed, cluster).await?;
        let at = at(&found, "/spec/options/namespace");
        ensure!(at == namespace, "it is {at}");
        Ok(())
    });
    outcome.await.context("for prod")
}
