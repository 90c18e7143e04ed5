//! Connections that send nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use helmops_bed::probe;
use helmops_bed::wait::eventually;
use reqwest::Client;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::attack::{Attack, run};
use crate::environment::Mode;

/// Pods of the attacker.
const PEERS: u8 = 8;
/// Connections of each pod; together more than either port accepts at a time.
const CONNECTIONS: usize = 80;
/// How long a new client may wait for any response.
const RESPONSE: Duration = Duration::from_secs(2);
/// How long to wait for the connections: less than the server keeps a silent one open.
const FILLED: Duration = Duration::from_secs(5);
/// A peer whose connection is closed connects again after this time.
const RECONNECT: Duration = Duration::from_secs(1);

#[test]
fn silent_connections_to_the_admin_port() {
    run(
        Mode::BesideFleet,
        "silent connections, admin port",
        async |attack| {
            let admin = attack.env.admin_ports()[0].1.to_owned();
            stay_silent(attack, &admin, &probe::client(None)?).await
        },
    );
}

#[test]
fn silent_connections_to_the_probe_port() {
    run(
        Mode::BesideFleet,
        "silent connections, probe port",
        async |attack| {
            let probes = attack.env.probe_port()?;
            stay_silent(attack, &probes, &probe::client(None)?).await
        },
    );
}

#[test]
fn silent_connections_to_the_webhook() {
    run(Mode::BesideFleet, "silent connections, webhook", async |attack| {
        let url = attack.env.webhook.url.clone();
        // A client without a connection, like another API server.
        let client = probe::client(Some(&attack.env.webhook.ca))?;
        stay_silent(attack, &url, &client).await
    });
}

async fn stay_silent(attack: &mut Attack<'_>, url: &str, client: &Client) -> Result<()> {
    let (_, address) = url.split_once("://").context("no URL")?;
    let address: SocketAddr = address.parse()?;
    let connected = Arc::<AtomicUsize>::default();
    let mut peers = JoinSet::new();
    for peer in 1..=PEERS {
        for _ in 0..CONNECTIONS {
            let from = Ipv4Addr::new(127, 0, 2, peer);
            peers.spawn(keep_connected(from, address, Arc::clone(&connected)));
        }
    }
    let all = usize::from(PEERS) * CONNECTIONS;
    let filled = eventually("all connections", FILLED, async || {
        ensure!(connected.load(Ordering::Relaxed) >= all, "some wait");
        Ok(())
    });
    // Where the kernel's queue is full, some are never accepted, and neither are those of other clients.
    let _ = filled.await;
    attack.check(connected.load(Ordering::Relaxed) > 0, "no connection is accepted");
    let response = client.get(url).timeout(RESPONSE).send().await;
    attack.check(
        response.is_ok(),
        format!("a new client has no response: {response:?}"),
    );
    attack.neighbour_works().await;
    Ok(())
}

/// Connects again whenever the server closes the connection.
async fn keep_connected(from: Ipv4Addr, to: SocketAddr, connected: Arc<AtomicUsize>) {
    loop {
        if let Ok(mut stream) = connect(from, to).await {
            connected.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0]).await;
        }
        sleep(RECONNECT).await;
    }
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    Ok(socket.connect(to).await?)
}
