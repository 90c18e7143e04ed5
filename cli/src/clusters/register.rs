//! `cluster register`: on the cluster that is to be registered, with the command that `token create` has printed.

use std::time::Duration;

use bounded_text::hex;
use helmops_api::labels;
use helmops_join::{
    access::{self, Joined},
    agent_objects::{self, AgentOptions},
    bootstrap::{Bootstrap, ClusterIdentity},
    object::{as_json, name_of},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::DynamicObject};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{
    join::label,
    steps::Steps,
    workload::{self, FLEETS_AGENT, Workload},
};
use crate::{
    cluster::{
        ClusterArgs, api_error,
        apply::{self, Written},
        duration::duration,
        until::until,
    },
    failure::Failure,
    output::{self, Format, OutputArgs},
    terminal::{Console, marks::Marks},
    tokens,
};

const AGAIN: &str = "then run the command again: it continues";

/// The arguments of `cluster register`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The command that was printed for a token, with labels that targets can select
  kubectl helmop cluster register --context edge-1 --labels env=prod,zone=eu \\
      --image registry.example.com/helmops-agent:0.1.0 --token TOKEN

  # Print the objects, and apply them in another way
  kubectl helmop cluster register --token TOKEN -o yaml")]
pub struct RegisterArgs {
    /// What `kubectl helmop token create` has printed: the address of the management cluster, and a credential to register with
    #[arg(long, value_name = "TEXT", env = "HELMOPS_TOKEN", hide_env_values = true)]
    pub token: String,
    /// Labels of the new Cluster, such as env=prod,zone=eu; they are not changed after that
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Identity of this cluster; by default the UID of its namespace kube-system. An existing Cluster with this spec.clientID is taken over
    #[arg(long, value_name = "TEXT")]
    pub client_id: Option<String>,
    /// Image of the agent; by default the one that is installed, or that of the manifests
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Additional flag of the agent, such as --agent-flag=--workers=5; can be given several times
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub agent_flag: Vec<String>,
    /// Trust the CAs of the system of the agent too, and not only the CA of the management cluster, as Fleet's agent does by default
    #[arg(long)]
    pub trust_system: bool,
    /// Overwrite fields of the agent's objects that another field manager has set otherwise
    #[arg(long)]
    pub force_conflicts: bool,
    /// How long to wait until the cluster is registered; 0s: not at all
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
    /// By default the objects are applied; yaml and json: they are printed
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Registers the cluster of the context.
///
/// # Errors
/// If the token cannot be used, another agent runs on the cluster, or the API server rejects an object.
pub async fn run(
    args: &RegisterArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let bootstrap = tokens::create::decode(&args.token).map_err(|error| {
        Failure::unable(format!(
            "--token is not what kubectl helmop token create has printed: {error}"
        ))
        .with_hint("copy the whole text; it has no line breaks")
    })?;
    if matches!(args.output.output, Format::Yaml | Format::Json) {
        return print(args, &bootstrap, console);
    }
    let client = cluster.connect().await?.client;
    let namespace = AgentOptions::default().namespace().to_owned();
    let found = workload::observe(&client, &namespace).await?;
    admit(&found)?;
    let objects = objects(args, &bootstrap, &found)?;
    let steps = Steps::new(Marks::of_process(), AGAIN);
    let step = Box::pin(apply_all(&client, &objects, args.force_conflicts));
    steps
        .run(console, "Applying the agent and what it registers with", step)
        .await?;
    if let Some(joined) = &found.joined {
        writeln!(
            console.out,
            "This cluster has access as Cluster {} already: the agent registers it again if the management cluster rejects that.",
            joined.cluster
        )?;
        return Ok(());
    }
    if args.timeout.is_zero() {
        return Ok(());
    }
    let wait = Box::pin(registered(&client, &namespace, args.timeout, &bootstrap));
    steps
        .run(
            console,
            "Waiting for the management cluster to register this cluster",
            wait,
        )
        .await
}

/// Another agent would keep the same releases.
fn admit(found: &Workload) -> Result<(), Failure> {
    if let Some(namespace) = &found.other_agent {
        let message = format!(
            "an agent in namespace {namespace} of this cluster uses the ClusterRoleBinding helmops-agent"
        );
        return Err(Failure::negative(message)
            .with_hint("one agent for each cluster is enough; remove the other one first"));
    }
    if found.has_fleets_agent {
        let object = found.fleets_agent.map_or(FLEETS_AGENT, |agent| agent.as_str());
        let message =
            format!("Fleet's agent runs on this cluster ({object}): only one agent may keep its releases");
        let hint = "docs/agent.md#take-over-from-fleets-agent-and-back describes how to replace it";
        return Err(Failure::negative(message).with_hint(hint));
    }
    Ok(())
}

/// What is applied, the Deployment last: its pods find everything.
fn objects(
    args: &RegisterArgs,
    bootstrap: &Bootstrap,
    found: &Workload,
) -> Result<Vec<DynamicObject>, Failure> {
    let options = AgentOptions {
        image: args
            .image
            .clone()
            .or_else(|| found.image.clone())
            .unwrap_or_default(),
        flags: args.agent_flag.clone(),
        ..AgentOptions::default()
    };
    let identity = ClusterIdentity {
        client_id: args.client_id.clone().unwrap_or_default(),
        labels: args.labels.iter().cloned().collect(),
        trusts_system: args.trust_system,
    };
    let encoded = |object: Result<DynamicObject, serde_json::Error>| {
        object.map_err(|error| Failure::because("cannot encode an object", &error))
    };
    let mut objects = agent_objects::objects(&options).map_err(|error| Failure::unable(error.to_string()))?;
    let own = [
        encoded(identity.config_map(options.namespace()))?,
        encoded(bootstrap.secret(options.namespace()))?,
    ];
    let deployment = objects.len().saturating_sub(1);
    if let Some(deployment) = objects.last_mut() {
        restart_with(deployment, bootstrap);
    }
    objects.splice(deployment..deployment, own);
    Ok(objects)
}

/// An agent looks for something to register with when it starts: so it starts again with another token.
fn restart_with(deployment: &mut DynamicObject, bootstrap: &Bootstrap) {
    let digest = digest(&SHA256, bootstrap.values().to_string().as_bytes());
    let template = deployment.data.pointer_mut("/spec/template/metadata");
    if let Some(template) = template.and_then(Value::as_object_mut) {
        let annotations = template.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(labels::REGISTERS_WITH.to_owned(), json!(hex(digest.as_ref())));
        }
    }
}

async fn apply_all(client: &Client, objects: &[DynamicObject], force: bool) -> Result<((), String), Failure> {
    let mut changed = 0;
    for object in objects {
        let (written, _) = apply::apply(client, object, force).await.map_err(|error| {
            let failure = api_error::failed(format!("cannot apply {}", name_of(object)), &error);
            if api_error::is_conflict(&error) {
                failure
                    .with_hint("another tool has set these fields; to overwrite them add --force-conflicts")
            } else {
                failure
            }
        })?;
        changed += usize::from(written != Written::Unchanged);
    }
    Ok((
        (),
        format!("{} objects applied, {changed} of them changed", objects.len()),
    ))
}

/// Waits until the agent has written its access.
async fn registered(
    client: &Client,
    namespace: &str,
    timeout: Duration,
    bootstrap: &Bootstrap,
) -> Result<((), String), Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let read = async || {
        let found = secrets.get_opt(access::SECRET).await;
        let found = found.map_err(|error| {
            api_error::failed(
                format!("cannot read Secret {namespace}/{}", access::SECRET),
                &error,
            )
        })?;
        Ok(found.as_ref().and_then(Joined::of))
    };
    if let Some(joined) = until(timeout, read).await? {
        return Ok((
            (),
            format!("this cluster is registered as Cluster {}", joined.cluster),
        ));
    }
    let message = format!("this cluster is not registered within {} s", timeout.as_secs());
    let workspace = &bootstrap.workspace;
    Err(Failure::unable(message).with_hint(format!(
        "kubectl --namespace {namespace} logs deployment/helmops-agent says why; in the management cluster: kubectl describe \
         clusterregistrations.fleet.cattle.io --namespace {workspace}"
    )))
}

fn print(args: &RegisterArgs, bootstrap: &Bootstrap, console: &mut Console<'_>) -> Result<(), Failure> {
    let objects: Vec<_> = objects(args, bootstrap, &Workload::default())?
        .iter()
        .map(as_json)
        .collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    Ok(match args.output.output {
        Format::Json => output::write_json(&mut console.out, &list),
        _ => output::write_yaml(&mut console.out, &list),
    }?)
}

#[cfg(test)]
mod tests {
    use helmops_join::access::ManagementServer;

    use super::*;
    use crate::clusters::workload::FleetsAgent;

    fn bootstrap() -> Bootstrap {
        Bootstrap {
            server: ManagementServer {
                server: "https://a".to_owned(),
                ..ManagementServer::default()
            },
            workspace: "w".to_owned(),
            token: "t".to_owned(),
            token_name: "join-a".to_owned(),
            registration_namespace: "system".to_owned(),
            client_random: String::new(),
        }
    }

    #[test]
    fn the_deployment_comes_after_what_it_registers_with() {
        let args = RegisterArgs {
            token: String::new(),
            labels: vec![("env".to_owned(), "prod".to_owned())],
            client_id: Some("edge".to_owned()),
            image: None,
            agent_flag: Vec::new(),
            trust_system: false,
            force_conflicts: false,
            timeout: Duration::ZERO,
            output: OutputArgs::default(),
        };
        let with = |token: &str| {
            let bootstrap = Bootstrap {
                token: token.to_owned(),
                ..bootstrap()
            };
            objects(&args, &bootstrap, &Workload::default()).unwrap()
        };
        let objects = with("t");
        let names: Vec<_> = objects.iter().map(name_of).collect();
        assert_eq!(
            names[names.len() - 3..],
            [
                "ConfigMap cattle-fleet-system/fleet-agent",
                "Secret cattle-fleet-system/fleet-agent-bootstrap",
                "Deployment cattle-fleet-system/helmops-agent",
            ]
        );
        let config = as_json(&objects[objects.len() - 3])["data"]["config"].to_string();
        assert!(config.contains("prod") && config.contains("edge"), "{config}");
        // The agent starts again with another token only.
        let last = |objects: &[DynamicObject]| as_json(objects.last().unwrap());
        assert_eq!(last(&objects), last(&with("t")));
        let other = last(&with("other"));
        assert_ne!(last(&objects), other);
        assert!(!other.to_string().contains("\"other\""), "{other}");
    }

    #[test]
    fn a_cluster_with_another_agent_is_refused() {
        assert!(admit(&Workload::default()).is_ok());
        let fleet = Workload {
            has_fleets_agent: true,
            fleets_agent: Some(FleetsAgent::Deployment),
            ..Workload::default()
        };
        assert!(
            admit(&fleet)
                .unwrap_err()
                .message
                .contains("deployment/fleet-agent")
        );
        let other = Workload {
            other_agent: Some("x".to_owned()),
            ..Workload::default()
        };
        assert!(admit(&other).unwrap_err().message.contains("namespace x"));
    }
}
