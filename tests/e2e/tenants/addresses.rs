//! Repositories that direct the controller to addresses that only the controller reaches.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::ensure;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use helmops_bed::random;
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::attack::{SOON, run};
use crate::environment::Mode;
use crate::hostile_server::{ADDRESS, HostileServer};
use crate::leaks::PlantedSecret;

/// The controller is started with this address denied.
const DENIED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// An allowed address, of another server.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

/// The controller reaches no denied address, and repeats no text to which another server redirected it.
#[test]
fn requests_to_internal_addresses() {
    run(
        Mode::BesideFleet,
        "requests to internal addresses",
        async |attack| {
            let text = random::word();
            attack.env.planted.push(PlantedSecret {
                description: "the text of an internal server",
                text: text.clone(),
            });
            let respond = move |_| Response::new(Body::from(format!("{text} is inside")));
            let denied = HostileServer::serve(DENIED, respond.clone()).await?;
            let other = HostileServer::serve(OTHER, respond).await?;
            let admin = attack.env.admin_ports()[0].1.to_owned();
            let locations = Arc::new([
                format!("{}/", denied.url()),
                format!("{}/", other.url()),
                format!("{admin}/metrics"),
            ]);
            let redirects =
                HostileServer::serve(ADDRESS, move |path| redirect(&path, locations.as_slice())).await?;
            let repos = [
                ("direct", denied.url()),
                ("to-denied", format!("{}/0", redirects.url())),
                ("to-other", format!("{}/1", redirects.url())),
                ("to-itself", format!("{}/2", redirects.url())),
            ];
            for (name, repo) in &repos {
                let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
                attack.create("helmops", name, spec).await?;
            }
            for (name, _) in &repos {
                let status = eventually("a status", SOON, async || {
                    let helmop = attack.get("helmops", name).await?;
                    ensure!(helmop["status"]["conditions"].is_array(), "no conditions");
                    Ok(helmop["status"].to_string())
                });
                let status = status.await?;
                attack.check(
                    !status.contains("# HELP") && !status.contains("helmops_"),
                    format!("the status of {name} shows metrics: {status}"),
                );
            }
            let requests = denied.requests();
            attack.check(
                requests == 0,
                format!("{requests} connections to a denied address"),
            );
            attack.neighbour_works().await;
            Ok(())
        },
    );
}

fn redirect(path: &str, locations: &[String]) -> Response {
    let number = path.split('/').nth(1).and_then(|part| part.parse::<usize>().ok());
    let location = number.and_then(|number| locations.get(number));
    let response = match location {
        Some(location) => Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, location),
        None => Response::builder().status(StatusCode::NOT_FOUND),
    };
    response.body(Body::empty()).unwrap()
}
