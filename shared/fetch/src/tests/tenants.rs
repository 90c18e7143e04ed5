//! One tenant does not affect others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    future::{join, join_all, select},
    pin_mut,
};
use helmops_fair::Deadline;
use tokio::sync::watch;

use super::{
    fixture::{TestResolver, anonymous, version, within_deadline},
    responses::{index, indexed},
    server::{Action, Server, stalling, status},
};
use crate::{TIME_LIMIT, access::Access};

/// The access of a HelmOp in a namespace.
fn in_namespace(namespace: &str) -> Access {
    Access {
        namespace: namespace.into(),
        ..anonymous()
    }
}

/// An upper bound for operations of milliseconds, on a machine that is busy with other tests.
const MAX_DURATION: Duration = Duration::from_secs(10);

#[tokio::test]
async fn stalled_bodies_of_one_tenant_delay_no_other_tenant() {
    let resolver = Arc::new(TestResolver::new());
    let mut attack = tokio::task::JoinSet::new();
    let mut servers = Vec::new();
    for _ in 0..90 {
        let server = Arc::new(Server::http(|_| stalling(index(&["1.0.0"]))).await);
        for number in 0..6 {
            let (resolver, url) = (Arc::clone(&resolver), format!("{}/{number}", server.url()));
            attack.spawn(async move { drop(resolver.repository(&in_namespace("hostile"), &url).await) });
        }
        servers.push(server);
    }
    let received = || {
        servers
            .iter()
            .map(|server| server.requests().len())
            .sum::<usize>()
    };
    within_deadline(async {
        while received() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let modest = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let started = Instant::now();
    let found = resolver.repository(&in_namespace("modest"), &modest.url()).await;
    assert_eq!(version(found), "1.0.0");
    assert!(started.elapsed() < MAX_DURATION, "{:?}", started.elapsed());
    // On a busy machine, one of the six may have ended meanwhile. Without the limit of a host there were eight, the limit of a namespace.
    let received = received();
    assert!(
        received < 8,
        "all servers are on one host, whatever the port: {received}"
    );
}

/// The deadline of a HelmOp counts the time of servers, and not waits for other HelmOps.
#[tokio::test]
async fn the_deadline_is_paused_while_a_resolution_waits_for_a_permit() {
    let (release, released) = watch::channel(false);
    let server = Server::http(move |_| {
        let mut reply = vec![Action::Until(released.clone())];
        reply.extend(indexed(&[], &["1.0.0"]));
        reply
    })
    .await;
    let (resolver, access) = (TestResolver::new(), in_namespace("a"));
    let urls: Vec<_> = (0..6)
        .map(|number| format!("{}/{number}", server.url()))
        .collect();
    let held = join_all(urls.iter().map(|url| resolver.repository(&access, url)));
    let deadline = Deadline::new(TIME_LIMIT);
    let waiting = async {
        while server.requests().len() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let url = server.url();
        let resolution = deadline.run(resolver.repository(&access, &url));
        let release = async {
            while !deadline.is_paused() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            release.send(true).unwrap();
        };
        assert!(!deadline.is_paused());
        join(resolution, release).await.0
    };
    let (held, found) = within_deadline(join(held, waiting)).await;
    assert!(held.iter().all(Result::is_ok));
    assert_eq!(version(found.unwrap()), "1.0.0");
    assert!(!deadline.is_paused());
}

#[test]
fn names_are_resolved_while_bodies_stall() {
    // If a body were read on the only blocking thread of this runtime, everything else that needs it would wait forever.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let resolver = TestResolver::new();
        let stalled = Server::http(|_| stalling(index(&["1.0.0"]))).await;
        let modest = Server::http(|_| indexed(&[], &["1.0.0"])).await;
        let (hostile, url) = (in_namespace("hostile"), stalled.url());
        let attack = resolver.repository(&hostile, &url);
        let resolution = async {
            while stalled.written() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let url = format!("http://localhost:{}", modest.port());
            within_deadline(resolver.repository(&in_namespace("modest"), &url)).await
        };
        pin_mut!(attack, resolution);
        match select(attack, resolution).await {
            futures::future::Either::Right((found, _)) => assert_eq!(version(found), "1.0.0"),
            futures::future::Either::Left((outcome, _)) => panic!("{outcome:?}"),
        }
    });
}

#[tokio::test]
async fn a_failing_path_does_not_block_its_host_for_others() {
    let hostile_replies: [fn() -> super::server::Reply; 3] = [
        || status(429, &[("Retry-After", "3600")]),
        || status(500, &[]),
        || vec![Action::Close],
    ];
    for hostile in hostile_replies {
        let server = Server::http(move |head| match head.target.as_str() {
            "/hostile/index.yaml" => hostile(),
            _ => indexed(&[], &["1.0.0"]),
        })
        .await;
        let resolver = TestResolver::new();
        let path = format!("{}/hostile", server.url());
        for _ in 0..2 {
            assert!(
                resolver
                    .repository(&in_namespace("hostile"), &path)
                    .await
                    .is_err()
            );
        }
        assert_eq!(server.requests().len(), 1, "the path itself backs off");
        let found = resolver.repository(&in_namespace("modest"), &server.url()).await;
        assert_eq!(version(found), "1.0.0");
    }
}

#[tokio::test]
async fn a_rate_limit_of_one_login_does_not_apply_to_another() {
    let server = Server::http(|head| match head.text("Authorization") {
        "" => indexed(&[], &["1.0.0"]),
        _ => status(429, &[("Retry-After", "3600")]),
    })
    .await;
    let resolver = TestResolver::new();
    let rate_limited = super::fixture::login(&server, "user");
    assert!(resolver.repository(&rate_limited, &server.url()).await.is_err());
    let found = resolver.repository(&anonymous(), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}

#[tokio::test]
async fn a_redirect_to_a_dead_server_does_not_block_the_first_server() {
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target_url = format!("http://{}/index.yaml", dead.local_addr().unwrap());
    drop(dead);
    let server = Server::http(move |head| match head.target.as_str() {
        "/hostile/index.yaml" => status(302, &[("Location", &target_url)]),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let resolver = TestResolver::new();
    let path = format!("{}/hostile", server.url());
    assert!(
        resolver
            .repository(&in_namespace("hostile"), &path)
            .await
            .is_err()
    );
    let found = resolver.repository(&in_namespace("modest"), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}
