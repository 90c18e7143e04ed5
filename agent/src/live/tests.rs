use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_process::lock;
use helmops_release::{marks, object::ObjectId};
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::service_fn;

use super::{
    kinds::{Kinds, Served},
    objects::Objects,
};

/// An API server with the versions of a group `example.com` that have a kind `Widget`, and a widget `a b` in all of them.
#[derive(Default)]
struct Server {
    versions: Mutex<Vec<&'static str>>,
    /// The methods and paths of its requests.
    requests: Mutex<Vec<String>>,
    /// How many deletions are conflicts.
    conflicts: Mutex<usize>,
}

const WIDGETS: &str = "namespaces/shop/widgets/a%20b";

impl Server {
    fn new(versions: &[&'static str]) -> (Client, Arc<Self>) {
        let server = Arc::new(Self::default());
        versions.clone_into(&mut lock(&server.versions));
        let of_service = Arc::clone(&server);
        let service = service_fn(move |request: Request<Body>| {
            let (method, path) = (request.method().as_str(), request.uri().path());
            lock(&of_service.requests).push(format!("{method} {path}"));
            let (status, body) = of_service.respond(method, path);
            let response = Response::builder().status(status);
            ready(Ok::<_, Infallible>(response.body(Body::from(body)).unwrap()))
        });
        (helmops_kube::client_of(service, "shop"), server)
    }

    fn respond(&self, method: &str, path: &str) -> (u16, Vec<u8>) {
        let versions = lock(&self.versions).clone();
        let ok = |body: Value| (200, body.to_string().into_bytes());
        if path == "/apis" {
            let version =
                |version| json!({ "groupVersion": format!("example.com/{version}"), "version": version });
            let all: Vec<_> = versions.iter().map(version).collect();
            let group = json!({ "name": "example.com", "versions": all, "preferredVersion": all.last() });
            return ok(json!({ "kind": "APIGroupList", "groups": [group] }));
        }
        let is_served = |rest: &str| {
            versions
                .iter()
                .any(|version| path == format!("/apis/example.com/{version}{rest}"))
        };
        if is_served("") {
            let widget = json!({ "name": "widgets", "singularName": "", "namespaced": true, "kind": "Widget", "verbs": [] });
            return ok(json!({ "kind": "APIResourceList", "groupVersion": "", "resources": [widget] }));
        }
        if !is_served(&format!("/{WIDGETS}")) {
            // As of a resource that does not exist; an object that does not exist has another response.
            return (404, b"404 page not found\n".to_vec());
        }
        let mut conflicts = lock(&self.conflicts);
        if method == "DELETE" && *conflicts > 0 {
            *conflicts -= 1;
            return (
                409,
                json!({ "kind": "Status", "code": 409, "reason": "Conflict" })
                    .to_string()
                    .into_bytes(),
            );
        }
        let metadata = json!({ "name": "a b", "annotations": { marks::SET_ID: "web" } });
        ok(json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata }))
    }

    /// The requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.requests))
    }
}

fn widget(version: &str) -> ObjectId {
    ObjectId {
        api_version: format!("example.com/{version}"),
        kind: "Widget".to_owned(),
        namespace: "shop".to_owned(),
        name: "a b".to_owned(),
    }
}

#[tokio::test]
async fn an_object_of_a_kind_that_is_gone_does_not_exist() {
    let (client, server) = Server::new(&["v1"]);
    let (kinds, client) = (Kinds::new(client.clone()), &client);
    let objects = Objects {
        kinds: &kinds,
        client,
    };
    let found = objects.read(&widget("v1")).await.unwrap();
    assert_eq!(found.unwrap().metadata.name.as_deref(), Some("a b"));
    let get = format!("GET /apis/example.com/v1/{WIDGETS}");
    assert_eq!(server.requests(), ["GET /apis/example.com/v1", &get]);
    lock(&server.versions).clear();
    for expected in [&[&*get, "GET /apis/example.com/v1"][..], &[]] {
        assert_eq!(objects.read(&widget("v1")).await.unwrap(), None);
        assert_eq!(server.requests(), expected);
    }
    // Its CRD is installed again.
    lock(&server.versions).push("v1");
    assert_eq!(kinds.changed("example.com"), Vec::<String>::new());
    assert!(objects.metadata(&widget("v1")).await.unwrap().is_some());
}

#[tokio::test]
async fn an_object_is_found_in_the_version_that_is_served() {
    let (client, server) = Server::new(&["v1beta1", "v1"]);
    let (kinds, client) = (Kinds::new(client.clone()), &client);
    let objects = Objects {
        kinds: &kinds,
        client,
    };
    let version = async || {
        let (kind, found) = objects.resolve(&widget("v1beta1"), Instant::now()).await.unwrap();
        let version = kind.identity(&widget("v1beta1")).map(|id| id.api_version);
        (version, matches!(kind, Served::Moved(_)), found.is_some())
    };
    let named = |version: &str| Some(format!("example.com/{version}"));
    assert_eq!(version().await, (named("v1beta1"), false, true));
    // What is known of it is outdated.
    lock(&server.versions).remove(0);
    assert_eq!(version().await, (named("v1"), true, true));
    lock(&server.versions).clear();
    assert_eq!(version().await, (None, false, false));
}

#[tokio::test]
async fn releases_that_miss_a_kind_are_known_by_its_group() {
    let (client, _) = Server::new(&[]);
    let kinds = Kinds::new(client);
    let groups = |name: &str| [name.to_owned()].into();
    let missing = |release, missing| kinds.set_groups(release, &BTreeSet::new(), missing);
    assert_eq!(
        missing("web", groups("example.com")),
        Some(Duration::from_secs(15))
    );
    missing("other", groups("example.org"));
    assert_eq!(kinds.changed("example.com"), ["web"]);
    // The API server may not serve it yet.
    assert_eq!(
        missing("web", groups("example.com")),
        Some(Duration::from_secs(1))
    );
    // What it has may be gone when that is served.
    let later = kinds.set_groups("web", &groups("example.com"), [].into());
    assert!(
        later.is_some_and(|later| later > Duration::from_secs(5)),
        "{later:?}"
    );
    assert_eq!(missing("web", [].into()), None);
    assert_eq!(kinds.changed("example.com"), Vec::<String>::new());
}

#[tokio::test]
async fn only_what_belongs_to_the_release_is_deleted() {
    let (client, server) = Server::new(&["v1"]);
    let (kinds, client) = (Kinds::new(client.clone()), &client);
    let objects = Objects {
        kinds: &kinds,
        client,
    };
    let delete = async |set: &str| {
        let is_own = |annotations: &BTreeMap<String, String>| {
            annotations.get(marks::SET_ID).is_some_and(|id| id == set)
        };
        objects.delete(&widget("v1"), is_own).await.unwrap();
        server
            .requests()
            .iter()
            .filter(|request| request.starts_with("DELETE "))
            .count()
    };
    assert_eq!(delete("other").await, 0);
    assert_eq!(delete("web").await, 1);
    // It was changed at the same time: it is read again.
    *lock(&server.conflicts) = 2;
    assert_eq!(delete("web").await, 3);
    assert_eq!(delete("other").await, 0);
}
