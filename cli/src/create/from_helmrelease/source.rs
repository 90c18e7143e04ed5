//! The chart of a HelmRelease: its repository, name, version and credentials.

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::{HelmOp, HelmOptions};
use helmops_core::{admit::ValidHelmOp, chart::source::is_oci};
use serde_json::{Map, Value, json};

use super::{Document, Fields, FromHelmRelease, SOURCE, Used, documents::is_of_user, texts::Texts};
use crate::create::{Draft, Gap, Note};

/// What a HelmOp needs to know about verification.
const VERIFY: &str = "signatures are not verified; restrict the repositories with a Policy, or verify charts where they are published";
const CLOUD: &str = "there is no login with the identity of a cloud provider; create a Secret with username and password, and set helmSecretName";

/// The keys of a Secret of Flux that have an equivalent.
const KEYS: [&str; 5] = ["username", "password", "ca.crt", "caFile", ".dockerconfigjson"];

/// Converts the source of the chart.
pub fn convert(
    all: &FromHelmRelease,
    spec: &mut Fields<'_>,
    namespace: &str,
    draft: &mut Draft,
    used: &mut Used,
) {
    let mut source = Source {
        all,
        namespace: namespace.to_owned(),
        interval: spec.text("interval"),
        draft,
        used,
    };
    if spec.has("chartRef") {
        source.reference(spec);
    } else if spec.has("chart") {
        let mut chart = spec.mapping("chart");
        chart.drop("metadata");
        source.chart(chart.mapping("spec"));
        chart.finish(&mut source.draft.notes);
    } else {
        source.missing(spec.note(
            "chart",
            "a HelmRelease has a chart or a chartRef; set --repo, --chart and --version",
        ));
    }
    source.set_polling(spec);
}

struct Source<'s, 'd> {
    all: &'d FromHelmRelease,
    namespace: String,
    interval: Option<String>,
    draft: &'s mut Draft,
    used: &'s mut Used,
}

impl<'d> Source<'_, 'd> {
    fn helm(&mut self) -> &mut HelmOptions {
        self.draft.helmop.spec.bundle.options.helm.get_or_insert_default()
    }

    /// Something is missing that only the user knows.
    fn missing(&mut self, note: Note) {
        self.draft.notes.push(Note {
            gap: Gap::Chart,
            ..note
        });
    }

    /// `chart.spec`, or the spec of a HelmChart.
    fn chart(&mut self, mut spec: Fields<'_>) {
        let chart = spec.text("chart").unwrap_or_default();
        self.helm().version = spec
            .text("version")
            .filter(|version| version != "*")
            .unwrap_or_default();
        if let Some(interval) = spec.text("interval") {
            self.interval = Some(interval);
        }
        spec.drop("reconcileStrategy");
        let files = "values files inside the chart cannot be selected; copy their content into helm.values";
        for name in ["valuesFiles", "valuesFile"] {
            spec.lost(name, files, &mut self.draft.notes);
        }
        spec.drop("ignoreMissingValuesFiles");
        spec.lost("verify", VERIFY, &mut self.draft.notes);
        let mut reference = spec.mapping("sourceRef");
        reference.drop("apiVersion");
        let kind = reference
            .text("kind")
            .unwrap_or_else(|| "HelmRepository".to_owned());
        let name = reference.text("name").unwrap_or_default();
        let namespace = reference
            .text("namespace")
            .unwrap_or_else(|| self.namespace.clone());
        if kind == "HelmRepository" {
            if let Some((index, document)) = self.all.find(SOURCE, "HelmRepository", &namespace, &name) {
                self.used.add(index);
                self.repository(document, &chart);
            } else {
                self.helm().chart = chart;
                let text = format!("HelmRepository {name:?} is not in the file; add it, or set --repo");
                let note = reference.note("", text);
                self.missing(note);
            }
        } else {
            let base = chart.rsplit('/').next().unwrap_or_default().to_owned();
            self.helm().chart = base;
            let text = format!(
                "a chart in a {kind} cannot be deployed by a HelmOp: publish it (helm package, helm push), and set --repo"
            );
            let note = reference.note("kind", text);
            self.missing(note);
        }
        reference.finish(&mut self.draft.notes);
        spec.finish(&mut self.draft.notes);
    }

    /// `chartRef`.
    fn reference(&mut self, spec: &mut Fields<'_>) {
        let mut reference = spec.mapping("chartRef");
        reference.drop("apiVersion");
        let kind = reference.text("kind").unwrap_or_default();
        let name = reference.text("name").unwrap_or_default();
        let namespace = reference
            .text("namespace")
            .unwrap_or_else(|| self.namespace.clone());
        match (&*kind, self.all.find(SOURCE, &kind, &namespace, &name)) {
            ("OCIRepository", Some((index, document))) => {
                self.used.add(index);
                self.oci(document);
            }
            ("HelmChart", Some((index, document))) => {
                self.used.add(index);
                let mut fields = Fields::of(document);
                let own = document.text("/metadata/namespace");
                if !own.is_empty() {
                    own.clone_into(&mut self.namespace);
                }
                self.chart(fields.mapping("spec"));
            }
            ("OCIRepository" | "HelmChart", None) => {
                let text = format!("{kind} {name:?} is not in the file; add it, or set --repo and --version");
                let note = reference.note("", text);
                self.missing(note);
            }
            _ => {
                let text = format!(
                    "a chart of kind {kind:?} has no equivalent; publish it, and set --repo, --chart and --version"
                );
                let note = reference.note("kind", text);
                self.missing(note);
            }
        }
        reference.finish(&mut self.draft.notes);
    }

    fn repository(&mut self, document: &'d Document, chart: &str) {
        let mut fields = Fields::of(document);
        let mut spec = fields.mapping("spec");
        let url = spec.text("url").unwrap_or_default();
        let is_registry = spec.text("type").as_deref() == Some("oci") || is_oci(&url);
        let plain = url.trim_end_matches('/').to_owned();
        let helm = self.helm();
        if is_registry {
            helm.repo = format!("{plain}/{}", chart.trim_start_matches('/'));
            helm.chart.clear();
        } else {
            helm.repo = plain;
            chart.clone_into(&mut helm.chart);
        }
        let host = host(&url);
        // The repository is polled with the interval of the chart.
        for name in ["interval", "timeout"] {
            spec.drop(name);
        }
        self.access(&mut spec, document, &host, is_registry);
        spec.lost(
            "passCredentials",
            "credentials are never sent to another host than that of the repository; mirror the charts if another host needs them",
            &mut self.draft.notes,
        );
        spec.lost(
            "accessFrom",
            "a HelmOp uses Secrets of its own namespace only",
            &mut self.draft.notes,
        );
        self.suspended(&mut spec);
        spec.finish(&mut self.draft.notes);
    }

    fn oci(&mut self, document: &'d Document) {
        let mut fields = Fields::of(document);
        let mut spec = fields.mapping("spec");
        let url = spec.text("url").unwrap_or_default();
        let host = host(&url);
        url.trim_end_matches('/').clone_into(&mut self.helm().repo);
        self.interval = spec.text("interval").or(self.interval.take());
        let mut reference = spec.mapping("ref");
        let (tag, range) = (reference.text("tag"), reference.text("semver"));
        reference.lost(
            "digest",
            "a digest cannot be required; the one that is resolved is recorded, and later changes of the tag are noticed",
            &mut self.draft.notes,
        );
        reference.lost(
            "semverFilter",
            "tags cannot be filtered; write a range that only matches these versions",
            &mut self.draft.notes,
        );
        let version = range.or(tag);
        if version.as_deref() == Some("latest") || version.is_none() {
            let note = reference.note(
                "tag",
                "a chart has a version; without one, a HelmOp selects the newest release",
            );
            self.draft.notes.push(note);
        }
        self.helm().version = version.filter(|version| version != "latest").unwrap_or_default();
        reference.finish(&mut self.draft.notes);
        self.access(&mut spec, document, &host, true);
        spec.lost("verify", VERIFY, &mut self.draft.notes);
        spec.lost("serviceAccountName", CLOUD, &mut self.draft.notes);
        // A chart has one layer with a fixed media type.
        spec.drop("layerSelector");
        spec.drop("timeout");
        self.suspended(&mut spec);
        spec.finish(&mut self.draft.notes);
    }

    fn suspended(&mut self, spec: &mut Fields<'_>) {
        if spec.flag("suspend") == Some(true) {
            let note = spec.note(
                "suspend",
                "a repository cannot be suspended; omit pollingInterval, or set paused",
            );
            self.draft.notes.push(note);
        }
    }

    /// Credentials and trust.
    fn access(&mut self, spec: &mut Fields<'_>, document: &Document, host: &str, is_registry: bool) {
        if let Some(provider) = spec.text("provider").filter(|provider| provider != "generic") {
            let note = spec.note("provider", format!("{provider}: {CLOUD}"));
            self.draft.notes.push(note);
        }
        spec.lost(
            "proxySecretRef",
            "set HTTPS_PROXY in the environment of the controller and of the agents",
            &mut self.draft.notes,
        );
        let insecure = spec.flag("insecure") == Some(true);
        let mut names = Vec::new();
        for field in ["secretRef", "certSecretRef"] {
            let mut reference = spec.mapping(field);
            if let Some(name) = reference.text("name") {
                names.push((field, name, reference.note("", "")));
            }
            reference.finish(&mut self.draft.notes);
        }
        if !insecure && names.is_empty() {
            return;
        }
        let namespace = match document.text("/metadata/namespace") {
            "" => self.namespace.clone(),
            own => own.to_owned(),
        };
        let mut data = Map::new();
        if insecure && is_registry {
            data.insert("basicHTTP".to_owned(), json!("true"));
        }
        let (mut is_complete, mut secret_name) = (true, None);
        for (field, name, note) in names {
            if let Some((index, secret)) = self.all.find("", "Secret", &namespace, &name) {
                self.used.add(index);
                let texts = Texts::of(secret);
                self.draft
                    .notes
                    .extend(texts.notes(secret, |key| KEYS.contains(&key)));
                for key in credentials(texts, host, &mut data) {
                    let text = format!(
                        "the key {key:?} of Secret {name:?} has no equivalent: client certificates and other logins are not supported"
                    );
                    self.draft.notes.push(Note { text, ..note.clone() });
                }
            } else {
                is_complete = false;
                let keys = if field == "secretRef" {
                    "username and password"
                } else {
                    "cacerts (in place of ca.crt)"
                };
                let text = format!(
                    "Secret {name:?} is not in the file; the namespace of the HelmOp needs a Secret {name:?} with {keys}, and helmSecretName names it"
                );
                self.draft.notes.push(Note { text, ..note.clone() });
            }
            secret_name.get_or_insert(name);
        }
        let own_name = format!("{}-repository", document.text("/metadata/name"));
        let name = secret_name.unwrap_or(own_name);
        self.draft.helmop.spec.helm_secret_name.clone_from(&name);
        if is_complete || !data.is_empty() {
            let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data });
            self.draft.objects.push(self.all.placed(secret));
        }
    }

    /// Polls are of use for a range only.
    fn set_polling(&mut self, spec: &Fields<'_>) {
        let Some(interval) = self.interval.take() else {
            return;
        };
        let mut helmop: HelmOp = self.draft.helmop.clone();
        helmop.spec.polling_interval = Some(interval.clone());
        match ValidHelmOp::try_from(&helmop) {
            Ok(valid) if valid.polling.is_none() => {}
            Ok(_) => self.draft.helmop.spec.polling_interval = Some(interval),
            Err(errors) => {
                let is_of_interval = errors
                    .reported()
                    .iter()
                    .any(|error| error.path == "spec.pollingInterval");
                if is_of_interval {
                    let note = spec.note(
                        "interval",
                        format!("{interval:?} is no pollingInterval; set --poll"),
                    );
                    self.draft.notes.push(note);
                } else {
                    self.draft.helmop.spec.polling_interval = Some(interval);
                }
            }
        }
    }
}

impl FromHelmRelease {
    /// An object in the namespace of the HelmOp: of its metadata only what a user gives it. Its identity and its owners are those of
    /// another object, on another cluster perhaps.
    pub fn placed(&self, mut object: Value) -> Value {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| matches!(field.as_str(), "name" | "labels" | "annotations"));
            for field in ["labels", "annotations"] {
                if let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                    entries.retain(|key, _| is_of_user(key));
                }
            }
            metadata.retain(|_, value| value.as_object().is_none_or(|entries| !entries.is_empty()));
            if let Some(namespace) = &self.namespace {
                metadata.insert("namespace".to_owned(), json!(namespace));
            }
        }
        object
    }
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Adds the credentials of a Secret of Flux under the keys of a HelmOp. Returns the keys that it does not have.
fn credentials(texts: Texts, host: &str, into: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    for (key, text) in texts.readable {
        match &*key {
            "username" | "password" => {
                into.insert(key, text.into());
            }
            "ca.crt" | "caFile" => {
                into.insert("cacerts".to_owned(), text.into());
            }
            ".dockerconfigjson" => match login(&text, host) {
                Some((username, password)) => {
                    into.insert("username".to_owned(), username.into());
                    into.insert("password".to_owned(), password.into());
                }
                None => unknown.push(key),
            },
            _ => unknown.push(key),
        }
    }
    unknown
}

/// The login for a host in the configuration of Docker.
fn login(config: &str, host: &str) -> Option<(String, String)> {
    let config: Value = serde_json::from_str(config).ok()?;
    let auths = config.get("auths")?.as_object()?;
    let is_host = |key: &String| {
        let key = key.split_once("://").map_or(&**key, |(_, rest)| rest);
        key.split('/').next() == Some(host)
    };
    let (_, login) = auths.iter().find(|(key, _)| is_host(key))?;
    let text = |key| login.get(key).and_then(Value::as_str).map(str::to_owned);
    if let (Some(username), Some(password)) = (text("username"), text("password")) {
        return Some((username, password));
    }
    let auth = String::from_utf8(STANDARD.decode(text("auth")?).ok()?).ok()?;
    let (username, password) = auth.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}
