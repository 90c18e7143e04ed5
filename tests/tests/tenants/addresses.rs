//! Repositories that lead the controller to addresses which only it reaches.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::ensure;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use helmops_tests::random;
use helmops_tests::wait::eventually;
use serde_json::json;

use crate::bed::Mode;
use crate::hostile::{ADDRESS, Hostile};
use crate::leaks::Planted;
use crate::stage::{SOON, run};

/// The controller is started with this address denied.
const DENIED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// An allowed address of somebody else.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

/// The controller reaches no denied address, and repeats no text to which another server redirected it.
#[test]
fn internal_addresses() {
    run(
        Mode::BesideFleet,
        "requests to internal addresses",
        async |stage| {
            let text = random::word();
            stage.bed.planted.push(Planted {
                what: "the text of an internal server",
                text: text.clone(),
            });
            let inside = move |_| Response::new(Body::from(format!("{text} is inside")));
            let denied = Hostile::serve(DENIED, inside.clone()).await?;
            let other = Hostile::serve(OTHER, inside).await?;
            let admin = stage.bed.admin_ports()[0].1.to_owned();
            let places = Arc::new([
                format!("{}/", denied.url()),
                format!("{}/", other.url()),
                format!("{admin}/metrics"),
            ]);
            let redirects = Hostile::serve(ADDRESS, move |path| redirect(&path, places.as_slice())).await?;
            let repos = [
                ("direct", denied.url()),
                ("to-denied", format!("{}/0", redirects.url())),
                ("to-other", format!("{}/1", redirects.url())),
                ("to-itself", format!("{}/2", redirects.url())),
            ];
            for (name, repo) in &repos {
                let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
                stage.create("helmops", name, spec).await?;
            }
            for (name, _) in &repos {
                let status = eventually("a status", SOON, async || {
                    let helmop = stage.get("helmops", name).await?;
                    ensure!(helmop["status"]["conditions"].is_array(), "no conditions");
                    Ok(helmop["status"].to_string())
                });
                let status = status.await?;
                stage.check(
                    !status.contains("# HELP") && !status.contains("helmops_"),
                    format!("the status of {name} shows metrics: {status}"),
                );
            }
            let requests = denied.requests();
            stage.check(
                requests == 0,
                format!("{requests} connections to a denied address"),
            );
            stage.neighbour_works().await;
            Ok(())
        },
    );
}

fn redirect(path: &str, places: &[String]) -> Response {
    let number = path.split('/').nth(1).and_then(|part| part.parse::<usize>().ok());
    let place = number.and_then(|number| places.get(number));
    let response = match place {
        Some(place) => Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, place),
        None => Response::builder().status(StatusCode::NOT_FOUND),
    };
    response.body(Body::empty()).unwrap()
}
