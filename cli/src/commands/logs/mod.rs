//! `logs`: what the processes have logged, of all replicas in one order.

pub mod line;

use std::time::Duration;

use clap::ValueEnum;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, future::try_join_all, stream::select_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams},
};

use self::line::{Line, merged};
use crate::{
    check::installed::NAMESPACE,
    cluster::{Cluster, ClusterArgs, api_error, duration::duration},
    failure::Failure,
    output::{Format, OutputArgs},
    terminal::Console,
};

/// The arguments of `logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What the controller did for a HelmOp in the last hour
  kubectl helmop logs controller --helmop web -n fleet-default --since 1h

  # All replicas of the webhook, as it happens
  kubectl helmop logs webhook --follow

  # The agent of another cluster, for a program
  kubectl helmop logs agent --context edge-1 -o json")]
pub struct LogsArgs {
    /// The process
    #[arg(value_enum, default_value = "controller")]
    pub process: LoggingProcess,
    /// Continue until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only lines that are not older, such as 30m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
    /// Only the last lines of each pod
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub tail: i64,
    /// Only lines about this HelmOp of the namespace, or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub helmop: Option<String>,
    /// The format: json prints the lines as they were written.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The process whose log is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingProcess {
    /// The controller
    Controller,
    /// The webhook
    Webhook,
    /// The agent on the cluster of the context
    Agent,
    /// The notifier
    Notifier,
    /// The receiver
    Receiver,
}

/// The most that is read of the log of a pod.
const MAX_BYTES: i64 = 32 << 20;

impl LoggingProcess {
    /// The label of its pods. Those of controllers of shards have other names.
    const fn selector(self) -> &'static str {
        match self {
            Self::Controller => {
                "app.kubernetes.io/part-of=helmops,app.kubernetes.io/name notin (helmops-webhook, helmops-agent, \
                 helmops-notifier, helmops-receiver)"
            }
            Self::Webhook => "app.kubernetes.io/name=helmops-webhook",
            Self::Agent => "app.kubernetes.io/name=helmops-agent",
            Self::Notifier => "app.kubernetes.io/name=helmops-notifier",
            Self::Receiver => "app.kubernetes.io/name=helmops-receiver",
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Webhook => "webhook",
            Self::Agent => "agent",
            Self::Notifier => "notifier",
            Self::Receiver => "receiver",
        }
    }
}

/// Prints the lines.
///
/// # Errors
/// If the pods or their logs cannot be read.
pub async fn run(args: &LogsArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let connected = cluster.connect().await?;
    let pods = pods(&connected.client, args.process).await?;
    let printer = Printer {
        helmop: args.helmop.as_deref().map(|name| qualified(name, &connected)),
        has_pods: pods.len() > 1,
        is_raw: args.output.output == Format::Json,
    };
    let params = LogParams {
        follow: args.follow,
        since_seconds: args.since.and_then(|since| i64::try_from(since.as_secs()).ok()),
        tail_lines: (args.tail >= 0).then_some(args.tail),
        limit_bytes: (!args.follow).then_some(MAX_BYTES),
        ..LogParams::default()
    };
    if args.follow {
        follow(&connected.client, &pods, &params, &printer, console).await
    } else {
        let logs = pods.iter().map(|pod| read(&connected.client, pod, &params));
        for line in merged(try_join_all(logs).await?) {
            printer.print(&line, console)?;
        }
        Ok(())
    }
}

fn qualified(name: &str, cluster: &Cluster) -> String {
    if name.contains('/') {
        name.to_owned()
    } else {
        format!("{}/{name}", cluster.namespace)
    }
}

/// The pods of a process. If not all namespaces can be read, those of the manifests' namespace.
async fn pods(client: &Client, process: LoggingProcess) -> Result<Vec<Pod>, Failure> {
    let params = ListParams::default().labels(process.selector());
    let found = match Api::<Pod>::all(client.clone()).list(&params).await {
        Err(error) if api_error::is_forbidden(&error) => {
            Api::<Pod>::namespaced(client.clone(), NAMESPACE)
                .list(&params)
                .await
        }
        found => found,
    };
    let found = found.map_err(|error| api_error::failed("cannot list pods", &error))?;
    let has_started = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase.is_some_and(|phase| phase != "Pending")
    };
    let started: Vec<_> = found.items.into_iter().filter(has_started).collect();
    if started.is_empty() {
        let message = format!("no pod of the {} runs on this cluster", process.as_str());
        return Err(Failure::negative(message).with_hint(
            "select another cluster with --context; kubectl helmop check shows what is installed",
        ));
    }
    Ok(started)
}

fn api(client: &Client, pod: &Pod) -> Api<Pod> {
    Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default())
}

fn failed(pod: &Pod, error: &kube::Error) -> Failure {
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    api_error::failed(format!("cannot read the log of pod {name}"), error)
}

async fn read(client: &Client, pod: &Pod, params: &LogParams) -> Result<Vec<Line>, Failure> {
    let name = pod.name_any();
    let log = api(client, pod).logs(&name, params).await;
    let log = log.map_err(|error| failed(pod, &error))?;
    Ok(log.lines().map(|text| Line::new(&name, text)).collect())
}

/// Prints lines as they arrive.
async fn follow(
    client: &Client,
    pods: &[Pod],
    params: &LogParams,
    printer: &Printer,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let streams = try_join_all(pods.iter().map(async |pod| {
        let name = pod.name_any();
        let reader = api(client, pod).log_stream(&name, params).await;
        let lines = reader.map_err(|error| failed(pod, &error))?.lines();
        let of_pod = lines.map_ok(move |text| Line::new(&name, &text));
        Ok::<_, Failure>(of_pod.boxed_local())
    }));
    let mut all = select_all(streams.await?);
    while let Some(line) = all.next().await {
        let line =
            line.map_err(|error| Failure::because("the connection to the API server ended", &error))?;
        printer.print(&line, console)?;
        console.out.flush()?;
    }
    Ok(())
}

/// Which lines are printed, and how.
struct Printer {
    helmop: Option<String>,
    has_pods: bool,
    is_raw: bool,
}

impl Printer {
    fn print(&self, line: &Line, console: &mut Console<'_>) -> Result<(), Failure> {
        if self
            .helmop
            .as_deref()
            .is_some_and(|helmop| !line.is_about(helmop))
        {
            return Ok(());
        }
        let text = if self.is_raw {
            line.text.clone()
        } else {
            line.rendered(self.has_pods, console.styles)
        };
        Ok(writeln!(console.out, "{text}")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_process_is_among_the_controllers() {
        let controllers = LoggingProcess::Controller.selector();
        for process in LoggingProcess::value_variants() {
            let own = process.selector().rsplit_once('=').map_or("", |(_, name)| name);
            assert!(
                *process == LoggingProcess::Controller || controllers.contains(own),
                "{own} is not in {controllers}"
            );
        }
    }
}
