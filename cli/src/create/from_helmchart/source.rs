//! The chart of a HelmChart: its repository, name, version and credentials.

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_model::chart::source::is_oci;
use serde_json::{Map, json};

use crate::create::{
    draft::Draft,
    note::Gap,
    objects::{
        Objects, Used,
        fields::Fields,
        login::{self, CERTIFICATES, HELM_SECRET, Login, Part, WITHOUT_TLS, host},
    },
};

/// What k3s replaces by the address of its own server.
const OWN_SERVER: &str = "%{KUBERNETES_API}%";
/// Where a chart is from that is in the object.
const URL: &str = "/metadata/annotations/helm.cattle.io~1chart-url";

/// Converts the source of the chart.
pub fn convert(objects: &Objects, spec: &mut Fields<'_>, draft: &mut Draft, used: &mut Used) {
    let chart = spec.text("chart").unwrap_or_default();
    let repo = spec.text("repo").unwrap_or_default();
    let repo = repo.trim_end_matches('/');
    let version = spec.text("version").unwrap_or_default();
    if let Some((field, text)) = unpublished(spec, &chart) {
        draft.notes.push(spec.refusal(field, Gap::Unpublished, text));
    } else {
        let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
        if is_oci(&chart) {
            chart.trim_end_matches('/').clone_into(&mut helm.repo);
            helm.version = version;
        } else if chart.contains("://") {
            // It is one version, and k3s ignores the field.
            helm.chart.clone_from(&chart);
        } else {
            helm.version = version;
            if is_oci(repo) {
                helm.repo = format!("{repo}/{chart}");
            } else {
                repo.clone_into(&mut helm.repo);
                helm.chart.clone_from(&chart);
            }
            if repo.is_empty() && !spec.is_wrong("repo") && !spec.is_wrong("chart") {
                let text = format!(
                    "{chart:?} has no repository; set --repo, and --chart if its name is another one"
                );
                draft.notes.push(spec.refusal("chart", Gap::Chart, text));
            }
        }
    }
    let url = if chart.contains("://") { &*chart } else { repo };
    access(objects, spec, url, draft, used);
}

/// Why a chart is in no repository, and what to do.
fn unpublished(spec: &mut Fields<'_>, chart: &str) -> Option<(&'static str, String)> {
    const PUBLISH: &str = "publish it (helm push), and set --repo and --version";
    if spec.take("chartContent").is_some() {
        let url = spec.document().text(URL);
        let text = if url.is_empty() {
            format!("a chart that is in the object itself cannot be deployed by a HelmOp: {PUBLISH}")
        } else {
            format!(
                "a chart that is in the object itself cannot be deployed by a HelmOp; it is from {url}: set --chart {url}"
            )
        };
        return Some(("chartContent", text));
    }
    if chart.contains(OWN_SERVER) {
        let text = format!(
            "k3s serves this chart from its own files, where neither controller nor agent can read it: {PUBLISH}; leave a component of k3s or \
             RKE2 to it"
        );
        return Some(("chart", text));
    }
    if chart.is_empty() && !spec.is_wrong("chart") {
        let text = "a HelmChart has a chart; set --repo, --chart and --version";
        return Some(("chart", text.to_owned()));
    }
    None
}

/// Credentials and trust.
fn access(objects: &Objects, spec: &mut Fields<'_>, url: &str, draft: &mut Draft, used: &mut Used) {
    let named = [
        ("authSecret", Part::Login, &["username", "password"][..]),
        (
            "dockerRegistrySecret",
            Part::Login,
            &["username and password (in place of .dockerconfigjson)"],
        ),
        ("repoCAConfigMap", Part::Certificates, &[CERTIFICATES]),
    ];
    let references = login::references(spec, &named, &mut draft.notes);
    let mut data = Map::new();
    // The scheme of another URL says it.
    if spec.flag("plainHTTP") == Some(true) && is_oci(url) {
        data.insert(WITHOUT_TLS.to_owned(), json!("true"));
    }
    match spec.text("repoCA") {
        // Certificates are no secrets.
        Some(certificates) if references.is_empty() && data.is_empty() => {
            draft.helmop.spec.ca_bundle = STANDARD.encode(certificates);
        }
        Some(certificates) => {
            data.insert(CERTIFICATES.to_owned(), json!(certificates));
        }
        None => {}
    }
    if spec.flag("authPassCredentials") == Some(true) {
        login::passed(spec, "authPassCredentials", draft);
    }
    draft.helmop.spec.insecure_skip_tls_verify = spec.flag("insecureSkipTLSVerify") == Some(true);
    let document = spec.document();
    let login = Login {
        namespace: document.text("/metadata/namespace"),
        host: &host(url),
        name: format!("{}-repository", document.text("/metadata/name")),
        data,
        field: HELM_SECRET,
    };
    login.convert(references, objects, draft, used);
}
