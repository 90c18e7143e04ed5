//! The ClusterRegistration.

use anyhow::{Context as _, anyhow};
use bounded_text::hex;
use helmops_api::{ClusterRegistration, labels};
use helmops_join::bootstrap::{Bootstrap, ClusterIdentity};
use helmops_model::names::registration_credential;
use helmops_runtime::client::{CallError, bounded};
use kube::{Api, Client, api::PostParams};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

/// Bytes of the random text: the name of the credential cannot be guessed.
const RANDOM: usize = 32;
/// Digits of the digest of the random text in the name of the request.
const DIGITS: usize = 20;

/// A request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requested {
    pub name: String,
    /// The name of the Secret with the credential.
    pub credential: String,
}

/// Makes the request. One that exists is the same one, of another replica or before a restart: its name follows from the random text.
pub(super) async fn request(
    upstream: &Client,
    bootstrap: &Bootstrap,
    identity: &ClusterIdentity,
    pod: &str,
) -> anyhow::Result<Requested> {
    let random = &bootstrap.client_random;
    let mut digits = hex(digest(&SHA256, random.as_bytes()).as_ref());
    digits.truncate(DIGITS);
    let name = format!("request-{digits}");
    let mut registration = ClusterRegistration::default();
    registration.metadata.name = Some(name.clone());
    // Fleet before 0.16 knows no such label.
    if !bootstrap.token_name.is_empty() {
        let label = (
            labels::REGISTRATION_TOKEN.to_owned(),
            bootstrap.token_name.clone(),
        );
        registration.metadata.labels = Some([label].into());
    }
    let spec = &mut registration.spec;
    spec.client_id.clone_from(&identity.client_id);
    spec.client_random.clone_from(random);
    spec.cluster_labels.clone_from(&identity.labels);
    spec.cluster_labels
        .insert(labels::CREATED_BY_AGENT_POD.to_owned(), pod.to_owned());
    let api = Api::<ClusterRegistration>::namespaced(upstream.clone(), &bootstrap.workspace);
    match bounded(api.create(&PostParams::default(), &registration)).await {
        Ok(_) => tracing::info!(
            registration = name,
            workspace = bootstrap.workspace,
            "requested to register this cluster"
        ),
        Err(error) if error.exists_already() => {}
        Err(error) => {
            let object = format!("ClusterRegistration {}/{name}", bootstrap.workspace);
            let is_token = error
                .status()
                .is_some_and(|status| [401, 403].contains(&status.code));
            let error = CallError::of("create", object)(error);
            return Err(error).context(if is_token {
                "the management cluster does not accept the token; create another one there"
            } else {
                "the management cluster does not accept the request, or cannot be reached"
            });
        }
    }
    let credential = registration_credential(&identity.client_id, random);
    Ok(Requested { name, credential })
}

/// A digest of the token and the identity of a request: one that was made with another token may have ended with that.
pub(super) fn purpose(bootstrap: &Bootstrap, identity: &ClusterIdentity) -> String {
    let texts = [
        &bootstrap.server.server,
        &bootstrap.workspace,
        &bootstrap.token,
        &identity.client_id,
    ];
    let texts: Vec<_> = texts.into_iter().map(String::as_bytes).collect();
    hex(digest(&SHA256, &texts.join(&0)).as_ref())
}

/// A text that only this agent knows.
pub(super) fn random() -> anyhow::Result<String> {
    let mut bytes = [0; RANDOM];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(hex(&bytes))
}
