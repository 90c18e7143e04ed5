//! The command: from its arguments to a server that runs until it is interrupted.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use helmops_process::{OsSignals, Signals, listen};
use tokio_util::sync::CancellationToken;

use super::{browser, feed::Live, hub::Hub, server, session::Session};
use crate::{
    cluster::{ClusterArgs, contexts::Contexts},
    failure::Failure,
    terminal::{Console, style::Style},
};

/// The arguments of `ui`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Open the browser with the HelmOps of the current context
  kubectl helmop ui

  # Print the address only, and use a port of your choice
  kubectl helmop ui --port 8090 --open=false

  # With Helm's revisions of releases without spec.lifecycle, on the cluster of another context
  kubectl helmop ui --cluster-context edge-1=edge

The page is read-only, and only this computer can reach it. It shows what the kubeconfig may read.")]
pub struct UiArgs {
    /// Port on 127.0.0.1; 0 selects a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Open the browser
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub open: bool,
    /// Context of a Cluster, to read the records of Helm there; by default the current context, for HelmOps on one cluster
    #[arg(long, value_name = "CLUSTER=CONTEXT")]
    pub cluster_context: Vec<String>,
}

/// Serves the pages until it is interrupted.
///
/// # Errors
/// If no client can be created, or the port is in use.
pub async fn run(args: &UiArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let contexts = Contexts::parse(&args.cluster_context, cluster)?;
    let cluster = cluster.connect().await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = listen(address).await.map_err(|error| {
        Failure::because(format!("cannot listen on {address}"), &error)
            .with_hint("another program may use the port; --port 0 selects a free one")
    })?;
    let address = listener.local_addr()?;
    let session = Arc::new(Session::new(address)?);
    let mut signals = OsSignals::install()?;
    let stop = CancellationToken::new();
    let live = Live::new(cluster, contexts);
    let hub = Hub::new(live.clone());
    report(&session, console)?;
    if args.open && !browser::open(&session.link_for_browser()) {
        writeln!(console.err, "No browser was found: open the address above.")?;
    }
    let serving = server::serve(listener, Arc::clone(&session), hub, stop.clone());
    let until_stopped = async {
        tokio::select! {
            _ = signals.next() => {}
            () = live.follow() => {}
        }
        stop.cancel();
    };
    let (served, ()) = tokio::join!(serving, until_stopped);
    served
}

fn report(session: &Session, console: &mut Console<'_>) -> Result<(), Failure> {
    let link = console.styles.paint(Style::Strong, &session.link());
    writeln!(console.out, "Serving on {link}")?;
    writeln!(
        console.out,
        "The address has a key that is valid as long as this command runs. Stop it with Ctrl-C."
    )?;
    Ok(console.out.flush()?)
}
