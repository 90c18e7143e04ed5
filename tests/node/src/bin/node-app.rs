//! The program of the test images: a web server, or something that fails in one of the ways that containers fail. It links little, so that
//! an image is a few megabytes.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

const PORT: u16 = 8080;
const DIAL: Duration = Duration::from_secs(3);
const MIB: usize = 1 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = tokio::select! {
        result = run(&arguments) => result,
        // The first process of a PID namespace ignores a signal that it does not handle.
        result = terminated() => result.map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

async fn run(arguments: &[&str]) -> Result<ExitCode> {
    match arguments {
        // The sandbox of a pod, which only exists.
        ["pause"] => std::future::pending().await,
        ["serve"] => serve().await?,
        ["files", folder] => files(folder).await?,
        ["sink"] => sink().await?,
        ["test", result] => return Ok(test(result)),
        ["crash"] => {
            say("loading /etc/shop.conf");
            say("fatal: cannot open the database");
            return Ok(ExitCode::from(3));
        }
        ["memory", mib] => memory(mib.parse()?).await?,
        ["dial", address] => {
            dial(address)?;
        }
        other => bail!("unknown arguments {other:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn terminated() -> Result<()> {
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

fn say(line: &str) {
    // Nothing is left to do if the log is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// A web server that shows its version.
async fn serve() -> Result<()> {
    let text = format!("{} {}\n", variable("VERSION"), variable("GREETING"));
    let is_ready = variable("NEVER_READY").is_empty();
    let ready = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let router = Router::new().route("/ready", get(async move || ready));
    listen(router.fallback(async move || text.clone())).await
}

/// The files of a folder.
async fn files(folder: &str) -> Result<()> {
    let folder = folder.to_owned();
    let read = async move |uri: Uri| {
        let path = uri.path().trim_start_matches('/');
        let is_inside = !path.split('/').any(|part| part == "..");
        let content = is_inside.then(|| std::fs::read(format!("{folder}/{path}")).ok());
        content.flatten().ok_or(StatusCode::NOT_FOUND)
    };
    listen(Router::new().route("/ready", get(async || "")).fallback(read)).await
}

/// Prints what it receives.
async fn sink() -> Result<()> {
    let print = async |body: Bytes| say(&String::from_utf8_lossy(&body));
    listen(Router::new().route("/ready", get(async || "")).fallback(print)).await
}

async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, PORT)).await?;
    say(&format!(
        "listening on port {PORT}, version {}",
        variable("VERSION")
    ));
    Ok(axum::serve(listener, router).await?)
}

/// A Helm test.
fn test(result: &str) -> ExitCode {
    for number in 1..=30 {
        say(&format!("check {number}: ok"));
    }
    if result == "ok" {
        return ExitCode::SUCCESS;
    }
    say("check 31: FAILED: GET /cart: expected 200, got 500");
    ExitCode::FAILURE
}

/// Uses memory, and keeps it.
async fn memory(mib: usize) -> Result<()> {
    let mut used = Vec::new();
    let start = Instant::now();
    for _ in 0..mib {
        used.push(vec![1_u8; MIB]);
    }
    say(&format!("{} MiB after {:?}", used.len(), start.elapsed()));
    std::future::pending().await
}

/// Whether an address accepts connections.
fn dial(address: &str) -> Result<()> {
    let found: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    let first = found
        .first()
        .with_context(|| format!("{address} has no address"))?;
    TcpStream::connect_timeout(first, DIAL).with_context(|| format!("cannot connect to {address}"))?;
    Ok(())
}
