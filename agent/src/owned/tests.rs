use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::{FutureExt, future::join_all};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;
use tower::service_fn;

use super::*;

/// An API server with the ConfigMap.
#[derive(Default)]
struct Server {
    data: Mutex<Option<BTreeMap<String, String>>>,
    requests: Mutex<Vec<Method>>,
    /// The responses of this many requests are errors.
    errors: Mutex<usize>,
}

impl Server {
    fn respond(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        lock(&self.requests).push(method.clone());
        let mut errors = lock(&self.errors);
        if *errors > 0 {
            *errors -= 1;
            return (
                500,
                json!({ "kind": "Status", "code": 500, "reason": "InternalError" }),
            );
        }
        let mut data = lock(&self.data);
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        match *method {
            Method::POST => *data = serde_json::from_value(sent["data"].clone()).unwrap(),
            Method::PATCH => {
                for (key, value) in sent["data"].as_object().unwrap() {
                    match (&mut *data, value.as_str()) {
                        (Some(data), Some(value)) => data.insert(key.clone(), value.to_owned()),
                        (Some(data), None) => data.remove(key),
                        (None, _) => None,
                    };
                }
            }
            _ => {}
        }
        match &*data {
            Some(data) => (200, json!({ "metadata": { "name": OWNED }, "data": data })),
            None => (
                404,
                json!({ "kind": "Status", "code": 404, "reason": "NotFound" }),
            ),
        }
    }

    fn reads(&self) -> usize {
        let requests = lock(&self.requests);
        requests.iter().filter(|method| *method == Method::GET).count()
    }

    fn writes(&self) -> Vec<Method> {
        let mut requests = lock(&self.requests).clone();
        requests.retain(|method| method != Method::GET);
        requests
    }
}

fn owned(leadership: Leadership) -> (OwnedReleases, Arc<Server>) {
    let server = Arc::new(Server::default());
    let of_service = Arc::clone(&server);
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&of_service);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            tokio::task::yield_now().await;
            let (status, found) = server.respond(&parts.method, &body);
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Body::from(found.to_string().into_bytes())).unwrap())
        }
    });
    (
        OwnedReleases::new(helmops_kube::client_of(service, "helmops"), leadership, "helmops"),
        server,
    )
}

fn release(name: &str) -> OwnedRelease {
    OwnedRelease {
        release: ReleaseKey::new("shop", name),
        service_account: String::new(),
        bundle_namespace: String::new(),
        deletes_namespace: false,
        depends_on: Vec::new(),
    }
}

#[tokio::test]
async fn concurrent_changes_are_few_writes_and_what_is_known_is_none() {
    let (owned, server) = owned(Leadership::always());
    let names: Vec<_> = (0..50).map(|number| format!("web{number}")).collect();
    let remember = async |name: &String| owned.remember([(name.clone(), release(name))]).await;
    for result in join_all(names.iter().map(remember)).await {
        result.unwrap();
    }
    let all = owned.all().await.unwrap();
    assert_eq!(all.names().count(), 50);
    let writes = server.writes();
    assert!(writes.len() <= 2 && writes[0] == Method::POST, "{writes:?}");
    join_all(names.iter().map(remember)).await;
    assert_eq!(server.writes().len(), writes.len());
    owned.forget("web7", [release("web7").release]).await.unwrap();
    let all = owned.all().await.unwrap();
    assert_eq!(all.get("web7", &release("web7").release), None);
    assert!(all.get("web8", &release("web8").release).is_some());
}

#[tokio::test]
async fn a_release_for_which_there_is_no_room_is_not_deployed() {
    let (owned, _) = owned(Leadership::always());
    let large = OwnedRelease {
        service_account: "x".repeat(MAX_BYTES - 60),
        ..release("large")
    };
    owned.remember([("large".to_owned(), large)]).await.unwrap();
    let remember = || owned.remember([("web".to_owned(), release("web"))]);
    // One of them writes for both.
    let other = owned.remember([("web2".to_owned(), release("web2"))]);
    for result in join_all([remember().boxed(), other.boxed()]).await {
        let error = result.unwrap_err();
        assert!(matches!(error, RememberError::Full { .. }), "{error}");
    }
    owned.forget("large", [release("large").release]).await.unwrap();
    remember().await.unwrap();
}

#[tokio::test]
async fn what_could_not_be_written_is_an_error_and_is_written_with_the_next_change() {
    let (owned, server) = owned(Leadership::always());
    *lock(&server.errors) = 1;
    let remember = async |name: &str| owned.remember([(name.to_owned(), release(name))]).await;
    remember("a").await.unwrap_err();
    remember("b").await.unwrap();
    assert_eq!(owned.all().await.unwrap().names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(server.writes().len(), 1);
}

#[tokio::test]
async fn the_content_is_read_once_in_a_term() {
    let (sender, leadership) = Leadership::elected();
    let (owned, server) = owned(leadership);
    let hour = Some(Instant::now() + Duration::from_hours(1));
    sender.set(hour);
    let remember = async |name: &str| owned.remember([(name.to_owned(), release(name))]).await.unwrap();
    for name in ["a", "b", "a"] {
        remember(name).await;
    }
    owned.forget("a", [release("a").release]).await.unwrap();
    assert_eq!((server.reads(), server.writes().len()), (1, 3));
    // Another leader has written since.
    sender.set(None);
    let others = BTreeMap::from([("c".to_owned(), r#"[{"release":"shop/c"}]"#.to_owned())]);
    *lock(&server.data) = Some(others);
    sender.set(hour);
    remember("c").await;
    assert_eq!((server.reads(), server.writes().len()), (2, 3));
    remember("b").await;
    assert_eq!((server.reads(), server.writes().len()), (2, 4));
}

#[tokio::test]
async fn what_a_person_has_removed_is_remembered_again_after_it_was_read() {
    let (owned, server) = owned(Leadership::always());
    let remember = async || owned.remember([("a".to_owned(), release("a"))]).await.unwrap();
    remember().await;
    *lock(&server.data) = None;
    assert_eq!(owned.all().await.unwrap().names().count(), 0);
    remember().await;
    assert_eq!(owned.all().await.unwrap().names().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn a_configmap_that_was_deleted_is_created_again_with_what_it_had() {
    let (owned, server) = owned(Leadership::always());
    let remember = async |name: &str| owned.remember([(name.to_owned(), release(name))]).await;
    remember("a").await.unwrap();
    remember("b").await.unwrap();
    *lock(&server.data) = None;
    owned.forget("a", [release("a").release]).await.unwrap();
    remember("c").await.unwrap();
    assert_eq!(owned.all().await.unwrap().names().collect::<Vec<_>>(), ["b", "c"]);
}

#[tokio::test]
async fn what_was_not_written_in_a_term_is_not_written_in_another_one() {
    let (sender, leadership) = Leadership::elected();
    let (owned, server) = owned(leadership);
    let hour = Some(Instant::now() + Duration::from_hours(1));
    sender.set(hour);
    owned.remember([("a".to_owned(), release("a"))]).await.unwrap();
    *lock(&server.errors) = 1;
    owned.forget("a", [release("a").release]).await.unwrap_err();
    // Another leader has deployed it again meanwhile.
    sender.set(None);
    sender.set(hour);
    owned.remember([("b".to_owned(), release("b"))]).await.unwrap();
    assert_eq!(owned.of_deployment("a").await.unwrap(), [release("a")]);
    assert_eq!(owned.of_deployment("c").await.unwrap(), []);
}
