use std::{convert::Infallible, time::Duration};

use http::Response;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::PostParams,
    client::{Body, ClientBuilder},
};
use tokio::time::{Instant, advance, sleep};
use tower::service_fn;

use super::*;
use crate::client::{ApiError, bounded};

const SECOND: Duration = Duration::from_secs(1);

/// A guarded client of a server that takes this long, and counts nothing but what it answers.
fn config_maps(leadership: &Leadership, takes: Duration) -> Api<ConfigMap> {
    let server = service_fn(move |_: Request<Body>| async move {
        sleep(takes).await;
        let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        Ok::<_, Infallible>(Response::new(Body::from(body.to_vec())))
    });
    let builder = ClientBuilder::new(server, "default").with_layer(&Guard(leadership.clone()));
    let client: Client = builder.build();
    Api::default_namespaced(client)
}

async fn write(api: &Api<ConfigMap>) -> Result<ConfigMap, ApiError> {
    bounded(api.create(&PostParams::default(), &ConfigMap::default())).await
}

fn refused(written: &Result<ConfigMap, ApiError>) -> bool {
    matches!(written, Err(error @ ApiError::NotLeading(_)) if error.is_benign())
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_everybody_reads() {
    let (seat, leadership) = Leadership::elected();
    let api = config_maps(&leadership, SECOND);
    assert!(refused(&write(&api).await));
    assert!(bounded(api.get("a")).await.is_ok());
    seat.set(Some(Instant::now() + 10 * SECOND));
    assert!(write(&api).await.is_ok());
    advance(10 * SECOND).await;
    assert!(refused(&write(&api).await), "it has passed");
    assert!(bounded(api.get("a")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_write_lasts_no_longer_than_leadership() {
    let (seat, leadership) = Leadership::elected();
    let api = config_maps(&leadership, 5 * SECOND);
    let start = Instant::now();
    seat.set(Some(start + 3 * SECOND));
    assert!(refused(&write(&api).await));
    assert_eq!(start.elapsed(), 3 * SECOND, "cut off in time");

    seat.set(Some(Instant::now() + 3 * SECOND));
    let renewed = async {
        sleep(2 * SECOND).await;
        seat.set(Some(Instant::now() + 10 * SECOND));
    };
    let (written, ()) = tokio::join!(write(&api), renewed);
    assert!(written.is_ok(), "a renewal carries it on");
}

/// A process that was stopped finds its write where it was, and must not go on with it.
#[tokio::test(start_paused = true)]
async fn a_write_that_slept_through_the_end_goes_no_further() {
    let (seat, leadership) = Leadership::elected();
    seat.set(Some(Instant::now() + 3 * SECOND));
    let mut steps = 0;
    let call = poll_fn(|context: &mut Context<'_>| {
        steps += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let mut call = Box::pin(while_held(leadership, call));
    assert!(futures::poll!(&mut call).is_pending());
    advance(4 * SECOND).await;
    // Whoever is woken first: the clock is looked at before the next step.
    seat.set(None);
    assert_eq!(futures::poll!(&mut call), Poll::Ready(Err(NotLeading)));
    drop(call);
    assert_eq!(steps, 1);
}

#[tokio::test(start_paused = true)]
async fn without_an_election_nothing_is_held_up() {
    let api = config_maps(&Leadership::always(), SECOND);
    assert!(write(&api).await.is_ok());
}
