use std::{convert::Infallible, time::Duration};

use http::Response;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams, client::Body};
use tokio::time::{Instant, advance, sleep};
use tower::{Layer, service_fn};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A guarded client of a server whose responses take this long.
fn config_maps(leadership: &Leadership, delay: Duration) -> Api<ConfigMap> {
    let server = service_fn(move |_: Request<Body>| async move {
        sleep(delay).await;
        let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        Ok::<_, Infallible>(Response::new(Body::from(body.to_vec())))
    });
    let server = Guard(leadership.clone()).layer(server);
    Api::default_namespaced(crate::client_of(server, "default"))
}

async fn write(api: &Api<ConfigMap>) -> kube::Result<ConfigMap> {
    api.create(&PostParams::default(), &ConfigMap::default()).await
}

fn is_rejected(written: &kube::Result<ConfigMap>) -> bool {
    matches!(written, Err(kube::Error::Service(error)) if error.is::<NotLeading>())
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_every_replica_reads() {
    let (sender, leadership) = Leadership::elected();
    let api = config_maps(&leadership, SECOND);
    assert!(is_rejected(&write(&api).await));
    assert!(api.get("a").await.is_ok());
    sender.set(Some(Instant::now() + 10 * SECOND));
    assert!(write(&api).await.is_ok());
    advance(10 * SECOND).await;
    assert!(is_rejected(&write(&api).await), "leadership has ended");
    assert!(api.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_write_is_aborted_when_leadership_ends() {
    let (sender, leadership) = Leadership::elected();
    let api = config_maps(&leadership, 5 * SECOND);
    let start = Instant::now();
    sender.set(Some(start + 3 * SECOND));
    assert!(is_rejected(&write(&api).await));
    assert_eq!(start.elapsed(), 3 * SECOND, "aborted in time");

    sender.set(Some(Instant::now() + 3 * SECOND));
    let renewed = async {
        sleep(2 * SECOND).await;
        sender.set(Some(Instant::now() + 10 * SECOND));
    };
    let (written, ()) = tokio::join!(write(&api), renewed);
    assert!(written.is_ok(), "a renewal lets it continue");
}

/// A process that was suspended during a write must not continue it.
#[tokio::test(start_paused = true)]
async fn a_suspended_write_does_not_continue_after_leadership_has_ended() {
    let (sender, leadership) = Leadership::elected();
    sender.set(Some(Instant::now() + 3 * SECOND));
    let mut polls = 0;
    let call = poll_fn(|context: &mut Context<'_>| {
        polls += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let mut call = Box::pin(while_held(leadership, call));
    assert!(futures::poll!(&mut call).is_pending());
    advance(4 * SECOND).await;
    // Whichever is woken first: the clock is checked before the next poll.
    sender.set(None);
    assert_eq!(futures::poll!(&mut call), Poll::Ready(Err(NotLeading)));
    drop(call);
    assert_eq!(polls, 1);
}

#[tokio::test(start_paused = true)]
async fn without_an_election_writes_are_allowed() {
    let api = config_maps(&Leadership::always(), SECOND);
    assert!(write(&api).await.is_ok());
}
