//! Connections that say nothing.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use helmops_tests::probe;
use reqwest::Client;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

use crate::bed::Mode;
use crate::stage::{Stage, run};

/// Pods of the attacker.
const PEERS: u8 = 8;
/// Of each of them; together more than either port takes at a time.
const CONNECTIONS: usize = 80;
/// How long a new client may wait for any response.
const RESPONSE: Duration = Duration::from_secs(2);
/// A full backlog accepts no more; those that are open suffice.
const CONNECT: Duration = Duration::from_secs(2);

#[test]
fn silent_connections_to_the_admin_port() {
    run(
        Mode::BesideFleet,
        "silent connections, admin port",
        async |stage| {
            let admin = stage.bed.admin_ports()[0].1.to_owned();
            stay_silent(stage, &admin, &probe::client(None)?).await
        },
    );
}

#[test]
fn silent_connections_to_the_webhook() {
    run(Mode::BesideFleet, "silent connections, webhook", async |stage| {
        let url = stage.bed.webhook.url.clone();
        // Another API server has no connection yet.
        let client = probe::client(Some(&stage.bed.webhook.ca))?;
        stay_silent(stage, &url, &client).await
    });
}

async fn stay_silent(stage: &mut Stage<'_>, url: &str, client: &Client) -> Result<()> {
    let (_, address) = url.split_once("://").context("no URL")?;
    let address: SocketAddr = address.parse()?;
    let mut connecting = JoinSet::new();
    for peer in 1..=PEERS {
        for _ in 0..CONNECTIONS {
            connecting.spawn(connect(Ipv4Addr::new(127, 0, 2, peer), address));
        }
    }
    let mut silent = Vec::new();
    while let Some(connected) = connecting.join_next().await {
        silent.extend(connected?.ok());
    }
    stage.check(!silent.is_empty(), "no connection is accepted");
    let response = client.get(url).timeout(RESPONSE).send().await;
    stage.check(
        response.is_ok(),
        format!("a new client has no response: {response:?}"),
    );
    stage.neighbour_works().await;
    // Held until here.
    drop(silent);
    Ok(())
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    Ok(timeout(CONNECT, socket.connect(to)).await??)
}
