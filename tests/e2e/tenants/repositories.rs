//! Repositories that keep requests open, or that rate-limit one path of a host.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use crate::attack::{Attack, create_in, run, until_steady};
use crate::environment::Mode;
use crate::hostile_server::{ADDRESS, HostileServer};

/// Hosts of the attacker, with two ports each.
const HOSTS: u8 = 45;
const PORTS: usize = 2;
/// The largest number of concurrent requests to one host.
const PATHS: usize = 6;
/// HelmOps that are created at a time.
const STREAMS: usize = 16;

#[test]
fn dripping_bodies_beside_fleet() {
    run(Mode::BesideFleet, "540 dripping bodies", dripping_bodies);
}

#[test]
fn dripping_bodies_standalone() {
    run(Mode::Standalone, "540 dripping bodies", dripping_bodies);
}

async fn dripping_bodies(attack: &mut Attack<'_>) -> Result<()> {
    let mut servers = Vec::new();
    for host in 1..=HOSTS {
        for _ in 0..PORTS {
            servers.push(HostileServer::dripping(Ipv4Addr::new(127, 0, 1, host)).await?);
        }
    }
    let urls = servers
        .iter()
        .flat_map(|server| (0..PATHS).map(|path| format!("{}/{path}", server.url())));
    let shared = &*attack;
    let helmops = urls.enumerate().map(|(number, repo)| async move {
        let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
        let name = format!("drip-{number}");
        create_in(shared.env, &shared.tenant, "helmops", &name, spec).await
    });
    stream::iter(helmops)
        .buffer_unordered(STREAMS)
        .try_collect::<Vec<()>>()
        .await?;
    let requests = || servers.iter().map(HostileServer::requests).sum();
    until_steady(requests).await;
    attack.check(requests() > 0, "no request to the dripping servers");
    attack.neighbour_works().await;
    Ok(())
}

/// The attacker has one path of a host, and the neighbour another.
#[test]
fn a_rate_limit_on_one_path() {
    run(Mode::BesideFleet, "429 and 503 for one path", async |attack| {
        let index = attack.env.neighbour.index.clone();
        let requested = Arc::<Mutex<BTreeSet<String>>>::default();
        let record = Arc::clone(&requested);
        let host = HostileServer::serve(ADDRESS, move |path| {
            let response = respond(&path, &index);
            record.lock().unwrap().insert(path);
            response
        })
        .await?;
        for path in ["limited", "unavailable"] {
            let repo = format!("{}/{path}", host.url());
            let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
            attack.create("helmops", path, spec).await?;
        }
        until_steady(|| host.requests()).await;
        let requested = requested.lock().unwrap().clone();
        for path in ["/limited/index.yaml", "/unavailable/index.yaml"] {
            attack.check(requested.contains(path), format!("no request for {path}"));
        }
        let repo = format!("{}/neighbour", host.url());
        attack.neighbour_works_with(&repo).await;
        Ok(())
    });
}

fn respond(path: &str, index: &str) -> Response {
    let response = match path {
        "/limited/index.yaml" => Response::builder()
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header(header::RETRY_AFTER, "3600")
            .body(Body::empty()),
        path if path.starts_with("/neighbour/") => Response::builder().body(Body::from(index.to_owned())),
        _ => Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .body(Body::empty()),
    };
    response.unwrap()
}
