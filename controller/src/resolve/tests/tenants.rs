//! What one tenant does to others: nothing that they notice.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    future::{join, join_all, select},
    pin_mut,
};
use tokio::sync::watch;

use super::{
    answers::{index, indexed},
    asking::{Asking, anonymous, in_time, version},
    rig::{Act, Server, stalling, status},
};
use crate::resolve::access::Access;

/// A HelmOp's access in a namespace.
fn within(namespace: &str) -> Access {
    Access {
        namespace: namespace.into(),
        ..anonymous()
    }
}

/// Bounds what takes milliseconds, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn stalled_bodies_of_one_tenant_delay_no_other_tenant() {
    let asking = Arc::new(Asking::new());
    let mut attack = tokio::task::JoinSet::new();
    let mut servers = Vec::new();
    for _ in 0..90 {
        let server = Arc::new(Server::http(|_| stalling(index(&["1.0.0"]))).await);
        for number in 0..6 {
            let (asking, url) = (Arc::clone(&asking), format!("{}/{number}", server.url()));
            attack.spawn(async move { drop(asking.repository(&within("evil"), &url).await) });
        }
        servers.push(server);
    }
    let asked = || servers.iter().map(|server| server.heads().len()).sum::<usize>();
    in_time(async {
        while asked() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let honest = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let started = Instant::now();
    let found = asking.repository(&within("honest"), &honest.url()).await;
    assert_eq!(version(found), "1.0.0");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(asked(), 6, "all of them are on one host, whatever the port");
}

/// The time of a HelmOp is for what servers take, and not for how many HelmOps there are.
#[tokio::test]
async fn no_time_passes_while_a_look_up_waits_for_its_turn() {
    let (release, released) = watch::channel(false);
    let server = Server::http(move |_| {
        let mut reply = vec![Act::Until(released.clone())];
        reply.extend(indexed(&[], &["1.0.0"]));
        reply
    })
    .await;
    let (asking, others) = (Asking::new(), within("a"));
    let urls: Vec<_> = (0..6)
        .map(|number| format!("{}/{number}", server.url()))
        .collect();
    let held = join_all(urls.iter().map(|url| asking.repository(&others, url)));
    let last = within("a");
    let waiting = async {
        while server.heads().len() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (access, url) = (&last, server.url());
        let look_up = asking.repository(access, &url);
        let release = async {
            while !access.clock.stands() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            release.send(true).unwrap();
        };
        assert!(!access.clock.stands());
        join(look_up, release).await.0
    };
    let (held, found) = in_time(join(held, waiting)).await;
    assert!(held.iter().all(Result::is_ok));
    assert_eq!(version(found), "1.0.0");
    assert!(!last.clock.stands());
}

#[test]
fn names_are_resolved_while_bodies_stall() {
    // All that waits for the one blocking thread of this runtime waits for ever if a body is read there.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let asking = Asking::new();
        let stalled = Server::http(|_| stalling(index(&["1.0.0"]))).await;
        let honest = Server::http(|_| indexed(&[], &["1.0.0"])).await;
        let (evil, url) = (within("evil"), stalled.url());
        let attack = asking.repository(&evil, &url);
        let look_up = async {
            while stalled.written() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let url = format!("http://localhost:{}", honest.port());
            in_time(asking.repository(&within("honest"), &url)).await
        };
        pin_mut!(attack, look_up);
        match select(attack, look_up).await {
            futures::future::Either::Right((found, _)) => assert_eq!(version(found), "1.0.0"),
            futures::future::Either::Left((outcome, _)) => panic!("{outcome:?}"),
        }
    });
}

#[tokio::test]
async fn one_path_does_not_stop_a_host_for_others() {
    let evils: [fn() -> super::rig::Reply; 3] = [
        || status(429, &[("Retry-After", "3600")]),
        || status(500, &[]),
        || vec![Act::Close],
    ];
    for evil in evils {
        let server = Server::http(move |head| match head.target.as_str() {
            "/evil/index.yaml" => evil(),
            _ => indexed(&[], &["1.0.0"]),
        })
        .await;
        let asking = Asking::new();
        let path = format!("{}/evil", server.url());
        for _ in 0..2 {
            assert!(asking.repository(&within("evil"), &path).await.is_err());
        }
        assert_eq!(server.heads().len(), 1, "the path itself is spared");
        let found = asking.repository(&within("honest"), &server.url()).await;
        assert_eq!(version(found), "1.0.0");
    }
}

#[tokio::test]
async fn what_one_login_meets_is_not_held_against_another() {
    let server = Server::http(|head| match head.text("Authorization") {
        "" => indexed(&[], &["1.0.0"]),
        _ => status(429, &[("Retry-After", "3600")]),
    })
    .await;
    let asking = Asking::new();
    let limited = super::asking::login(&server, "user");
    assert!(asking.repository(&limited, &server.url()).await.is_err());
    let found = asking.repository(&anonymous(), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}

#[tokio::test]
async fn a_redirect_to_a_dead_server_is_not_held_against_the_first() {
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("http://{}/index.yaml", dead.local_addr().unwrap());
    drop(dead);
    let server = Server::http(move |head| match head.target.as_str() {
        "/evil/index.yaml" => status(302, &[("Location", &away)]),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let asking = Asking::new();
    let path = format!("{}/evil", server.url());
    assert!(asking.repository(&within("evil"), &path).await.is_err());
    let found = asking.repository(&within("honest"), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}
