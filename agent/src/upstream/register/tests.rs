//! The steps of a registration, with API servers that the tests play.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};

use helmops_process::lock;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;

use super::*;

const SYSTEM: &str = "/api/v1/namespaces/cattle-fleet-system";
const CREDENTIALS: &str = "/api/v1/namespaces/elsewhere/secrets/";
const REQUESTS: &str = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrations";
const DEPLOYMENTS: &str = "/apis/fleet.cattle.io/v1alpha1/namespaces/cluster-c/bundledeployments";
const STATUS: &str = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/c/status";

/// An API server with objects by their path. Bodies are merged and stored, and every request is remembered.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// Responses that are forced: method and path.
    forced: BTreeMap<(String, String), u16>,
    requests: Vec<(String, Value)>,
}

impl Server {
    fn put(&self, path: &str, object: Value) {
        lock(&self.0).objects.insert(path.to_owned(), object);
    }

    fn object(&self, path: &str) -> Option<Value> {
        lock(&self.0).objects.get(path).cloned()
    }

    fn force(&self, method: &str, path: &str, code: u16) {
        lock(&self.0)
            .forced
            .insert((method.to_owned(), path.to_owned()), code);
    }

    fn allow(&self, method: &str, path: &str) {
        lock(&self.0).forced.remove(&(method.to_owned(), path.to_owned()));
    }

    fn requests(&self) -> Vec<(String, Value)> {
        lock(&self.0).requests.clone()
    }

    fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&state);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, found) = lock(&state).respond(&parts.method, parts.uri.path(), body);
                let response = Response::builder().status(code);
                ready(Ok::<_, Infallible>(
                    response.body(Body::from(found.to_string().into_bytes())).unwrap(),
                ))
                .await
            }
        });
        helmops_kube::client_of(service, "default")
    }
}

fn failure(code: u16) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "AlreadyExists",
        _ => "",
    };
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "no" }),
    )
}

impl State {
    fn respond(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        self.requests.push((format!("{method} {path}"), body.clone()));
        if let Some(code) = self.forced.get(&(method.to_string(), path.to_owned())) {
            return failure(*code);
        }
        match *method {
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let at = format!("{path}/{name}");
                if self.objects.contains_key(&at) {
                    return failure(409);
                }
                self.objects.insert(at, body.clone());
                (201, body)
            }
            Method::PATCH => {
                let mut object = self
                    .objects
                    .get(path)
                    .cloned()
                    .unwrap_or(json!({ "metadata": { "name": "c" } }));
                json_patch::merge(&mut object, &body);
                if path.contains("/secrets/") {
                    self.objects.insert(path.to_owned(), object.clone());
                }
                (200, object)
            }
            Method::DELETE => match self.objects.remove(path) {
                Some(object) => (200, object),
                None => failure(404),
            },
            _ if path == DEPLOYMENTS => (200, json!({ "metadata": {}, "items": [] })),
            _ => self
                .objects
                .get(path)
                .map_or_else(|| failure(404), |object| (200, object.clone())),
        }
    }
}

fn encoded(text: &str) -> Value {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap()
}

/// Both clusters; the workload cluster has what it registers with.
struct Clusters {
    workload: Server,
    management: Server,
}

impl Clusters {
    fn new() -> Self {
        let clusters = Self {
            workload: Server::default(),
            management: Server::default(),
        };
        clusters.put_bootstrap(json!({ "tokenName": encoded("t") }));
        let config = json!({ "labels": { "env": "prod" }, "clientID": "client" }).to_string();
        let map = json!({ "metadata": { "name": "fleet-agent" }, "data": { "config": config } });
        clusters
            .workload
            .put(&format!("{SYSTEM}/configmaps/fleet-agent"), map);
        clusters
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn put_bootstrap(&self, over: Value) {
        let mut data = json!({
            "clusterNamespace": encoded("fleet-default"), "apiServerURL": encoded("https://127.0.0.1:1"),
            "token": encoded("first"), "systemRegistrationNamespace": encoded("elsewhere"),
        });
        json_patch::merge(&mut data, &over);
        let secret = json!({ "metadata": { "name": "fleet-agent-bootstrap", "uid": "u-b", "resourceVersion": "1" }, "data": data });
        self.workload.put(&bootstrap(), secret);
    }

    fn registrar(&self) -> Registrar {
        let management = self.management.clone();
        let registrar = Registrar::new(self.workload.client(), "cattle-fleet-system", "agent-0");
        registrar.connecting_by(move |_| Ok(management.client()))
    }

    /// Plays the controller: grants the request that the agent has made.
    fn grant(&self) {
        let spec = self.request().expect("a request")["spec"].clone();
        let text = |field: &str| spec[field].as_str().unwrap().to_owned();
        let name = helmops_model::names::registration_credential(&text("clientID"), &text("clientRandom"));
        let data = json!({
            "token": encoded("second"), "deploymentNamespace": encoded("cluster-c"),
            "clusterNamespace": encoded("fleet-default"), "clusterName": encoded("c"),
        });
        self.management.put(
            &format!("{CREDENTIALS}{name}"),
            json!({ "metadata": { "name": name }, "data": data }),
        );
    }

    fn request(&self) -> Option<Value> {
        let requests = self.management.requests();
        let post = format!("POST {REQUESTS}");
        requests
            .into_iter()
            .rev()
            .find(|(what, _)| *what == post)
            .map(|(_, body)| body)
    }

    fn posts(&self) -> usize {
        let post = format!("POST {REQUESTS}");
        self.management
            .requests()
            .iter()
            .filter(|(what, _)| *what == post)
            .count()
    }

    /// Registers while the controller grants.
    async fn register(&self) -> anyhow::Result<Outcome> {
        let (registrar, before) = (self.registrar(), self.posts());
        let grants = async {
            while self.posts() == before {
                sleep(Duration::from_millis(10)).await;
            }
            self.grant();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = registrar.register(None) => outcome,
            () = grants => unreachable!(),
        }
    }
}

fn bootstrap() -> String {
    format!("{SYSTEM}/secrets/fleet-agent-bootstrap")
}

fn access() -> String {
    format!("{SYSTEM}/secrets/fleet-agent")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_registers_as_fleets_agent_does() {
    let clusters = Clusters::new();
    let outcome = clusters.register().await.unwrap();
    let Outcome::Registered(secret) = outcome else {
        panic!("{outcome:?}");
    };
    let joined = Joined::of(&secret).unwrap();
    assert_eq!(
        (&*joined.cluster.name, &*joined.deployment_namespace),
        ("c", "cluster-c")
    );
    let kubeconfig = access::kubeconfig_of(&secret).unwrap();
    assert!(
        kubeconfig.contains("second") && kubeconfig.contains("https://127.0.0.1:1"),
        "{kubeconfig}"
    );
    let request = clusters.request().unwrap();
    assert_eq!(
        request["metadata"]["labels"],
        json!({ "fleet.cattle.io/registration-token": "t" })
    );
    assert_eq!(request["spec"]["clientID"], "client");
    assert_eq!(
        request["spec"]["clusterLabels"],
        json!({ "env": "prod", "fleet.cattle.io/created-by-agent-pod": "agent-0" })
    );
    assert_eq!(request["spec"]["clientRandom"].as_str().unwrap().len(), 64);
    assert_eq!(clusters.workload.object(&bootstrap()), None);
    assert!(clusters.workload.object(&access()).is_some());
    // It was tried before: BundleDeployments can be listed, and the Cluster reported.
    let requests = clusters.management.requests();
    for needed in [format!("GET {DEPLOYMENTS}"), format!("PATCH {STATUS}")] {
        assert!(requests.iter().any(|(what, _)| *what == needed), "{needed}");
    }
}

#[tokio::test(start_paused = true)]
async fn values_of_older_fleet_have_no_name_of_a_token_and_no_namespace_of_credentials() {
    let clusters = Clusters::new();
    clusters.put_bootstrap(json!({ "tokenName": null, "systemRegistrationNamespace": null }));
    let registrar = clusters.registrar();
    let attempt = tokio::time::timeout(Duration::from_secs(5), registrar.register(None)).await;
    assert!(attempt.is_err(), "it waits");
    assert!(
        clusters.request().unwrap()["metadata"]
            .get("labels")
            .is_none_or(Value::is_null)
    );
    let requests = clusters.management.requests();
    assert!(
        requests
            .iter()
            .any(|(what, _)| what
                .starts_with("GET /api/v1/namespaces/cattle-fleet-clusters-system/secrets/c-")),
        "{requests:?}"
    );
}

/// Otherwise a cluster could neither work nor register again.
#[tokio::test(start_paused = true)]
async fn what_it_registers_with_stays_until_the_credential_works() {
    let clusters = Clusters::new();
    for (method, path) in [("GET", DEPLOYMENTS), ("PATCH", STATUS)] {
        clusters.management.force(method, path, 403);
        let error = format!("{:#}", clusters.register().await.unwrap_err());
        assert!(
            error.contains("the credential of Cluster fleet-default/c does not work"),
            "{error}"
        );
        assert_eq!(clusters.workload.object(&access()), None);
        let left = clusters.workload.object(&bootstrap()).unwrap();
        assert_eq!(
            left["data"]["clientRandom"],
            Value::Null,
            "the next one is another request"
        );
        clusters.management.allow(method, path);
    }
    let before = clusters.request().unwrap();
    clusters.register().await.unwrap();
    assert_ne!(
        before["spec"]["clientRandom"],
        clusters.request().unwrap()["spec"]["clientRandom"]
    );
    assert_eq!(clusters.workload.object(&bootstrap()), None);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_credential_is_bounded() {
    let clusters = Clusters::new();
    let started = Instant::now();
    let error = clusters.registrar().register(None).await.unwrap_err();
    assert!(format!("{error:#}").contains("within 30 minutes"), "{error:#}");
    let waited = started.elapsed();
    assert!(
        (PATIENCE..PATIENCE + Duration::from_mins(1)).contains(&waited),
        "{waited:?}"
    );
    assert!(clusters.workload.object(&bootstrap()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_restart_or_another_replica_makes_no_second_request() {
    let clusters = Clusters::new();
    for _ in 0..2 {
        let registrar = clusters.registrar();
        let attempt = tokio::time::timeout(Duration::from_secs(5), registrar.register(None)).await;
        assert!(attempt.is_err(), "it waits");
    }
    assert_eq!(clusters.posts(), 2);
    let requests = clusters.management.0.lock().unwrap().objects.clone();
    assert_eq!(
        requests.keys().filter(|path| path.starts_with(REQUESTS)).count(),
        1
    );
    // The access that another replica has written counts.
    let other = json!({ "metadata": { "name": "fleet-agent", "uid": "u-o" }, "data": { "clusterName": encoded("other") } });
    clusters.workload.put(&access(), other);
    let outcome = clusters.registrar().register(None).await.unwrap();
    let Outcome::Registered(secret) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(secret.metadata.uid.as_deref(), Some("u-o"));
}

/// Only what the management cluster certainly rejects is given up.
#[tokio::test]
async fn an_access_that_exists_is_used_unless_its_token_is_rejected() {
    let clusters = Clusters::new();
    let server = ManagementServer {
        server: "https://127.0.0.1:1".to_owned(),
        ..ManagementServer::default()
    };
    let joined = Joined {
        cluster: helmops_api::NamespacedName::new("fleet-default", "c"),
        deployment_namespace: "cluster-c".to_owned(),
    };
    let secret = access::secret("cattle-fleet-system", &joined, &server, "old").unwrap();
    let secret: Secret = serde_json::from_value(serde_json::to_value(secret).unwrap()).unwrap();
    for (code, expected) in [
        (401, Existing::Invalid),
        (403, Existing::Usable),
        (500, Existing::Usable),
        (404, Existing::Usable),
    ] {
        clusters.management.force("GET", DEPLOYMENTS, code);
        assert_eq!(clusters.registrar().check(&secret).await, expected, "{code}");
        assert!(clusters.workload.object(&bootstrap()).is_some(), "{code}");
    }
    clusters.management.allow("GET", DEPLOYMENTS);
    // It cannot be known whether there is something to register with.
    clusters.workload.force("GET", &bootstrap(), 403);
    assert_eq!(clusters.registrar().check(&secret).await, Existing::Usable);
    clusters.workload.allow("GET", &bootstrap());
    assert_eq!(clusters.registrar().check(&secret).await, Existing::Usable);
    assert_eq!(
        clusters.workload.object(&bootstrap()),
        None,
        "it is of no use any more"
    );
    assert_eq!(clusters.registrar().check(&secret).await, Existing::Usable);
    assert_eq!(clusters.posts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_access_is_replaced_by_the_one_that_is_granted() {
    let clusters = Clusters::new();
    let old = json!({ "metadata": { "name": "fleet-agent", "uid": "u-1", "resourceVersion": "7" }, "data": { "kubeconfig": encoded("x") } });
    clusters.workload.put(&access(), old.clone());
    let old: Secret = serde_json::from_value(old).unwrap();
    let registrar = clusters.registrar();
    let grants = async {
        while clusters.request().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
        clusters.grant();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = registrar.register(Some(&old)) => drop(outcome.unwrap()),
        () = grants => unreachable!(),
    }
    let patch = format!("PATCH {}", access());
    let requests = clusters.workload.requests();
    let (_, body) = requests.iter().find(|(what, _)| *what == patch).unwrap();
    assert_eq!(
        body["metadata"]["resourceVersion"], "7",
        "another replica may have replaced it"
    );
}

#[tokio::test]
async fn there_is_nothing_to_register_with() {
    let clusters = Clusters::new();
    lock(&clusters.workload.0).objects.remove(&bootstrap());
    assert!(matches!(
        clusters.registrar().register(None).await.unwrap(),
        Outcome::Unprepared
    ));
    // An error is not the same.
    clusters.workload.force("GET", &bootstrap(), 500);
    clusters.registrar().register(None).await.unwrap_err();
    assert_eq!(clusters.posts(), 0);
}

#[tokio::test]
async fn a_cluster_is_identified_by_its_kube_system_unless_a_client_id_is_configured() {
    let clusters = Clusters::new();
    lock(&clusters.workload.0)
        .objects
        .remove(&format!("{SYSTEM}/configmaps/fleet-agent"));
    let error = clusters.registrar().register(None).await.unwrap_err();
    assert!(
        format!("{error:#}").contains("set clientID in ConfigMap fleet-agent"),
        "{error:#}"
    );
    let namespace = json!({ "metadata": { "name": "kube-system", "uid": "u-k" } });
    clusters.workload.put("/api/v1/namespaces/kube-system", namespace);
    assert_eq!(clusters.registrar().identity().await.unwrap().client_id, "u-k");
}

/// Otherwise an agent whose token has expired would wait for half an hour, and a new one would not help.
#[tokio::test(start_paused = true)]
async fn a_token_that_ends_or_is_replaced_ends_the_wait_and_another_one_is_another_request() {
    let clusters = Clusters::new();
    let registrar = clusters.registrar();
    let started = Instant::now();
    let replaces = async {
        while clusters.posts() == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        // As the CLI applies it: what the agent has added stays.
        let mut found = clusters.workload.object(&bootstrap()).unwrap();
        found["data"]["token"] = encoded("other");
        clusters.workload.put(&bootstrap(), found);
    };
    let (ended, ()) = tokio::join!(registrar.register(None), replaces);
    let error = format!("{:#}", ended.unwrap_err());
    assert!(error.contains("was changed"), "{error}");

    // Before a restart, the agent has not noticed that.
    let first = clusters.request().unwrap();
    let mut found = clusters.workload.object(&bootstrap()).unwrap();
    found["data"]["clientRandom"] = encoded(first["spec"]["clientRandom"].as_str().unwrap());
    found["data"]["clientRandomFor"] = encoded("the first token");
    clusters.workload.put(&bootstrap(), found);
    let attempt = tokio::time::timeout(INTERVAL * 3, registrar.register(None)).await;
    assert!(attempt.is_err(), "it waits");
    let second = clusters.request().unwrap();
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);

    let name = helmops_model::names::registration_credential(
        "client",
        second["spec"]["clientRandom"].as_str().unwrap(),
    );
    clusters
        .management
        .force("GET", &format!("{CREDENTIALS}{name}"), 401);
    let error = format!("{:#}", registrar.register(None).await.unwrap_err());
    assert!(error.contains("the token is not valid any more"), "{error}");
    assert_eq!(clusters.request(), Some(second), "the same one, after a restart");
    assert!(started.elapsed() < Duration::from_mins(1));
}
