//! Writes CRDs, and waits until the API server serves them.

use std::time::Duration;

use helmops_helm::{Failure, FailureReason};
use helmops_kube::path_segment;
use helmops_release::lifecycle::CrdPolicy;
use helmops_runtime::client::{ApiError, bounded};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::plan::{API_VERSION, KIND, Step, list, name, step, text};
use crate::{live, monitor::FIELD_MANAGER};

/// How long the API server may take until it serves new CRDs. Helm waits as long.
const ESTABLISHED: Duration = Duration::from_mins(1);
/// Between two looks: it usually takes some tens of milliseconds.
const POLL: Duration = Duration::from_millis(100);

/// What was done with the CRDs of a chart: their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// They did not exist.
    pub created: Vec<String>,
    /// They were updated.
    pub replaced: Vec<String>,
    /// They are as they were.
    pub kept: Vec<String>,
}

/// Applies CRDs, and waits until the API server serves them.
///
/// # Errors
/// If one is refused: then nothing is written. If one cannot be written, or is not served in time.
pub async fn apply(client: &Client, policy: CrdPolicy, crds: Vec<Value>) -> Result<Applied, Failure> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let mut steps = Vec::with_capacity(crds.len());
    for crd in crds {
        let name = name(&crd);
        let live = bounded(api.get_opt(&path_segment(name))).await;
        let live = live.map_err(|error| failed("read", name, &error))?;
        let version = live.as_ref().and_then(ResourceExt::resource_version);
        let live = live.and_then(live::whole);
        let step = step(policy, &crd, live.as_ref())
            .map_err(|refusal| Failure::new(FailureReason::CrdRefused, refusal.to_string()))?;
        steps.push((step, version, crd));
    }
    let mut applied = Applied::default();
    let mut changed = Vec::new();
    for (step, version, crd) in &steps {
        let name = name(crd);
        let done = write(&api, *step, version.as_deref(), crd).await?;
        if done != Step::Keep {
            tracing::info!(name, "applied a CRD");
            changed.push(crd);
        }
        let names = match done {
            Step::Keep => &mut applied.kept,
            Step::Create => &mut applied.created,
            Step::Replace => &mut applied.replaced,
        };
        names.push(name.to_owned());
    }
    let deadline = Instant::now() + ESTABLISHED;
    for (_, _, crd) in &steps {
        until_established(&api, name(crd), deadline).await?;
    }
    for crd in changed {
        until_discovered(client, crd, deadline).await?;
    }
    Ok(applied)
}

/// Takes a step, and returns what has changed.
async fn write(
    api: &Api<DynamicObject>,
    step: Step,
    version: Option<&str>,
    crd: &Value,
) -> Result<Step, Failure> {
    let params = match step {
        Step::Keep => return Ok(Step::Keep),
        // Not forced: if another client has created it since, it is left alone.
        Step::Create => PatchParams::apply(FIELD_MANAGER),
        Step::Replace => PatchParams::apply(FIELD_MANAGER).force(),
    };
    let name = name(crd);
    match bounded(api.patch(&path_segment(name), &params, &Patch::Apply(crd))).await {
        Ok(written) if written.resource_version().as_deref() == version => Ok(Step::Keep),
        Ok(_) => Ok(step),
        Err(error) if step == Step::Create && error.is_conflict() => Ok(Step::Keep),
        Err(error) => Err(failed("apply", name, &error)),
    }
}

async fn until_established(api: &Api<DynamicObject>, name: &str, deadline: Instant) -> Result<(), Failure> {
    loop {
        let live = bounded(api.get_opt(&path_segment(name))).await;
        let live = live.map_err(|error| failed("read", name, &error))?;
        let live = live.and_then(live::whole).unwrap_or_default();
        if condition(&live, "Established").is_some_and(|condition| text(condition, "/status") == "True") {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(not_established(name, &why_not(&live)));
        }
        sleep(POLL).await;
    }
}

/// Waits until the API server lists the served versions. It does so a moment after a CRD is established, and until then Helm does
/// not know the kind.
async fn until_discovered(client: &Client, crd: &Value, deadline: Instant) -> Result<(), Failure> {
    let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
    let is_served = |version: &&Value| version.get("served").and_then(Value::as_bool) == Some(true);
    for version in list(crd, "/spec/versions").filter(is_served) {
        let version = format!("{group}/{}", text(version, "/name"));
        loop {
            match bounded(client.list_api_group_resources(&version)).await {
                Ok(listed) if listed.resources.iter().any(|resource| resource.kind == kind) => break,
                Ok(_) => {}
                Err(error) if ApiError::is_not_found(&error) => {}
                Err(error) => {
                    return Err(super::failed(&format!("read the kinds of {version}"), &error));
                }
            }
            if Instant::now() >= deadline {
                return Err(not_established(
                    name(crd),
                    &format!("{version} has no kind {kind}"),
                ));
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

fn condition<'c>(crd: &'c Value, of_type: &str) -> Option<&'c Value> {
    list(crd, "/status/conditions").find(|condition| text(condition, "/type") == of_type)
}

/// What the conditions of a CRD say.
fn why_not(crd: &Value) -> String {
    let is_problem = |condition: &&Value| {
        let is_true = text(condition, "/status") == "True";
        let should_be = ["Established", "NamesAccepted"].contains(&text(condition, "/type"));
        is_true != should_be
    };
    let messages: Vec<_> = list(crd, "/status/conditions")
        .filter(is_problem)
        .map(|condition| format!("{}: {}", text(condition, "/type"), text(condition, "/message")))
        .collect();
    if messages.is_empty() {
        "it has no conditions".to_owned()
    } else {
        messages.join("; ")
    }
}

fn not_established(name: &str, why: &str) -> Failure {
    let seconds = ESTABLISHED.as_secs();
    Failure::new(
        FailureReason::CrdNotEstablished,
        format!("CustomResourceDefinition {name} was applied, but is not served after {seconds} s: {why}"),
    )
}

fn failed(operation: &str, name: &str, error: &ApiError) -> Failure {
    super::failed(&format!("{operation} CustomResourceDefinition {name}"), error)
}

fn resource() -> ApiResource {
    ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_say_why_a_crd_is_not_served() {
        let crd = json!({ "status": { "conditions": [
            { "type": "NamesAccepted", "status": "False", "message": "\"widgets\" is already in use" },
            { "type": "Established", "status": "False", "message": "not all names are accepted" },
            { "type": "NonStructuralSchema", "status": "False", "message": "" },
            { "type": "Terminating", "status": "True", "message": "deleting" },
        ] } });
        let expected = "NamesAccepted: \"widgets\" is already in use; Established: not all names are accepted; Terminating: deleting";
        assert_eq!(why_not(&crd), expected);
        assert_eq!(why_not(&json!({})), "it has no conditions");
    }
}
