//! `cluster join`: from two kubeconfig contexts to a cluster that HelmOps can be deployed to.

mod args;
pub mod heartbeat;
mod install;
pub mod management;
pub mod plan;

use std::{collections::BTreeMap, path::Path, time::Duration};

use helmops_api::NamespacedName;
use helmops_join::{
    access::{self, Joined, ManagementServer, UnverifiedServer},
    agent_objects::{self, AgentOptions},
    object::as_json,
};
use kube::api::DynamicObject;
use serde_json::json;

pub use self::args::{JoinArgs, label};
use self::plan::Credentials;
use super::{
    steps::Steps,
    workload::{self, Workload},
};
use crate::{
    cluster::{
        Cluster, ClusterArgs, api_error,
        apply::Written,
        permission::{self, Permission},
    },
    failure::Failure,
    output::{self, Format},
    terminal::{Console, marks::Marks},
};

/// How long the controller may take to create a namespace and an account. Milliseconds, unless it does not run.
const CONTROLLER: Duration = Duration::from_secs(30);
const AGAIN: &str = "then run the command again: it continues";

/// Joins a cluster.
///
/// # Errors
/// If a step fails; its name is printed, and the steps before are not repeated.
pub async fn run(args: &JoinArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let management = cluster.connect().await?;
    let workload = args.workload.connect(cluster).await?;
    let server = server(args, cluster).await?;
    let name = NamespacedName::new(&management.namespace, &args.name);
    let join = Join {
        args,
        steps: Steps::new(Marks::of_process(), AGAIN),
        name,
        server,
        management,
        workload,
    };
    Box::pin(join.run(console)).await
}

async fn server(args: &JoinArgs, cluster: &ClusterArgs) -> Result<ManagementServer, Failure> {
    let authorities = args
        .certificate_authority
        .as_deref()
        .map(authorities)
        .transpose()?;
    ManagementServer::of(
        &cluster.config().await?,
        args.server.as_deref(),
        authorities.as_deref(),
    )
    .map_err(unverified)
}

/// The CAs in the file of `--certificate-authority`.
///
/// # Errors
/// If it cannot be read.
pub fn authorities(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::because(
            format!("cannot read --certificate-authority {}", file.display()),
            &error,
        )
    })
}

fn unverified(error: UnverifiedServer) -> Failure {
    Failure::unable(error.to_string())
        .with_hint("name the file with the CA of the management cluster: --certificate-authority FILE")
}

/// One run of the command.
struct Join<'a> {
    args: &'a JoinArgs,
    steps: Steps,
    name: NamespacedName,
    server: ManagementServer,
    management: Cluster,
    workload: Cluster,
}

/// What is known before the first write.
struct Known {
    /// The Cluster, if it exists.
    existing: Option<helmops_api::Cluster>,
    found: Workload,
    credentials: Credentials,
    options: AgentOptions,
    objects: Vec<DynamicObject>,
}

impl Join<'_> {
    async fn run(&self, console: &mut Console<'_>) -> Result<(), Failure> {
        if self.args.dry_run.is_some() {
            let options = self.options(None, &Workload::default()).await;
            return self.print(&objects(&options)?, console);
        }
        let what = "Checking your permissions on both clusters";
        let existing = self
            .steps
            .run(console, what, Box::pin(self.check_permissions()))
            .await?;
        let step = Box::pin(self.observe(existing));
        let known = self.steps.run(console, "Reading both clusters", step).await?;
        if self.server.is_loopback() {
            let text = format!(
                "{} is an address of this machine: if the agent cannot reach the management cluster there, use --server",
                self.server.server
            );
            self.steps.warn(console, &text)?;
        }
        if !agent_objects::has_registry(&known.options.image) {
            let text = "the image has no registry: if the nodes of the workload cluster do not have it, name yours with --image";
            self.steps.warn(console, text)?;
        }
        let step = Box::pin(self.create_cluster(&known));
        self.steps
            .run(console, &format!("Creating Cluster {}", self.name), step)
            .await?;
        let what = format!("Waiting for the controller to prepare Cluster {}", self.name);
        let (namespace, token) = self.steps.run(console, &what, Box::pin(self.account())).await?;
        let joined = Joined {
            cluster: self.name.clone(),
            deployment_namespace: namespace,
        };
        let last_seen = known.existing.as_ref().map(last_seen).unwrap_or_default();
        let changed = self.install(&known, &joined, &token, console).await?;
        let report = heartbeat::Wait {
            management: &self.management.client,
            workload: &self.workload.client,
            agent_namespace: known.options.namespace(),
            cluster: &self.name,
            last_seen: &last_seen,
            is_restarted: changed,
            timeout: self.args.timeout,
        };
        self.steps
            .run(console, "Waiting for the agent to report", Box::pin(report.run()))
            .await?;
        self.conclude(&known, console)
    }

    fn print(&self, objects: &[DynamicObject], console: &mut Console<'_>) -> Result<(), Failure> {
        let mut all = vec![management::desired(&self.name, &self.labels())];
        all.extend(objects.iter().map(as_json));
        if self.args.output.output == Format::Json {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": all });
            return Ok(output::write_json(&mut console.out, &list)?);
        }
        for (number, object) in all.iter().enumerate() {
            match number {
                0 => writeln!(console.out, "# In the management cluster")?,
                1 => writeln!(
                    console.out,
                    "---\n# In the workload cluster, with Secret {}: its token can only be issued when the Cluster exists",
                    access::SECRET
                )?,
                _ => writeln!(console.out, "---")?,
            }
            output::write_yaml(&mut console.out, object)?;
        }
        Ok(())
    }

    /// What is on the clusters, if this cluster may join.
    async fn observe(&self, existing: Option<helmops_api::Cluster>) -> Result<(Known, String), Failure> {
        let [one, other] =
            [&self.management, &self.workload].map(|cluster| workload::identity(&cluster.client));
        let (one, other) = tokio::join!(one, other);
        if one.is_some() && one == other {
            let message = format!("{} is the management cluster itself", self.args.workload.shown());
            return Err(Failure::negative(message)
                .with_hint("its agent needs no access to another cluster: apply manifests/local, as docs/agent.md describes"));
        }
        let namespace = AgentOptions::in_scope(scope(existing.as_ref()))
            .namespace()
            .to_owned();
        let found = workload::observe(&self.workload.client, &namespace).await?;
        let credentials = plan::admit(&self.name, &found, self.args.take_over)?;
        let options = self.options(existing.as_ref(), &found).await;
        let objects = objects(&options)?;
        let known = Known {
            existing,
            found,
            credentials,
            options,
            objects,
        };
        Ok((
            known,
            format!(
                "management cluster {}, workload cluster {}",
                self.management.server.trim_end_matches('/'),
                self.workload.server.trim_end_matches('/')
            ),
        ))
    }

    /// The image of the flag, or the one that is installed, or the one beside that of the controller.
    async fn options(&self, existing: Option<&helmops_api::Cluster>, found: &Workload) -> AgentOptions {
        let image = match (&self.args.image, &found.image) {
            (Some(image), _) | (None, Some(image)) => image.clone(),
            (None, None) => {
                let controller = management::controller_image(&self.management.client).await;
                controller
                    .as_deref()
                    .and_then(agent_objects::image_beside)
                    .unwrap_or_default()
            }
        };
        AgentOptions {
            image,
            flags: self.args.agent_flag.clone(),
            ..AgentOptions::in_scope(scope(existing))
        }
    }

    /// Reads the Cluster if that is possible, and checks all permissions before anything is written.
    async fn check_permissions(&self) -> Result<(Option<helmops_api::Cluster>, String), Failure> {
        let client = &self.management.client;
        let get = Permission::new("get", "fleet.cattle.io", "clusters").within(&self.name.namespace);
        let may_get = get.on(&self.name.name).is_granted(client).await;
        let failed = |error: kube::Error| api_error::failed("cannot check permissions", &error);
        let existing = if may_get.map_err(failed)? {
            management::get(client, &self.name).await?
        } else {
            // It is listed with the other permissions that are missing.
            None
        };
        let labels = !self.args.labels.is_empty();
        let management = plan::management_permissions(&self.name, existing.is_some(), labels);
        let options = AgentOptions::in_scope(scope(existing.as_ref()));
        let mut objects = objects(&options)?;
        objects.push(self.secret(&options, "", "")?);
        let workload = plan::workload_permissions(&objects, options.namespace(), self.args.take_over);
        let missing = tokio::try_join!(
            permission::missing(client, &management),
            permission::missing(&self.workload.client, &workload),
        );
        let (in_management, in_workload) = missing.map_err(failed)?;
        match plan::lacking(&in_management, &in_workload) {
            Some(failure) => Err(failure),
            None => Ok((
                existing,
                "you have all permissions that are needed on both clusters".to_owned(),
            )),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        self.args.labels.iter().cloned().collect()
    }

    async fn create_cluster(&self, known: &Known) -> Result<((), String), Failure> {
        let client = &self.management.client;
        let written = match &known.existing {
            None => {
                management::create(client, &self.name, &self.labels()).await?;
                Written::Created
            }
            Some(cluster) => {
                let changes = plan::label_changes(&self.labels(), cluster.metadata.labels.as_ref());
                management::label(client, &self.name, &changes).await?
            }
        };
        Ok(((), format!("Cluster {} {}", self.name, written.as_str())))
    }

    /// The namespace of the cluster, and a token of its agent's account.
    async fn account(&self) -> Result<((String, String), String), Failure> {
        let client = &self.management.client;
        let namespace = management::namespace(client, &self.name, CONTROLLER).await?;
        let token = management::token(client, &namespace, CONTROLLER).await?;
        let done = format!("namespace {namespace} has an account for the agent");
        Ok(((namespace, token), done))
    }

    /// The Secret with the access to the management cluster.
    fn secret(&self, options: &AgentOptions, namespace: &str, token: &str) -> Result<DynamicObject, Failure> {
        let joined = Joined {
            cluster: self.name.clone(),
            deployment_namespace: namespace.to_owned(),
        };
        let secret = access::secret(options.namespace(), &joined, &self.server, token);
        secret.map_err(|error| Failure::because("cannot encode the Secret", &error))
    }

    fn conclude(&self, known: &Known, console: &mut Console<'_>) -> Result<(), Failure> {
        let NamespacedName { namespace, name } = &self.name;
        writeln!(
            console.out,
            "\nCluster {namespace}/{name} has joined. HelmOps in namespace {namespace} can target it."
        )?;
        writeln!(
            console.out,
            "List all clusters with: kubectl helmop cluster list --namespace {namespace}"
        )?;
        if let Some(agent) = known.found.fleets_agent {
            let (agent, own) = (agent.as_str(), known.options.namespace());
            writeln!(
                console.out,
                "Fleet's agent is stopped. When no release has a new revision, delete it on the workload cluster: \
                 kubectl --namespace {own} delete {agent}"
            )?;
        }
        Ok(())
    }
}

fn objects(options: &AgentOptions) -> Result<Vec<DynamicObject>, Failure> {
    agent_objects::objects(options).map_err(|error| Failure::unable(error.to_string()))
}

/// `spec.agentNamespace` of the Cluster.
fn scope(cluster: Option<&helmops_api::Cluster>) -> &str {
    cluster.map_or("", |cluster| &cluster.spec.agent_namespace)
}

fn last_seen(cluster: &helmops_api::Cluster) -> String {
    helmops_core::status::last_seen(&cluster.status).to_owned()
}
