//! The chart of a HelmRelease: its repository, name, version and credentials.

use std::path::Path;

use helm_index::is_complete_version;
use helmops_api::HelmOptions;
use helmops_model::chart::{
    registry::manifest::{ARCHIVES, is_archive},
    source::is_oci,
};
use serde_json::{Map, json};

use super::{SOURCE, git};
use crate::create::{
    draft::Draft,
    in_git::{ChartInGit, is_ssh, plain},
    note::{Gap, Loss},
    objects::{
        Objects, Referent, Used,
        documents::Document,
        fields::Fields,
        login::{self, GIT_SECRET, HELM_SECRET, Login, Part, WITHOUT_TLS, host},
    },
};

const VERIFY: &str = "signatures are not verified; restrict the repositories with a Policy, or verify charts where they are published";
const CLOUD: &str = "there is no login with the identity of a cloud provider; create a Secret with username and password, and set helmSecretName";
const CLOUD_OF_GIT: &str = "there is no login with the identity of a cloud provider or of an App of GitHub; create a Secret with username and password (a token), \
                            and name it in chartSource.git.secretRef";
const CHART_NAME: &str =
    "the name of the chart; in a patch of kustomize another file has it: convert what kustomize build prints";
const REPOSITORY_NAME: &str = "the HelmRepository with the chart; add it, or set --repo; in a patch of kustomize another file has it: convert what kustomize build prints";
const SOURCE_NAME: &str = "a chartRef has kind and name of an OCIRepository or HelmChart; add both, or set --repo and --version; in a patch of kustomize another file has them: convert \
                           what kustomize build prints";

const GIT_NAME: &str = "the GitRepository with the chart; add it, or set --repo and --version; in a patch of kustomize another file has it: convert what \
                        kustomize build prints";

/// What Flux releases of a chart in Git, unless a HelmChart says something else.
const CHART_VERSION: &str = "ChartVersion";
/// The values of a chart, unless a HelmRelease selects others.
const DEFAULT_VALUES: &str = "values.yaml";
pub const OVER_DEFAULT: &str = "Flux uses these files in place of the values.yaml of the chart, a HelmOp over it: set in values what must not be as there";

/// Converts the source of the chart.
pub fn convert(all: &Objects, spec: &mut Fields<'_>, namespace: &str, draft: &mut Draft, used: &mut Used) {
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
        let text = "a HelmRelease has a chart or a chartRef; set --repo, --chart and --version";
        source
            .draft
            .notes
            .push(spec.refusal("chart", Gap::Unpublished, text));
    }
    draft.interval = source.interval.map(|interval| {
        let note = spec.note(
            "interval",
            format!("{interval:?} is no pollingInterval; set --poll"),
        );
        (interval, note)
    });
}

struct Source<'s, 'd> {
    all: &'d Objects,
    namespace: String,
    interval: Option<String>,
    draft: &'s mut Draft,
    used: &'s mut Used,
}

impl<'d> Source<'_, 'd> {
    fn helm(&mut self) -> &mut HelmOptions {
        self.draft.helmop.spec.bundle.options.helm.get_or_insert_default()
    }

    /// `chart.spec`, or the spec of a HelmChart.
    fn chart(&mut self, mut spec: Fields<'_>) {
        let chart = spec.text("chart");
        if chart.is_none() {
            spec.required("chart", Gap::Valid, CHART_NAME, &mut self.draft.notes);
        }
        let chart = chart.unwrap_or_default();
        self.helm().version = spec
            .text("version")
            .filter(|version| version != "*")
            .unwrap_or_default();
        if let Some(interval) = spec.text("interval") {
            self.interval = Some(interval);
        }
        let strategy = spec.text("reconcileStrategy");
        spec.refused("verify", Loss::Verify, VERIFY, &mut self.draft.notes);
        let mut reference = spec.mapping("sourceRef");
        reference.drop("apiVersion");
        let kind = reference
            .text("kind")
            .unwrap_or_else(|| "HelmRepository".to_owned());
        let name = reference.text("name");
        let namespace = reference
            .text("namespace")
            .unwrap_or_else(|| self.namespace.clone());
        let root = if kind == "HelmRepository" { "" } else { &*chart };
        self.values_files(&mut spec, root);
        let found = self.find(&reference, (&kind, &namespace, name.as_deref()));
        match (&*kind, found) {
            _ if reference.is_wrong("kind") => {}
            ("HelmRepository", Referent::Found(_, document)) => self.repository(document, &chart),
            ("HelmRepository", found) => {
                self.helm().chart = chart;
                match (found, name) {
                    (Referent::Missing, Some(name)) => {
                        let text =
                            format!("HelmRepository {name:?} is not in the files; add it, or set --repo");
                        let note = reference.refusal("", Gap::Chart, text);
                        self.draft.notes.push(note);
                    }
                    (Referent::Missing, None) => {
                        reference.required("name", Gap::Chart, REPOSITORY_NAME, &mut self.draft.notes);
                    }
                    _ => {}
                }
            }
            ("GitRepository", Referent::Found(_, document)) => {
                let mut chart = self.git(document, &chart, (&reference, "kind"));
                chart.source.reconcile_strategy = strategy.unwrap_or_else(|| CHART_VERSION.to_owned());
                git::suspended(&mut spec, &mut chart);
                self.draft.git = Some(chart);
            }
            ("GitRepository", found) => self.no_git(&reference, found, name.as_deref(), &chart),
            _ => {
                let base = chart_name(&chart);
                base.clone_into(&mut self.helm().chart);
                // Flux ignores it.
                self.helm().version.clear();
                let instead = match &*kind {
                    "Bucket" => {
                        "is not converted: write a HelmOp with its fields in spec.chartSource.bucket, or publish the chart"
                    }
                    _ => "cannot be deployed by a HelmOp: publish it",
                };
                let text = format!(
                    "a chart in a {kind} {instead} (helm package, helm push), and set --repo, --version, and --chart if its name is not {base:?}"
                );
                let note = reference.refusal("kind", Gap::Unpublished, text);
                self.draft.notes.push(note);
            }
        }
        self.suspended(&mut spec);
        reference.finish(&mut self.draft.notes);
        spec.finish(&mut self.draft.notes);
    }

    /// A chart in a GitRepository that was not found.
    fn no_git(&mut self, reference: &Fields<'_>, found: Referent<'_>, name: Option<&str>, path: &str) {
        let base = chart_name(path);
        let helm = self.helm();
        base.clone_into(&mut helm.chart);
        // Flux ignores it.
        helm.version.clear();
        match (found, name) {
            (Referent::Missing, Some(name)) => {
                let text = format!(
                    "GitRepository {name:?} is not in the files; add it, or set --repo, --version, and --chart if its name is not {base:?}"
                );
                let note = reference.refusal("", Gap::Unpublished, text);
                self.draft.notes.push(note);
            }
            (Referent::Missing, None) => {
                reference.required("name", Gap::Unpublished, GIT_NAME, &mut self.draft.notes);
            }
            _ => {}
        }
    }

    /// The values files of a chart, which is in a folder of the source.
    fn values_files(&mut self, spec: &mut Fields<'_>, root: &str) {
        let options = &mut self.draft.helmop.spec.bundle.options;
        if spec.flag("ignoreMissingValuesFiles") == Some(true) {
            let lifecycle = options.lifecycle.get_or_insert_default();
            lifecycle.ignore_missing_values_files = true;
        }
        // Flux merges the one before the others.
        let of_old_field = spec.text("valuesFile").into_iter();
        let files: Vec<_> = of_old_field.chain(spec.texts("valuesFiles")).collect();
        let notes = &mut self.draft.notes;
        let mut in_chart = Vec::new();
        for file in &files {
            if let Ok(file) = Path::new(plain(file)).strip_prefix(plain(root)) {
                in_chart.push(file.display().to_string());
            } else {
                let text = format!("{file:?} is not in the chart; copy its content into helm.values");
                notes.push(spec.refusal("valuesFiles", Gap::Field(Loss::ValuesFiles), text));
            }
        }
        if in_chart.first().is_some_and(|first| first != DEFAULT_VALUES) {
            notes.push(spec.note("valuesFiles", OVER_DEFAULT));
        }
        options.helm.get_or_insert_default().values_files = in_chart;
    }

    /// `chartRef`.
    fn reference(&mut self, spec: &mut Fields<'_>) {
        let mut reference = spec.mapping("chartRef");
        reference.drop("apiVersion");
        let [kind, name] = ["kind", "name"].map(|field| reference.text(field));
        let namespace = reference
            .text("namespace")
            .unwrap_or_else(|| self.namespace.clone());
        let (Some(kind), Some(name)) = (&kind, &name) else {
            let missing = if kind.is_none() { "kind" } else { "name" };
            reference.required(missing, Gap::Unpublished, SOURCE_NAME, &mut self.draft.notes);
            return reference.finish(&mut self.draft.notes);
        };
        match (&**kind, self.find(&reference, (kind, &namespace, Some(name)))) {
            ("OCIRepository", Referent::Found(_, document)) => self.oci(document),
            ("HelmChart", Referent::Found(_, document)) => {
                let mut fields = Fields::of(document);
                let own = document.text("/metadata/namespace");
                if !own.is_empty() {
                    own.clone_into(&mut self.namespace);
                }
                self.chart(fields.mapping("spec"));
            }
            (_, Referent::Ambiguous) => {}
            ("OCIRepository" | "HelmChart", Referent::Missing) => {
                let text =
                    format!("{kind} {name:?} is not in the files; add it, or set --repo and --version");
                let note = reference.refusal("", Gap::Unpublished, text);
                self.draft.notes.push(note);
            }
            _ => {
                let text = format!(
                    "a chart of kind {kind:?} has no equivalent; publish it, and set --repo, --chart and --version"
                );
                let note = reference.refusal("kind", Gap::Unpublished, text);
                self.draft.notes.push(note);
            }
        }
        reference.finish(&mut self.draft.notes);
    }

    /// An object of Flux's sources. It is used then, also if it is one that a HelmOp cannot use.
    fn find(
        &mut self,
        reference: &Fields<'_>,
        (kind, namespace, name): (&str, &str, Option<&str>),
    ) -> Referent<'d> {
        let Some(name) = name else {
            return Referent::Missing;
        };
        let found = self.all.find(
            reference,
            (SOURCE, kind),
            (namespace, name),
            &mut self.draft.notes,
        );
        if let Referent::Found(index, _) = found {
            self.used.add(index);
        }
        found
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
        if spec.flag("passCredentials") == Some(true) {
            login::passed(&spec, "passCredentials", self.draft);
        }
        spec.lost(
            "accessFrom",
            "a HelmOp uses Secrets of its own namespace only",
            &mut self.draft.notes,
        );
        self.suspended(&mut spec);
        spec.finish(&mut self.draft.notes);
    }

    /// A chart in Git, in the folder that a field names.
    fn git(&mut self, document: &'d Document, path: &str, place: (&Fields<'_>, &str)) -> ChartInGit {
        let mut fields = Fields::of(document);
        let mut spec = fields.mapping("spec");
        let url = spec.text("url").unwrap_or_default();
        let mut chart = ChartInGit::new(&url, path, place, self.draft);
        self.interval = git::convert(&mut spec, &mut chart).or(self.interval.take());
        if let Some(provider) = spec.text("provider").filter(|provider| provider != "generic") {
            let note = spec.note("provider", format!("{provider}: {CLOUD_OF_GIT}"));
            chart.notes.push(note);
        }
        spec.lost("serviceAccountName", CLOUD_OF_GIT, &mut chart.notes);
        spec.refused("verify", Loss::Verify, VERIFY, &mut chart.notes);
        self.git_access(&mut spec, &url, document, &mut chart);
        spec.finish(&mut chart.notes);
        chart
    }

    /// The Secret of a Git repository.
    fn git_access(&mut self, spec: &mut Fields<'_>, url: &str, document: &Document, chart: &mut ChartInGit) {
        let login: &[&str] = if is_ssh(url) {
            &["identity and known_hosts"]
        } else {
            &["username and password, or bearerToken"]
        };
        let named = [
            ("secretRef", Part::Git, login),
            (
                "proxySecretRef",
                Part::Proxy,
                &["proxyAddress (in place of address)"],
            ),
        ];
        let references = login::references(spec, &named, &mut chart.notes);
        let login = Login {
            namespace: match document.text("/metadata/namespace") {
                "" => &self.namespace,
                own => own,
            },
            host: &host(url),
            name: format!("{}-repository", document.text("/metadata/name")),
            data: Map::new(),
            field: GIT_SECRET,
        };
        let mut access = Draft::default();
        login.convert(references, self.all, &mut access, self.used);
        chart.secret = access.helmop.spec.helm_secret_name;
        chart.objects = access.objects;
        chart.notes.append(&mut access.notes);
    }

    fn oci(&mut self, document: &'d Document) {
        let mut fields = Fields::of(document);
        let mut spec = fields.mapping("spec");
        let url = spec.text("url").unwrap_or_default();
        let host = host(&url);
        url.trim_end_matches('/').clone_into(&mut self.helm().repo);
        self.interval = spec.text("interval").or(self.interval.take());
        let mut reference = spec.mapping("ref");
        self.version(&mut reference);
        reference.finish(&mut self.draft.notes);
        self.access(&mut spec, document, &host, true);
        spec.refused("verify", Loss::Verify, VERIFY, &mut self.draft.notes);
        spec.lost("serviceAccountName", CLOUD, &mut self.draft.notes);
        self.layer(spec.mapping("layerSelector"));
        spec.drop("timeout");
        self.suspended(&mut spec);
        spec.finish(&mut self.draft.notes);
    }

    /// Which layer of the artifact is the chart.
    fn layer(&mut self, mut selector: Fields<'_>) {
        // The chart is the same whether Flux packs its files again or not.
        selector.drop("operation");
        let other = selector
            .text("mediaType")
            .filter(|media_type| !is_archive(media_type));
        if let Some(media_type) = other {
            let text = format!(
                "Flux deploys the layer {media_type}, a HelmOp the one that helm pull takes, {}: publish the chart with helm push",
                ARCHIVES[0]
            );
            let note = selector.refusal("mediaType", Gap::Field(Loss::LayerSelector), text);
            self.draft.notes.push(note);
        }
        selector.finish(&mut self.draft.notes);
    }

    /// The version of an OCIRepository: Flux prefers a digest to a range, and that to a tag, which is `latest` by default.
    fn version(&mut self, reference: &mut Fields<'_>) {
        let names = ["tag", "semver", "digest"];
        let [tag, range, digest] = names.map(|name| reference.text(name));
        // It has no effect with a digest or a tag.
        let filter = reference.text("semverFilter");
        if digest.is_none() && range.is_some() {
            self.draft.helmop.spec.semver_filter = filter.unwrap_or_default();
        }
        if names.into_iter().any(|name| reference.is_wrong(name)) {
            return;
        }
        let tag = tag.unwrap_or_else(|| "latest".to_owned());
        // A registry has no + in tags.
        let version = Some(tag.replace('_', "+")).filter(|version| is_complete_version(version));
        let helm = self.helm();
        match (digest, range, version) {
            (Some(digest), _, version) => {
                helm.repo = format!("{}@{digest}", helm.repo);
                helm.version = version.unwrap_or_default();
            }
            (None, Some(range), _) => helm.version = range,
            (None, None, Some(version)) => helm.version = version,
            (None, None, None) if tag.contains("${") => {
                let text =
                    "the tag is a variable of Flux, which no file defines: set --version, or define it";
                let note = reference.refusal("tag", Gap::Version, text);
                self.draft.notes.push(note);
            }
            (None, None, None) => helm.repo = format!("{}:{tag}", helm.repo),
        }
    }

    /// A suspended source keeps its version.
    fn suspended(&mut self, spec: &mut Fields<'_>) {
        if spec.flag("suspend") == Some(true) {
            let text = "Flux selects no other version while the source is suspended; set --version to the version that it has";
            let note = spec.refusal("suspend", Gap::Field(Loss::Suspend), text);
            self.draft.notes.push(note);
        }
    }

    /// Credentials and trust.
    fn access(&mut self, spec: &mut Fields<'_>, document: &Document, host: &str, is_registry: bool) {
        if let Some(provider) = spec.text("provider").filter(|provider| provider != "generic") {
            let note = spec.note("provider", format!("{provider}: {CLOUD}"));
            self.draft.notes.push(note);
        }
        let insecure = spec.flag("insecure") == Some(true);
        let named = [
            ("secretRef", Part::Login, &["username", "password"][..]),
            ("certSecretRef", Part::Login, &["cacerts (in place of ca.crt)"]),
            (
                "proxySecretRef",
                Part::Proxy,
                &["proxyAddress (in place of address)"],
            ),
        ];
        let references = login::references(spec, &named, &mut self.draft.notes);
        let namespace = match document.text("/metadata/namespace") {
            "" => &*self.namespace,
            own => own,
        };
        let mut login = Login {
            namespace,
            host,
            name: format!("{}-repository", document.text("/metadata/name")),
            data: Map::new(),
            field: HELM_SECRET,
        };
        if insecure && is_registry {
            login.data.insert(WITHOUT_TLS.to_owned(), json!("true"));
        }
        login.convert(references, self.all, self.draft, self.used);
    }
}

/// The name of the folder of a chart.
fn chart_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}
