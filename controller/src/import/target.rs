//! The steps on the cluster that is imported: what is there, whose it is, and what is applied.

use helmops_join::{
    agent_objects::{AgentOptions, JOIN_MANAGER, NAME, objects, priority_class},
    import::{
        plan::{Claim, ImportPlan},
        target::{self, Target},
    },
    object::name_of,
};
use helmops_kube::path_segment;
use kube::api::DynamicObject;

use super::{
    client::TargetClient,
    error::{ImportError, TargetError},
};

/// The name of Fleet's agent.
const FLEETS_AGENT: &str = "fleet-agent";
/// Whether the pods of a `PriorityClass` preempt others, if it does not say it.
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// The UID of the namespace `kube-system`, by which a cluster is known.
///
/// # Errors
/// If it cannot be read.
async fn identity(client: &TargetClient<'_>) -> Result<String, ImportError> {
    let path = "/api/v1/namespaces/kube-system";
    let found = client.get(path, target::uid).await?;
    Ok(found.ok_or_else(|| client.unexpected(&format!("read {path}")))?)
}

/// Reads what is on the cluster already. `namespace` is that of the agent.
///
/// # Errors
/// If an object cannot be read.
pub async fn observe(client: &TargetClient<'_>, namespace: &str) -> Result<Target, ImportError> {
    let namespace = path_segment(namespace);
    let apps = format!("/apis/apps/v1/namespaces/{namespace}");
    let identity = identity(client).await?;
    let binding = binding_path();
    let fleets_deployment = client
        .get(
            &format!("{apps}/deployments/{FLEETS_AGENT}"),
            target::has_replicas,
        )
        .await?;
    let fleets_set = client
        .get(
            &format!("{apps}/statefulsets/{FLEETS_AGENT}"),
            target::has_replicas,
        )
        .await?;
    Ok(Target {
        identity,
        agent: client
            .get(&format!("{apps}/deployments/{NAME}"), target::installed_agent)
            .await?,
        fleets_agent: match (fleets_deployment, fleets_set) {
            (Some(true), _) => Some("deployment/fleet-agent"),
            (_, Some(true)) => Some("statefulset/fleet-agent"),
            _ => None,
        },
        secret: client
            .get(
                &format!("/api/v1/namespaces/{namespace}/secrets/fleet-agent"),
                target::joined_secret,
            )
            .await?,
        binding: client.get(&binding, target::binding).await?,
    })
}

fn binding_path() -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{NAME}")
}

/// Applies everything that the agent needs before its Secret, and returns its Deployment, which comes last. The claim is first: of
/// several Clusters that lead to one cluster, one succeeds, and the others have written nothing. Of an adopted agent, what `cluster join`
/// has applied is taken over: two budgets, or requests above their limits, would be invalid.
///
/// # Errors
/// If another one was faster, or the API server rejects an object.
pub async fn apply_before_secret(
    client: &TargetClient<'_>,
    options: &AgentOptions,
    plan: &ImportPlan,
) -> Result<Option<DynamicObject>, ImportError> {
    let mut all = objects(options)?;
    let deployment = all.pop();
    if let Some(binding) = all
        .iter()
        .find(|object| name_of(object) == format!("ClusterRoleBinding {NAME}"))
    {
        take(client, binding, &plan.claim).await?;
    }
    if plan.adopted_image.is_some() {
        let budget = all.iter().find(|object| kind_of(object) == "PodDisruptionBudget");
        for object in budget.into_iter().chain(&deployment) {
            client.take_over(object, JOIN_MANAGER).await?;
        }
    }
    apply_priority_class(client, options).await?;
    for object in &all {
        client.apply(object).await?;
    }
    Ok(deployment)
}

fn kind_of(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

async fn take(client: &TargetClient<'_>, binding: &DynamicObject, claim: &Claim) -> Result<(), ImportError> {
    let raced = |error: TargetError| {
        if error.is_conflict() {
            ImportError::Raced
        } else {
            error.into()
        }
    };
    match claim {
        Claim::Create => client.create(binding).await.map_err(raced),
        Claim::Take { resource_version } => {
            let mut binding = binding.clone();
            binding.metadata.resource_version = Some(resource_version.clone());
            client.apply(&binding).await.map_err(raced)
        }
        Claim::Held => Ok(()),
    }
}

/// The value of a `PriorityClass` cannot be changed, so one of an import is deleted first if it differs.
async fn apply_priority_class(client: &TargetClient<'_>, options: &AgentOptions) -> Result<(), ImportError> {
    let (Some(class), Some(desired)) = (priority_class(options)?, &options.customization.priority) else {
        return Ok(());
    };
    let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{NAME}");
    if let Some(found) = client.get(&path, target::priority_class).await? {
        let policy = |policy: &Option<String>| policy.as_deref().unwrap_or(DEFAULT_POLICY).to_owned();
        let is_same = found.value == desired.value
            && policy(&found.preemption_policy) == policy(&desired.preemption_policy);
        match (is_same, found.claim.as_deref() == Some(&*options.claim)) {
            (true, _) => return Ok(()),
            (false, true) => client.delete(&path).await?,
            (false, false) => return Err(ImportError::PriorityClass(found.value)),
        }
    }
    client.apply(&class).await?;
    Ok(())
}
