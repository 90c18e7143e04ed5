use std::{convert::Infallible, sync::atomic::AtomicUsize, time::Duration};

use helmops_api::{Decoded, HelmOp};
use http::{Request, Response, StatusCode};
use kube::{client::Body, core::Status};
use serde_json::json;
use watcher::Event;

use super::*;
use crate::Presence;

/// An API server that rejects every list with this status code, and the number of its requests.
fn failing(code: u16) -> (Api<Decoded<HelmOp>>, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code });
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        ready(Ok::<_, Infallible>(response))
    });
    (Api::all(crate::client_of(service, "default")), requests)
}

/// The name of an event, or that it is an error.
fn name(event: &WatchResult<Decoded<HelmOp>>) -> &'static str {
    match event {
        Ok(Event::Init) => "Init",
        Ok(Event::InitApply(_)) => "InitApply",
        Ok(Event::InitDone) => "InitDone",
        Ok(Event::Apply(_)) => "Apply",
        Ok(Event::Delete(_)) => "Delete",
        Err(_) => "error",
    }
}

/// Thousands of agents watch one API server. One that rejects their lists gets few of them, and one that is away gets one every 5 s.
#[tokio::test(start_paused = true)]
async fn lists_that_fail_back_off() {
    for (code, expected) in [
        (401, 60..=200),
        (403, 60..=200),
        (404, 60..=200),
        (500, 700..=1_000),
        (503, 700..=1_000),
    ] {
        let (api, requests) = failing(code);
        let hour = tokio::time::sleep(Duration::from_hours(1));
        let events = watch(api, watcher::Config::default()).take_until(hour);
        let events: Vec<_> = events.collect().await;
        assert!(events.iter().all(|event| matches!(event, Event::Init)), "{code}");
        let requests = requests.load(Ordering::Relaxed);
        assert!(
            expected.contains(&requests),
            "{code}: {requests} lists in an hour"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_kind_that_the_api_server_does_not_have() {
    for (code, presence) in [(404, Presence::Absent), (403, Presence::Unknown)] {
        let (api, _) = failing(code);
        let cache = Cache::<Arc<Decoded<HelmOp>>>::new();
        let results = without_absent(
            "HelmOp",
            "so be it",
            &cache,
            watch_results(api, watcher::Config::default()),
        );
        let first: Vec<_> = results.take(1).collect().await;
        assert_eq!(matches!(first[..], [Ok(Event::Init)]), code == 404);
        assert_eq!(cache.presence(), presence);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_starts_with_its_first_success() {
    let helmop = || serde_json::from_str::<Decoded<HelmOp>>("{}").unwrap();
    let error = || Err(watcher::Error::NoResourceVersion);
    let events = [
        Ok(Event::Init),
        error(),
        Ok(Event::Init),
        Ok(Event::InitApply(helmop())),
        Ok(Event::InitDone),
        Ok(Event::Apply(helmop())),
        error(),
        Ok(Event::Apply(helmop())),
        error(),
        Ok(Event::Init),
        Ok(Event::InitDone),
    ];
    let events: Vec<_> = with_backoff(stream::iter(events))
        .map(|event| name(&event))
        .collect()
        .await;
    let expected = "error Init InitApply InitDone Apply error Apply error Init InitDone";
    assert_eq!(events.join(" "), expected);
}

#[tokio::test]
async fn an_error_restarts_the_list_and_ends_no_watch() {
    let error = || Err(watcher::Error::NoResourceVersion);
    let events = [error(), Ok(Event::Init), error(), Ok(Event::InitDone)];
    let events = stream::iter(events).chain(stream::iter([error()]));
    let events: Vec<Event<Decoded<HelmOp>>> = without_errors("HelmOp", events).collect().await;
    let is_start = events.iter().map(|event| matches!(event, Event::Init));
    assert_eq!(is_start.collect::<Vec<_>>(), [true, true, true, false, true]);
}

#[tokio::test]
async fn the_list_of_a_kind_that_the_api_server_does_not_have_can_count_as_empty() {
    let failed = |code| {
        let status = Status::failure("why", "reason").with_code(code).boxed();
        Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))
    };
    let events = [Ok(Event::Init), failed(404), failed(503), Ok(Event::InitDone)];
    let events = empty_if_absent("HelmOp", "so be it", stream::iter(events));
    let events: Vec<_> = events.map(|event| name(&event)).collect().await;
    assert_eq!(events, ["Init", "Init", "InitDone", "error", "InitDone"]);
}

#[tokio::test(start_paused = true)]
async fn one_object_is_followed_in_spite_of_an_error() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let service = tower::service_fn(move |_: Request<Body>| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let (code, body) = if is_first {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503 });
            (StatusCode::SERVICE_UNAVAILABLE, status)
        } else {
            let items = [json!({ "metadata": { "name": "web", "namespace": "a" } })];
            let list = json!({
                "kind": "HelmOpList", "apiVersion": "fleet.cattle.io/v1alpha1",
                "metadata": { "resourceVersion": "1" }, "items": items,
            });
            (StatusCode::OK, list)
        };
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = code;
        ready(Ok::<_, Infallible>(response))
    });
    let api = Api::<Decoded<HelmOp>>::all(crate::client_of(service, "default"));
    let mut states = watch_one(api, "web").boxed();
    let state = states.next().await.unwrap();
    assert_eq!(state.unwrap().meta().name.as_deref(), Some("web"));
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}
