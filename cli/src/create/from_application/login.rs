//! The login of a repository: Argo CD has it in Secrets with a label, and finds it by the URL.

use serde_json::{Map, json};

use crate::create::{
    draft::Draft,
    objects::{
        Objects, Used,
        documents::Document,
        fields::Fields,
        login::{self, WITHOUT_TLS},
        texts::Texts,
    },
};

const LABEL: &str = "/metadata/labels/argocd.argoproj.io~1secret-type";
/// What is converted, and what has no equivalent.
const KEYS: [&str; 2] = ["username", "password"];
const UNKNOWN: [&str; 7] = [
    "bearerToken",
    "gcpServiceAccountKey",
    "githubAppPrivateKey",
    "proxy",
    "sshPrivateKey",
    "tlsClientCertData",
    "useAzureWorkloadIdentity",
];

/// Adds the login for the URL of a source, if the files have it.
pub fn convert(objects: &Objects, url: &str, source: &Fields<'_>, draft: &mut Draft, used: &mut Used) {
    let candidates = objects
        .documents()
        .filter_map(|(index, document)| Some((rank(document, url)?, index, document)));
    let Some((_, index, document)) = candidates.max_by_key(|(rank, ..)| *rank) else {
        return;
    };
    used.add(index);
    let texts = Texts::of(document);
    let title = document.title();
    if texts.is_encrypted() {
        let text = format!(
            "{title} is encrypted; the namespace of the HelmOp needs a Secret with username and password, and helmSecretName names it"
        );
        draft.notes.push(source.note("repoURL", text));
        return;
    }
    draft
        .notes
        .extend(texts.notes(document, |key| KEYS.contains(&key)));
    let mut data = Map::new();
    for (key, text) in &texts.readable {
        match &**key {
            key if KEYS.contains(&key) => {
                data.insert(key.to_owned(), json!(text));
            }
            "insecure" => draft.helmop.spec.insecure_skip_tls_verify = text == "true",
            "insecureOCIForceHttp" if text == "true" => {
                data.insert(WITHOUT_TLS.to_owned(), json!("true"));
            }
            key if UNKNOWN.contains(&key) && !text.is_empty() => {
                let text = format!(
                    "the key {key:?} of {title} has no equivalent: only a username with a password is supported"
                );
                draft.notes.push(source.note("repoURL", text));
            }
            _ => {}
        }
    }
    if !data.is_empty() {
        login::add(document.text("/metadata/name").to_owned(), &data, objects, draft);
    }
}

/// How well a Secret fits: that of the repository best, otherwise the longest URL that the other one starts with.
fn rank(document: &Document, url: &str) -> Option<(bool, usize)> {
    let kind = document.text(LABEL);
    if document.text("/kind") != "Secret" || !matches!(kind, "repository" | "repo-creds") {
        return None;
    }
    let texts = Texts::of(document);
    let own = plain(texts.readable.get("url")?);
    let is_own = kind == "repository";
    let fits = if is_own {
        plain(url) == own
    } else {
        plain(url).starts_with(own)
    };
    fits.then_some((is_own, own.len()))
}

/// A URL without what means nothing.
fn plain(url: &str) -> &str {
    let url = url.strip_prefix("oci://").unwrap_or(url);
    url.trim_end_matches('/')
}
