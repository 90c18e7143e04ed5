//! The login of a repository: Argo CD has it in Secrets with a label, and finds it by the URL.

use std::collections::BTreeMap;

use helmops_git::{GIT_PREFIX, Location};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::create::{
    draft::Draft,
    in_git::{ChartInGit, is_ssh, with_user},
    objects::{
        Objects, Used,
        documents::Document,
        fields::Fields,
        login::{self, GIT_SECRET, HELM_SECRET, WITHOUT_TLS},
        texts::Texts,
    },
};

const LABEL: &str = "/metadata/labels/argocd.argoproj.io~1secret-type";
const REPOSITORY: &str = "repository";
const CREDENTIALS: &str = "repo-creds";
/// What is converted, and what has no equivalent.
const KEYS: [&str; 5] = [
    "username",
    "password",
    "tlsClientCertData",
    "tlsClientCertKey",
    "proxy",
];
const UNKNOWN: [&str; 6] = [
    "bearerToken",
    "gcpServiceAccountKey",
    "githubAppPrivateKey",
    "noProxy",
    "sshPrivateKey",
    "useAzureWorkloadIdentity",
];
/// What only a Git server gets.
const TOKEN: &str = "bearerToken";
const SSH_KEY: &str = "sshPrivateKey";
/// What Argo CD sends to a Git server with a token that has no user.
const TOKEN_USER: &str = "x-access-token";
/// With one of these, a repository needs no credentials of another Secret.
const LOGIN: [&str; 7] = [
    "username",
    "password",
    "bearerToken",
    "githubAppPrivateKey",
    "sshPrivateKey",
    "tlsClientCertData",
    "useAzureWorkloadIdentity",
];

/// The texts of Secrets by their keys, each with the title of its Secret.
type Known = BTreeMap<String, (String, String)>;

/// What the login is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// A repository or registry of charts.
    Charts,
    /// A Git server.
    Git,
}

/// Adds the login for the URL of a source, if the files have it.
pub fn convert(objects: &Objects, url: &str, source: &Fields<'_>, draft: &mut Draft, used: &mut Used) {
    add(objects, url, (source, Server::Charts), draft, used);
}

/// The same for a Git repository.
pub fn of_git(
    objects: &Objects,
    (source, url): (&Fields<'_>, &str),
    chart: &mut ChartInGit,
    used: &mut Used,
) {
    let mut access = Draft::default();
    add(objects, url, (source, Server::Git), &mut access, used);
    let spec = access.helmop.spec;
    chart.secret = spec.helm_secret_name;
    chart.insecure_skip_tls_verify = spec.insecure_skip_tls_verify && !is_ssh(url);
    chart.objects.append(&mut access.objects);
    chart.notes.append(&mut access.notes);
}

fn add(
    objects: &Objects,
    url: &str,
    (source, server): (&Fields<'_>, Server),
    draft: &mut Draft,
    used: &mut Used,
) {
    let repository = find(objects, REPOSITORY, (url, server));
    let is_complete = repository.is_some_and(|(_, document)| has_login(&Texts::of(document)));
    let credentials = find(objects, CREDENTIALS, (url, server)).filter(|_| !is_complete);
    let Some((_, named)) = repository.or(credentials) else {
        return;
    };
    let mut known = Known::new();
    for (index, document) in repository.into_iter().chain(credentials) {
        used.add(index);
        let texts = Texts::of(document);
        let title = document.title();
        if texts.is_encrypted() {
            let text = format!(
                "{title} is encrypted; the namespace of the HelmOp needs a Secret with username and password, and {} names it",
                server.field()
            );
            draft.notes.push(source.note("repoURL", text));
            return;
        }
        draft
            .notes
            .extend(texts.notes(document, |key| KEYS.contains(&key)));
        let is_repository = document.text(LABEL) == REPOSITORY;
        for (key, text) in texts.readable {
            // Argo CD takes it from the repository only.
            if key == "insecure" && !is_repository {
                continue;
            }
            let own = known.entry(key).or_default();
            if own.0.is_empty() {
                *own = (text, title.clone());
            }
        }
    }
    let name = named.text("/metadata/name");
    draft.helmop.spec.insecure_skip_tls_verify = text(&known, "insecure") == "true";
    if let (Server::Git, Some((_, title))) = (server, known.get(SSH_KEY)) {
        // One Secret has both; a part of it would only be in the way.
        let text = format!(
            "the namespace of the HelmOp needs a Secret {name:?} with identity ({SSH_KEY} of {title}) and known_hosts (the lines of ssh-keyscan for the \
             server), and {} names it",
            server.field()
        );
        draft.notes.push(source.note("repoURL", text));
        name.clone_into(&mut draft.helmop.spec.helm_secret_name);
        return;
    }
    let mut data = Map::new();
    let problems = take(&known, server, &mut data);
    draft
        .notes
        .extend(problems.into_iter().map(|text| source.note("repoURL", text)));
    if !data.is_empty() {
        login::add(name.to_owned(), &data, objects, draft);
    }
}

/// Adds what the Secrets have under the keys of a HelmOp. Returns what has no equivalent.
fn take(known: &Known, server: Server, data: &mut Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut add = |key: &str, text: &str| _ = data.insert(key.to_owned(), json!(text));
    let of = |key| text(known, key);
    let title = |key| known.get(key).map_or("", |(_, title)| &**title);
    let (username, password) = (of("username"), of("password"));
    if !username.is_empty() || !password.is_empty() {
        let is_token = server == Server::Git && username.is_empty();
        add("username", if is_token { TOKEN_USER } else { username });
        add("password", password);
    }
    let (certificate, key) = (of("tlsClientCertData"), of("tlsClientCertKey"));
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => {}
        (false, false) if server == Server::Git => problems.push(format!(
            "the client certificate of {} has no equivalent: a Git server gets a username with a password, a bearerToken or a key of SSH",
            title("tlsClientCertData")
        )),
        (false, false) => {
            add("tls.crt", certificate);
            add("tls.key", key);
        }
        (is_missing, _) => {
            let [present, missing] = if is_missing {
                ["tlsClientCertKey", "tlsClientCertData"]
            } else {
                ["tlsClientCertData", "tlsClientCertKey"]
            };
            problems.push(format!(
                "the key {present:?} of {} is not converted, as {missing:?} is missing: add it, or remove both",
                title(present)
            ));
        }
    }
    match proxy(of("proxy")) {
        _ if of("proxy").is_empty() => {}
        Some(Proxy { address, login }) => {
            add("proxyAddress", &address);
            if let Some((username, password)) = login {
                add("proxyUsername", &username);
                add("proxyPassword", &password);
            }
        }
        // It may have a password.
        None => problems.push(format!(
            "the key \"proxy\" of {} is no URL of an HTTP proxy, such as http://proxy.example.com:3128; other proxies are not supported",
            title("proxy")
        )),
    }
    if server == Server::Git {
        if !of(TOKEN).is_empty() {
            add(TOKEN, of(TOKEN));
        }
    } else if of("insecureOCIForceHttp") == "true" {
        add(WITHOUT_TLS, "true");
    }
    let is_known = |key: &str| server == Server::Git && key == TOKEN;
    for key in UNKNOWN
        .into_iter()
        .filter(|key| !of(key).is_empty() && !is_known(key))
    {
        problems.push(format!(
            "the key {key:?} of {} has no equivalent: only a username with a password, a client certificate and a proxy are supported",
            title(key)
        ));
    }
    problems
}

impl Server {
    /// The field of the HelmOp that names the Secret.
    const fn field(self) -> &'static str {
        match self {
            Self::Charts => HELM_SECRET,
            Self::Git => GIT_SECRET,
        }
    }

    /// A URL without what means nothing. Over SSH, a Git repository has two forms of it, and Argo CD ignores case.
    fn normalized(self, url: &str) -> String {
        if self == Self::Charts {
            return plain(url).to_owned();
        }
        let url = with_user(url);
        let identity = Location::parse(&url).map_or(url, |location| location.identity());
        let url = identity.strip_prefix(GIT_PREFIX).unwrap_or(&identity);
        plain(url).to_ascii_lowercase()
    }
}

/// The text of a key; empty if there is none.
fn text<'k>(known: &'k Known, key: &str) -> &'k str {
    known.get(key).map_or("", |(text, _)| text)
}

/// A proxy, whose login is no part of its address.
struct Proxy {
    address: String,
    login: Option<(String, String)>,
}

/// The proxy of a URL. One without a scheme is of HTTP.
fn proxy(url: &str) -> Option<Proxy> {
    let (scheme, rest) = url.trim().split_once("://").unwrap_or(("http", url.trim()));
    let scheme = scheme.to_ascii_lowercase();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let is_http = matches!(&*scheme, "http" | "https") && !host.is_empty();
    is_http.then(|| Proxy {
        address: format!("{scheme}://{host}{path}"),
        login: login.map(|login| {
            let (username, password) = login.split_once(':').unwrap_or((login, ""));
            (decoded(username), decoded(password))
        }),
    })
}

/// Whether a Secret has a login of its own. That of one that cannot be read may be there.
fn has_login(texts: &Texts) -> bool {
    let has = |key| {
        texts
            .readable
            .get(key)
            .is_some_and(|text: &String| !text.is_empty())
    };
    texts.is_encrypted() || LOGIN.into_iter().any(has)
}

/// The Secret of a kind for a URL: of a repository with the same one, of credentials with the longest one that the URL starts with.
fn find<'o>(
    objects: &'o Objects,
    kind: &str,
    (url, server): (&str, Server),
) -> Option<(usize, &'o Document)> {
    let url = server.normalized(url);
    let candidates = objects
        .documents()
        .filter_map(|(index, document)| Some((length(document, kind, (&url, server))?, (index, document))));
    let (_, found) = candidates.max_by_key(|(length, _)| *length)?;
    Some(found)
}

/// How much of a normalized URL a Secret of a kind has; `None` if it is not for the URL.
fn length(document: &Document, kind: &str, (url, server): (&str, Server)) -> Option<usize> {
    if document.text("/kind") != "Secret" || document.text(LABEL) != kind {
        return None;
    }
    let texts = Texts::of(document);
    let own = server.normalized(texts.readable.get("url")?);
    let fits = if kind == REPOSITORY {
        url == own
    } else {
        url.starts_with(&own)
    };
    fits.then_some(own.len())
}

/// A URL without what means nothing.
fn plain(url: &str) -> &str {
    let url = url.strip_prefix("oci://").unwrap_or(url).trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}
