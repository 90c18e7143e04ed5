//! A downstream cluster that claims namespaces of others.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::api::value_at;
use helmops_bed::wait::eventually;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::attack::{Attack, SOON, run};
use crate::environment::{Environment, FLEET, Mode};
use crate::neighbour::NAMESPACE;

/// With this name, a bootstrap token Secret is a login in kube-system.
const TOKEN: &str = "bootstrap-token-abcdef";
/// The HelmOps of the attacker; their deployments have the same names.
const WITH_TOKEN: &str = "with-token";
const PLAIN: &str = "plain";
/// How often the agent repeats its claim, and how often the test checks the result.
const CLAIMS: usize = 20;
const CLAIM_PAUSE: Duration = Duration::from_millis(150);
/// Generations of the other cluster's deployment that do not come from the claim: its creation and its one new option.
const GENERATIONS: u64 = 3;

/// Both clusters are of one workspace; the agent of one claims the namespace of the other.
#[test]
fn claim_of_the_namespace_of_another_cluster() {
    run(
        Mode::Standalone,
        "claim of a cluster's namespace",
        async |attack| {
            attack.cluster("lab").await?;
            let prod = attack.cluster("prod").await?;
            attack
                .create("helmops", "web", spec_of(attack, "of-prod"))
                .await?;
            until_deployed_to(attack.env, &prod, "of-prod").await?;
            let misplaced = claim(attack, &prod, async |env| {
                let found = deployment(env, &prod).await?;
                let namespace = value_at(&found, "/spec/options/namespace");
                Ok((namespace != "of-prod").then(|| format!("the deployment for prod is {namespace}")))
            });
            let misplaced = misplaced.await?;
            attack.check(misplaced.is_none(), misplaced.unwrap_or_default());
            let found = deployment(attack.env, &prod).await?;
            let generation = value_at(&found, "/metadata/generation")
                .as_u64()
                .unwrap_or_default();
            attack.check(
                generation <= GENERATIONS,
                format!("the deployment for prod has generation {generation}"),
            );

            // A change is still delivered to the right cluster.
            let change = json!({ "spec": spec_of(attack, "of-prod-2") });
            attack
                .env
                .api
                .patch(&attack.tenant, "helmops", "web", change)
                .await?;
            let outcome = until_deployed_to(attack.env, &prod, "of-prod-2").await;
            attack.check(outcome.is_ok(), "prod does not get the change");
            attack.neighbour_works().await;
            Ok(())
        },
    );
}

#[test]
fn claim_of_a_namespace_of_the_system() {
    run(Mode::Standalone, "claim of kube-system", async |attack| {
        let token = json!({
            "metadata": { "name": TOKEN }, "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:tenants",
            },
        });
        attack.create_core("secrets", token).await?;
        attack.cluster("lab").await?;
        let mut spec = spec_of(attack, "of-prod");
        // Without the Secret, whose type is refused for any cluster, nothing but the claim stops the delivery.
        attack.create("helmops", PLAIN, spec.clone()).await?;
        spec["downstreamResources"] = json!([{ "kind": "Secret", "name": TOKEN }]);
        attack.create("helmops", WITH_TOKEN, spec).await?;
        for bundle in [PLAIN, WITH_TOKEN] {
            attack.until_exists("bundles", bundle).await?;
        }
        for namespace in ["kube-system", NAMESPACE, "made-for-the-tenant"] {
            let intruded = claim(attack, namespace, async |env| intrusion(env, namespace).await).await?;
            attack.check(intruded.is_none(), intruded.unwrap_or_default());
        }
        let kubectl = attack.env.kubectl.in_namespace("kube-system");
        kubectl
            .run(&["delete", "secret", TOKEN, "--ignore-not-found"])
            .await?
            .ok()?;
        attack.neighbour_works().await;
        Ok(())
    });
}

fn spec_of(attack: &Attack<'_>, namespace: &str) -> Value {
    json!({
        "helm": attack.chart(),
        "targets": [
            { "clusterName": "prod", "namespace": namespace },
            { "clusterName": "lab", "namespace": "of-lab" },
        ],
    })
}

/// The agent of `lab` writes the namespace into its own status repeatedly. Returns the first wrong result.
async fn claim(
    attack: &Attack<'_>,
    namespace: &str,
    wrong: impl AsyncFn(&Environment) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let status = json!({ "status": { "namespace": namespace } });
    for _ in 0..CLAIMS {
        let patch = vec![("lab".to_owned(), status.clone())];
        attack
            .env
            .api
            .patch_status(&attack.tenant, "clusters", patch)
            .await?;
        sleep(CLAIM_PAUSE).await;
        if let Some(found) = wrong(attack.env).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The object that the controller created in a namespace that is not the cluster's.
async fn intrusion(env: &Environment, namespace: &str) -> Result<Option<String>> {
    let exists = async |path: &str| -> Result<bool> {
        match env.api.get(path).await {
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
            let _ = env.api.call(Method::DELETE, &path, Value::Null).await;
            return Ok(Some(format!("the controller created {path}")));
        }
    }
    Ok(None)
}

async fn deployment(env: &Environment, namespace: &str) -> Result<Value> {
    let path = format!("{FLEET}/namespaces/{namespace}/bundledeployments/web");
    env.api.get(&path).await
}

async fn until_deployed_to(env: &Environment, cluster: &str, namespace: &str) -> Result<()> {
    let outcome = eventually("the deployment", SOON, async || {
        let found = deployment(env, cluster).await?;
        let at = value_at(&found, "/spec/options/namespace");
        ensure!(at == namespace, "it is {at}");
        Ok(())
    });
    outcome.await.context("for prod")
}
