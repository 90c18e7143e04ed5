//! What `helmops-helm` reads and writes: a request and an outcome, both as JSON. `agent/helm/request.go` has the same types.

use std::{collections::BTreeMap, path::Path, str};

use helmops_release::{content::PatchedFile, marks, post_render::PostRender};
use kube::core::Status;
use serde::{Deserialize, Serialize};

use super::{
    kustomize::{InvalidPatch, KustomizeSteps},
    outcome::{Failure, FailureReason},
    request::{Action, Crds, Deploy, Install, Request, Rollback, Uninstall, Upgrade},
    settings::{ActionSettings, Apply},
};

/// The arguments that run the post-renderer.
const POST_RENDER: [&str; 1] = ["post-render"];
/// JSON may need this many bytes for one of a text.
pub const ESCAPED: usize = 2;

/// What `helmops-helm` is to do.
#[expect(clippy::struct_excessive_bools, reason = "they are options of Helm")]
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct EngineRequest<'r> {
    action: &'static str,
    release: &'r str,
    namespace: &'r str,
    /// The namespace of the records.
    storage_namespace: &'r str,
    kubeconfig: Option<&'r Path>,
    user: Option<String>,
    /// Milliseconds.
    hook_timeout: u64,
    /// The agent holds the other end of its standard input.
    ends_with_input: bool,
    chart: Option<EngineChart<'r>>,
    post_render: Option<KustomizeSteps>,
    /// The files that are patched.
    patched: &'r [PatchedFile],
    marks: Option<EngineMarks<'r>>,
    apply: &'static str,
    take_ownership: bool,
    cleanup_on_fail: bool,
    deletion_propagation: &'static str,
    replace: bool,
    #[serde(rename = "skipCRDs")]
    skip_crds: bool,
    description: &'r str,
    labels: BTreeMap<&'static str, String>,
    max_history: u32,
    revision: u64,
    keep_history: bool,
    disable_hooks: bool,
    include: &'r [String],
    exclude: &'r [String],
    is_upgrade: bool,
    kube_version: &'r str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EngineChart<'r> {
    archive: &'r Path,
    values: Vec<&'r str>,
    annotations: Option<EngineAnnotations>,
    #[serde(rename = "enableDNS")]
    enable_dns: bool,
    skip_schema: bool,
}

/// What the record says of the release, in the annotations of the chart.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EngineAnnotations {
    /// The chart itself has none with these prefixes.
    prefixes: [&'static str; 2],
    values: BTreeMap<&'static str, String>,
    /// The one that is left out if it is the version of the chart itself.
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct EngineMarks<'r> {
    program: &'r Path,
    arguments: [&'static str; 1],
    step: &'r PostRender,
}

/// What `helmops-helm` has done.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EngineOutcome {
    /// The revision that was written.
    pub revision: Option<u64>,
    /// Warnings of the API server.
    pub warnings: Vec<String>,
    /// The objects of a rendering, the CRDs of a chart, or patched files.
    pub printed: String,
    /// The patches whose target selects no object.
    pub unmatched_patches: Vec<String>,
    /// Why the action failed.
    pub error: Option<EngineError>,
}

/// Why an action failed.
#[derive(Debug, Default, Deserialize)]
pub struct EngineError {
    /// The error of Helm or of the API server.
    pub text: String,
    /// The name of a [`FailureReason`], if `helmops-helm` knows it.
    #[serde(default)]
    pub reason: String,
    /// The response of the API server, if the error has one. Its message is in the text.
    pub response: Option<Status>,
}

impl EngineError {
    /// The reason, if `helmops-helm` knows it.
    pub fn reason(&self) -> Option<FailureReason> {
        let all = FailureReason::ALL.iter();
        all.copied().find(|reason| reason.as_str() == self.reason)
    }
}

/// The JSON of a request, with the paths of a kubeconfig and of the program that changes objects.
///
/// # Errors
/// If the values are no text.
pub fn encoded(request: &Request, kubeconfig: &Path, post_renderer: &Path) -> Result<Vec<u8>, Failure> {
    let uses_cluster = !matches!(request.action, Action::Crds(_) | Action::Patch(_));
    let mut encoded = EngineRequest {
        action: request.action.name(),
        release: &request.release.name,
        namespace: &request.release.namespace,
        storage_namespace: &request.release.storage,
        kubeconfig: uses_cluster.then_some(kubeconfig),
        user: request.identity.user(),
        hook_timeout: u64::try_from(request.hook_timeout.as_millis()).unwrap_or(u64::MAX),
        ends_with_input: true,
        ..EngineRequest::default()
    };
    match &request.action {
        Action::Install(install) => encoded.install(install, post_renderer)?,
        Action::Upgrade(upgrade) => encoded.upgrade(upgrade, post_renderer)?,
        Action::Rollback(rollback) => encoded.rollback(rollback),
        Action::Uninstall(uninstall) => encoded.uninstall(uninstall),
        Action::Test(test) => {
            encoded.include = &test.filters.include;
            encoded.exclude = &test.filters.exclude;
        }
        Action::Crds(crds) => encoded.crds(crds)?,
        Action::Patch(files) => encoded.patched = files,
        Action::Render(render) => {
            encoded.chart = Some(chart(&render.deploy)?);
            encoded.post_render = post_render(&render.deploy)?;
            encoded.is_upgrade = render.is_upgrade;
        }
    }
    serde_json::to_vec(&encoded).map_err(|error| {
        Failure::new(
            FailureReason::NotStarted,
            format!("cannot encode the request: {error}"),
        )
    })
}

impl<'r> EngineRequest<'r> {
    fn install(&mut self, install: &'r Install, post_renderer: &'r Path) -> Result<(), Failure> {
        self.deploy(&install.deploy, post_renderer)?;
        self.settings(&install.settings);
        self.replace = install.replaces;
        self.skip_crds = install.deploy.skips_crds;
        Ok(())
    }

    fn upgrade(&mut self, upgrade: &'r Upgrade, post_renderer: &'r Path) -> Result<(), Failure> {
        self.deploy(&upgrade.deploy, post_renderer)?;
        self.settings(&upgrade.settings);
        self.max_history = upgrade.max_history;
        // Helm passes labels on, except for this value.
        self.labels
            .entry(marks::ACCEPTANCE)
            .or_insert_with(|| "null".to_owned());
        Ok(())
    }

    fn settings(&mut self, settings: &ActionSettings) {
        self.apply = apply(settings.apply);
        self.take_ownership = settings.takes_ownership;
        self.disable_hooks = !settings.runs_hooks;
        self.cleanup_on_fail = settings.cleans_up;
    }

    fn rollback(&mut self, rollback: &Rollback) {
        self.revision = rollback.revision;
        self.settings(&rollback.settings);
        self.max_history = rollback.max_history;
    }

    fn uninstall(&mut self, uninstall: &'r Uninstall) {
        self.keep_history = uninstall.keeps_history;
        self.description = &uninstall.description;
        self.disable_hooks = !uninstall.runs_hooks;
        self.deletion_propagation = uninstall.propagation.as_str();
    }

    fn crds(&mut self, crds: &'r Crds) -> Result<(), Failure> {
        self.chart = Some(EngineChart {
            archive: &crds.archive,
            values: texts(&crds.values)?,
            annotations: None,
            enable_dns: false,
            skip_schema: true,
        });
        self.kube_version = &crds.kube_version;
        Ok(())
    }

    fn deploy(&mut self, deploy: &'r Deploy, post_renderer: &'r Path) -> Result<(), Failure> {
        self.chart = Some(chart(deploy)?);
        self.post_render = post_render(deploy)?;
        self.marks = Some(EngineMarks {
            program: post_renderer,
            arguments: POST_RENDER,
            step: &deploy.post_render,
        });
        self.description = &deploy.description;
        if let Some(on_delete) = &deploy.on_delete {
            self.labels.insert(marks::ON_DELETE, on_delete.to_string());
        }
        if let Some(acceptance) = deploy.acceptance {
            self.labels.insert(marks::ACCEPTANCE, acceptance.to_string());
        }
        Ok(())
    }
}

fn chart(deploy: &Deploy) -> Result<EngineChart<'_>, Failure> {
    Ok(EngineChart {
        archive: &deploy.archive,
        values: texts(&deploy.values)?,
        annotations: Some(EngineAnnotations {
            prefixes: marks::PREFIXES,
            values: deploy.origin.annotations(""),
            version: marks::RESOLVED_VERSION,
        }),
        enable_dns: deploy.enables_dns,
        skip_schema: deploy.skips_schema,
    })
}

fn post_render(deploy: &Deploy) -> Result<Option<KustomizeSteps>, Failure> {
    let invalid = |error: InvalidPatch| Failure::new(FailureReason::ObjectsRefused, error.to_string());
    KustomizeSteps::of(&deploy.post_renderers).map_err(invalid)
}

fn texts(values: &[Vec<u8>]) -> Result<Vec<&str>, Failure> {
    let invalid = |error| {
        Failure::new(
            FailureReason::ValuesInvalid,
            format!("the values are no text: {error}"),
        )
    };
    let texts = values.iter().map(|values| str::from_utf8(values));
    texts.collect::<Result<_, _>>().map_err(invalid)
}

const fn apply(apply: Apply) -> &'static str {
    match apply {
        Apply::AsBefore => "as-before",
        Apply::Server => "server",
        Apply::Override => "override",
        Apply::Client => "client",
        Apply::Replace => "replace",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helmops_release::{
        chart_metadata::Origin,
        names::ReleaseKey,
        post_render::CommonMetadata,
        record::{Acceptance, OnDelete, Propagation, TestFilters},
        scopes::Scopes,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        outcome::SecretTexts,
        request::{Identity, PostRenderers, Render, Test},
    };

    fn deploy() -> Deploy {
        Deploy {
            archive: "/cache/web.tgz".into(),
            origin: Origin::default(),
            values: vec![b"{}".to_vec(), b"a: b".to_vec()],
            post_render: PostRender {
                common: CommonMetadata::default(),
                set: "default-web".to_owned(),
                namespace: None,
                deletes_crds: false,
                scopes: Scopes::default(),
            },
            post_renderers: PostRenderers::default(),
            secrets: SecretTexts::default(),
            enables_dns: true,
            skips_schema: false,
            description: "why".to_owned(),
            skips_crds: true,
            on_delete: None,
            acceptance: None,
        }
    }

    fn of(identity: Identity, action: Action) -> Value {
        let request = Request {
            release: ReleaseKey::new("shop", "web"),
            identity,
            action,
            hook_timeout: Duration::from_millis(1500),
        };
        let encoded = encoded(&request, Path::new("/run/kubeconfig"), Path::new("/agent"));
        serde_json::from_slice(&encoded.unwrap()).unwrap()
    }

    /// The fields that differ from those of a request for nothing.
    fn fields(encoded: &Value) -> Value {
        let nothing = of(Identity::Agent, Action::Test(Test::default()));
        let fields = encoded.as_object().unwrap().iter();
        fields
            .filter(|(key, value)| nothing[key] != **value)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    #[test]
    fn an_installation() {
        let install = Install {
            deploy: deploy(),
            settings: ActionSettings {
                apply: Apply::Client,
                ..ActionSettings::default()
            },
            replaces: true,
        };
        let step = serde_json::to_value(&install.deploy.post_render).unwrap();
        let expected = json!({
            "action": "install", "apply": "client", "takeOwnership": true, "replace": true, "skipCRDs": true,
            "description": "why",
            "chart": {
                "archive": "/cache/web.tgz", "values": ["{}", "a: b"], "enableDNS": true, "skipSchema": false,
                "annotations": {
                    "prefixes": marks::PREFIXES, "values": Origin::default().annotations(""), "version": marks::RESOLVED_VERSION,
                },
            },
            "marks": { "program": "/agent", "arguments": ["post-render"], "step": step },
        });
        assert_eq!(fields(&of(Identity::Agent, Action::Install(install))), expected);
    }

    #[test]
    fn an_upgrade_sets_or_removes_the_label_of_acceptance() {
        let upgrade = |acceptance, on_delete| {
            let upgrade = Upgrade {
                deploy: Deploy {
                    on_delete,
                    acceptance,
                    ..deploy()
                },
                settings: ActionSettings {
                    apply: Apply::Override,
                    runs_hooks: false,
                    cleans_up: true,
                    takes_ownership: false,
                    ..ActionSettings::default()
                },
                max_history: 3,
            };
            of(Identity::Agent, Action::Upgrade(upgrade))
        };
        let plain = upgrade(None, None);
        assert_eq!(
            (&plain["apply"], &plain["maxHistory"]),
            (&json!("override"), &json!(3))
        );
        assert_eq!(
            (&plain["disableHooks"], &plain["cleanupOnFail"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(plain["labels"], json!({ marks::ACCEPTANCE: "null" }));
        let labelled = upgrade(Some(Acceptance::Awaited), Some(OnDelete::default()));
        assert_eq!(labelled["labels"][marks::ACCEPTANCE], "Awaited");
        assert_eq!(
            labelled["labels"][marks::ON_DELETE],
            OnDelete::default().to_string()
        );
    }

    #[test]
    fn a_rollback_a_removal_and_tests() {
        let rollback = Rollback {
            revision: 4,
            settings: ActionSettings {
                runs_hooks: false,
                cleans_up: true,
                takes_ownership: false,
                ..ActionSettings::default()
            },
            max_history: 2,
        };
        assert_eq!(
            fields(&of(Identity::Agent, Action::Rollback(rollback))),
            json!({ "action": "rollback", "revision": 4, "apply": "as-before", "maxHistory": 2, "disableHooks": true,
                "cleanupOnFail": true })
        );
        let uninstall = Uninstall {
            keeps_history: true,
            description: "why".to_owned(),
            runs_hooks: true,
            propagation: Propagation::Orphan,
        };
        assert_eq!(
            fields(&of(Identity::Agent, Action::Uninstall(uninstall))),
            json!({ "action": "uninstall", "keepHistory": true, "description": "why", "deletionPropagation": "orphan" })
        );
        let filters = TestFilters {
            include: vec!["a".to_owned()],
            exclude: vec!["b,c=\"d".to_owned()],
        };
        assert_eq!(
            fields(&of(Identity::Agent, Action::Test(Test { filters, count: 1 }))),
            json!({ "include": ["a"], "exclude": ["b,c=\"d"] })
        );
    }

    #[test]
    fn files_are_patched_without_a_cluster() {
        let file = PatchedFile {
            path: "a.yaml".to_owned(),
            text: "a: b".to_owned(),
            patches: vec!["a: c".to_owned()],
        };
        let patch = of(Identity::Agent, Action::Patch(vec![file]));
        assert_eq!(
            (&patch["action"], &patch["kubeconfig"]),
            (&json!("patch"), &Value::Null)
        );
        let expected = json!([{ "path": "a.yaml", "text": "a: b", "patches": ["a: c"] }]);
        assert_eq!(patch["patched"], expected);
    }

    #[test]
    fn the_chart_of_files_is_rendered_in_another_way() {
        let mut deploy = deploy();
        deploy.post_renderers.is_content = true;
        deploy.post_renderers.folder = "dev".to_owned();
        let render = of(
            Identity::Agent,
            Action::Render(Render {
                deploy,
                is_upgrade: false,
                capabilities: None,
            }),
        );
        let expected = json!({ "folder": "dev", "isContent": true, "renderers": [], "strategy": "" });
        assert_eq!(render["postRender"], expected);
    }

    #[test]
    fn only_a_rendering_needs_a_cluster() {
        let crds = Crds {
            archive: "/cache/web.tgz".into(),
            values: Vec::new(),
            kube_version: "v1.36.0".to_owned(),
        };
        let crds = of(Identity::Agent, Action::Crds(crds));
        assert_eq!(
            (&crds["kubeconfig"], &crds["kubeVersion"]),
            (&Value::Null, &json!("v1.36.0"))
        );
        assert_eq!(
            (&crds["action"], &crds["chart"]["archive"]),
            (&json!("crds"), &json!("/cache/web.tgz"))
        );
        let render = of(
            Identity::Agent,
            Action::Render(Render {
                deploy: deploy(),
                is_upgrade: true,
                capabilities: None,
            }),
        );
        assert_eq!(
            (&render["kubeconfig"], &render["isUpgrade"]),
            (&json!("/run/kubeconfig"), &json!(true))
        );
    }

    #[test]
    fn a_service_account_is_impersonated() {
        let identity = Identity::ServiceAccount {
            namespace: "agent".to_owned(),
            name: "deployer".to_owned(),
        };
        let encoded = of(identity, Action::Test(Test::default()));
        assert_eq!(encoded["user"], "system:serviceaccount:agent:deployer");
    }

    #[test]
    fn records_may_be_in_another_namespace() {
        let namespaces = |release: ReleaseKey| {
            let request = Request {
                release,
                identity: Identity::Agent,
                action: Action::Test(Test::default()),
                hook_timeout: Duration::default(),
            };
            let encoded = encoded(&request, Path::new("/run/kubeconfig"), Path::new("/agent"));
            let encoded: Value = serde_json::from_slice(&encoded.unwrap()).unwrap();
            ["namespace", "storageNamespace"].map(|field| encoded[field].clone())
        };
        let beside = ReleaseKey::new("shop", "web");
        assert_eq!(namespaces(beside.clone()), ["shop", "shop"]);
        assert_eq!(namespaces(beside.stored_in("flux")), ["shop", "flux"]);
    }

    #[test]
    fn values_that_are_no_text_are_an_error() {
        let deploy = Deploy {
            values: vec![vec![0xff]],
            ..deploy()
        };
        let render = Render {
            deploy,
            is_upgrade: false,
            capabilities: None,
        };
        let failure = texts(&render.deploy.values).unwrap_err();
        assert_eq!(failure.reason, FailureReason::ValuesInvalid);
    }
}
