//! Credentials of a repository, and what is trusted: one Secret of the HelmOp, from Secrets and ConfigMaps of the files.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{Objects, Referent, Used, fields::Fields, texts::Texts};
use crate::create::{draft::Draft, note::Note};

/// The keys of a Secret with a login that have an equivalent, and that of a HelmOp.
const KEYS: [(&str, &str); 8] = [
    ("username", "username"),
    ("password", "password"),
    ("ca.crt", CERTIFICATES),
    ("caFile", CERTIFICATES),
    ("tls.crt", "tls.crt"),
    ("certFile", "tls.crt"),
    ("tls.key", "tls.key"),
    ("keyFile", "tls.key"),
];
/// Those of a Secret for Git.
const GIT_KEYS: [(&str, &str); 7] = [
    ("username", "username"),
    ("password", "password"),
    ("bearerToken", "bearerToken"),
    ("identity", "identity"),
    ("known_hosts", "known_hosts"),
    ("ca.crt", "ca.crt"),
    ("caFile", "ca.crt"),
];
/// The public half of `identity`, which nothing reads.
const PUBLIC_KEY: &str = "identity.pub";
/// The keys of a Secret with a proxy.
const PROXY_KEYS: [(&str, &str); 3] = [
    ("address", "proxyAddress"),
    ("username", "proxyUsername"),
    ("password", "proxyPassword"),
];
/// The key of a Secret of kubectl for registries.
const DOCKER_CONFIG: &str = ".dockerconfigjson";
/// The field of a HelmOp with the name of the Secret of a repository.
pub const HELM_SECRET: &str = "helmSecretName";
/// That of a Git repository.
pub const GIT_SECRET: &str = "chartSource.git.secretRef";
/// The key for certificates that are trusted.
pub const CERTIFICATES: &str = "cacerts";
/// The key for a registry without TLS.
pub const WITHOUT_TLS: &str = "basicHTTP";

/// What an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A Secret with a login, and what is trusted.
    Login,
    /// A Secret with a login for a Git server, and what is trusted.
    Git,
    /// A Secret with a proxy.
    Proxy,
    /// A ConfigMap with certificates.
    Certificates,
}

impl Part {
    const fn kind(self) -> &'static str {
        match self {
            Self::Login | Self::Git | Self::Proxy => "Secret",
            Self::Certificates => "ConfigMap",
        }
    }

    fn uses(self, key: &str) -> bool {
        let has = |keys: &[(&str, &str)]| keys.iter().any(|(own, _)| *own == key);
        match self {
            Self::Login => key == DOCKER_CONFIG || has(&KEYS),
            Self::Git => has(&GIT_KEYS),
            Self::Proxy => has(&PROXY_KEYS),
            Self::Certificates => true,
        }
    }
}

/// A field that names an object with a part of the login.
#[derive(Debug)]
pub struct Reference<'d> {
    /// The field.
    pub fields: Fields<'d>,
    /// What the object has.
    pub part: Part,
    /// The name of the object.
    pub name: String,
    /// What a Secret of the user has in its place.
    pub keys: &'static [&'static str],
}

/// The objects that fields of a mapping name, each field with what its object has and what a Secret of the user has in its place.
pub fn references<'d>(
    mapping: &mut Fields<'d>,
    named: &[(&str, Part, &'static [&'static str])],
    notes: &mut Vec<Note>,
) -> Vec<Reference<'d>> {
    let mut references = Vec::new();
    for (field, part, keys) in named {
        let mut fields = mapping.mapping(field);
        match fields.text("name") {
            Some(name) => references.push(Reference {
                fields,
                part: *part,
                name,
                keys,
            }),
            None => fields.finish(notes),
        }
    }
    references
}

/// What the Secret of the HelmOp has.
#[derive(Debug)]
pub struct Login<'l> {
    /// The namespace of the objects.
    pub namespace: &'l str,
    /// The host of the repository.
    pub host: &'l str,
    /// Its name, unless a Secret has another one.
    pub name: String,
    /// What is known without an object.
    pub data: Map<String, Value>,
    /// The field of the HelmOp that names it.
    pub field: &'static str,
}

impl Login<'_> {
    /// Adds what the objects have, and the Secret to the HelmOp if there is anything in it.
    pub fn convert(
        mut self,
        references: Vec<Reference<'_>>,
        objects: &Objects,
        draft: &mut Draft,
        used: &mut Used,
    ) {
        let (mut missing, mut keys, mut secret_name) = (Vec::new(), Vec::new(), None);
        for reference in references {
            let Reference {
                fields,
                part,
                name,
                keys: wanted,
            } = reference;
            let kind = part.kind();
            let id = (self.namespace, &*name);
            let texts = match objects.find(&fields, ("", kind), id, &mut draft.notes) {
                Referent::Found(index, document) => {
                    used.add(index);
                    Some((Texts::of(document), document))
                }
                Referent::Ambiguous | Referent::Missing => None,
            };
            match texts {
                Some((texts, document)) if !texts.is_encrypted() => {
                    draft.notes.extend(texts.notes(document, |key| part.uses(key)));
                    for (key, problem) in self.take(part, texts) {
                        let text = format!("the key {key:?} of {kind} {name:?} {problem}");
                        draft.notes.push(fields.note("", text));
                    }
                }
                found => {
                    keys.extend_from_slice(wanted);
                    let what = if found.is_some() {
                        "is encrypted"
                    } else {
                        "is not in the files"
                    };
                    missing.push((fields.note("", ""), format!("{kind} {name:?} {what}")));
                }
            }
            fields.finish(&mut draft.notes);
            if part != Part::Certificates {
                secret_name.get_or_insert(name);
            }
        }
        let name = secret_name.unwrap_or(self.name);
        let texts: Vec<_> = missing.iter().map(|(_, text)| &**text).collect();
        let texts = texts.join(", ");
        if let Some((note, _)) = missing.into_iter().next() {
            // One Secret has all of them; a part of it would only be in the way.
            keys.extend(self.data.keys().map(|key| &**key));
            let keys = keys.join(", ");
            let text = format!(
                "{texts}; the namespace of the HelmOp needs a Secret {name:?} with {keys}, and {} names it",
                self.field
            );
            draft.notes.push(Note { text, ..note });
            draft.helmop.spec.helm_secret_name = name;
        } else if !self.data.is_empty() {
            add(name, &self.data, objects, draft);
        }
    }

    /// Adds what an object has. Returns the keys that have no equivalent, with what is wrong with them.
    fn take(&mut self, part: Part, texts: Texts) -> Vec<(String, String)> {
        match part {
            Part::Login => credentials(texts, self.host, &mut self.data),
            Part::Git => git(texts, &mut self.data),
            Part::Proxy => renamed(texts.readable, &PROXY_KEYS, &mut self.data),
            Part::Certificates => {
                self.trust(&texts.readable);
                Vec::new()
            }
        }
    }

    /// Adds certificates to those that are trusted.
    fn trust(&mut self, certificates: &BTreeMap<String, String>) {
        let known = self.data.get(CERTIFICATES).and_then(Value::as_str);
        let mut all = known.unwrap_or_default().to_owned();
        for certificate in certificates.values() {
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            all.push_str(certificate);
        }
        self.data.insert(CERTIFICATES.to_owned(), all.into());
    }
}

/// Adds a Secret with a login to a HelmOp.
pub fn add(name: String, data: &Map<String, Value>, objects: &Objects, draft: &mut Draft) {
    let namespace = objects.settings().namespace.as_ref();
    let namespace = namespace.map(|namespace| ("namespace".to_owned(), json!(namespace)));
    let metadata: Map<_, _> = [("name".to_owned(), json!(name))]
        .into_iter()
        .chain(namespace)
        .collect();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data });
    draft.objects.push(secret);
    draft.helmop.spec.helm_secret_name = name;
}

/// A note about credentials that are sent to all hosts.
pub fn passed(fields: &Fields<'_>, name: &str, draft: &mut Draft) {
    let text = "credentials are never sent to another host than that of the repository; mirror the charts if another host needs them";
    draft.notes.push(fields.note(name, text));
}

/// The host of a URL, with its port.
pub fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Adds the credentials of a Secret under the keys of a HelmOp. Returns the keys that it does not have, with what is wrong with them.
fn credentials(mut texts: Texts, host: &str, into: &mut Map<String, Value>) -> Vec<(String, String)> {
    let config = texts.readable.remove(DOCKER_CONFIG);
    let mut unknown = renamed(texts.readable, &KEYS, into);
    if let Some(config) = config {
        match login(&config, host) {
            Some((username, password)) => {
                into.insert("username".to_owned(), username.into());
                into.insert("password".to_owned(), password.into());
            }
            None => unknown.push((DOCKER_CONFIG.to_owned(), format!("has no login for host {host}"))),
        }
    }
    unknown
}

/// The same for a Git server.
fn git(mut texts: Texts, into: &mut Map<String, Value>) -> Vec<(String, String)> {
    texts.readable.remove(PUBLIC_KEY);
    let has_passphrase =
        texts.readable.contains_key("identity") && texts.readable.remove("password").is_some();
    let mut unknown = renamed(texts.readable, &GIT_KEYS, into);
    if has_passphrase {
        let text = "is the passphrase of identity, and keys with one are not supported: remove it with ssh-keygen -p";
        unknown.push(("password".to_owned(), text.to_owned()));
    }
    unknown
}

/// Adds texts under other keys. Returns the keys that have none.
fn renamed(
    texts: BTreeMap<String, String>,
    keys: &[(&str, &str)],
    into: &mut Map<String, Value>,
) -> Vec<(String, String)> {
    let mut unknown = Vec::new();
    for (key, text) in texts {
        match keys.iter().find(|(own, _)| *own == key) {
            Some((_, of_helmop)) => _ = into.insert((*of_helmop).to_owned(), text.into()),
            None => unknown.push((key, "has no equivalent".to_owned())),
        }
    }
    unknown
}

/// The name of a registry. That of Docker has several.
fn without_alias(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        _ => host,
    }
}

/// The login for a host in the configuration of Docker.
fn login(config: &str, host: &str) -> Option<(String, String)> {
    let config: Value = serde_json::from_str(config).ok()?;
    let auths = config.get("auths")?.as_object()?;
    let (_, login) = auths
        .iter()
        .find(|(key, _)| without_alias(&self::host(key)) == without_alias(host))?;
    let text = |key| login.get(key).and_then(Value::as_str).map(str::to_owned);
    if let (Some(username), Some(password)) = (text("username"), text("password")) {
        return Some((username, password));
    }
    let auth = String::from_utf8(STANDARD.decode(text("auth")?).ok()?).ok()?;
    let (username, password) = auth.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}
