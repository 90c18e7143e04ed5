//! The token for the management cluster.

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::harness::agent::Fixture;
use crate::harness::standalone::decoded;
use crate::harness::until;

/// The shortest lifetime that the API server accepts, in seconds.
const SHORTEST: u64 = 600;

fn token_of(secret: &Value) -> Option<String> {
    let kubeconfig: Value = serde_json::from_str(&decoded(secret, "kubeconfig")?).ok()?;
    Some(kubeconfig["users"][0]["user"]["token"].as_str()?.to_owned())
}

fn claims(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

/// The same flag as in production; only the time is another one.
#[tokio::test]
async fn a_token_is_renewed_long_before_it_ends() {
    let fixture = Fixture::new("token").await;
    let old = fixture.token(fixture.upstream.name(), SHORTEST).await.unwrap();
    fixture.write_access(fixture.upstream.name(), &old).await.unwrap();
    let _agent = fixture
        .start_with("agent", &["--leader-elect=false", "--renew-token-at=0.005"])
        .await
        .unwrap();
    let secret = until(&fixture.system, "secret/fleet-agent", |secret| {
        let token = token_of(secret).context("no token")?;
        ensure!(token != old, "it is the old one");
        Ok(())
    })
    .await;
    let new = token_of(&secret).unwrap();
    let (old, new) = (claims(&old), claims(&new));
    assert_eq!(old["sub"], new["sub"]);
    let lifetime = |claims: &Value| claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(lifetime(&new), lifetime(&old));
    assert_eq!(decoded(&secret, "clusterName").as_deref(), Some("edge"));
    // The client uses it.
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
}

/// Another token that someone has written, such as after an outage.
#[tokio::test]
async fn a_token_that_is_replaced_in_the_secret_is_used() {
    let fixture = Fixture::new("token-replaced").await;
    let agent = fixture.start().await;
    fixture.join_namespace(fixture.upstream.name()).await.unwrap();
    helmops_bed::wait::eventually("the new token", crate::harness::SOON, async || {
        ensure!(
            agent.process.log().contains("was changed"),
            "{}",
            agent.process.tail()
        );
        Ok(())
    })
    .await
    .unwrap();
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
}
