//! What Helm is to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use helmops_api::{Lifecycle, lifecycle::PostRenderer, options::BundleDeploymentOptions};
use helmops_core::admit::MAX_HELM_RUN;
use helmops_release::{
    chart_metadata::Origin,
    content::PatchedFile,
    names::ReleaseKey,
    post_render::PostRender,
    record::{Acceptance, Cause, OnDelete, Propagation, TestFilters},
};

use super::{outcome::SecretTexts, settings::ActionSettings};

/// Helm 4 gives up on a hook after 30 seconds by default, Helm 3 never did. This is between the two, unless the options have a
/// `timeoutSeconds`.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_mins(5);
/// The shortest deadline of a whole run of Helm. Without hooks it takes a second.
const MIN_DEADLINE: Duration = Duration::from_mins(10);
/// How many hooks may take their whole timeout in one run.
const SLOW_HOOKS: u32 = 4;

/// One run of Helm.
#[derive(Clone, Debug)]
pub struct Request {
    /// The release.
    pub release: ReleaseKey,
    /// Who changes it.
    pub identity: Identity,
    /// What is done.
    pub action: Action,
    /// How long each hook may take.
    pub hook_timeout: Duration,
}

/// Who changes a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The agent.
    Agent,
    /// A ServiceAccount in the namespace of the agent, which impersonates it.
    ServiceAccount {
        /// The namespace of the agent.
        namespace: String,
        /// The name of the ServiceAccount.
        name: String,
    },
}

/// As messages name it.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceAccount { namespace, name } => write!(f, "ServiceAccount {namespace}/{name}"),
            Self::Agent => f.write_str("the ServiceAccount of the agent"),
        }
    }
}

/// What Helm does with a release.
#[derive(Clone, Debug)]
pub enum Action {
    /// Install a chart.
    Install(Install),
    /// Replace a revision by another one.
    Upgrade(Upgrade),
    /// Restore a previous revision.
    Rollback(Rollback),
    /// Remove the release.
    Uninstall(Uninstall),
    /// Run the tests of the newest revision. What they have led to is in its record.
    Test(Test),
    /// Print the CRDs of a chart. Nothing on the cluster is read or changed.
    Crds(Crds),
    /// Print the objects and hooks of a chart, without the post-renderer. Nothing on the cluster is changed.
    Render(Render),
    /// Apply patches of overlays to files of a Bundle, and print the results as a list in JSON. Nothing on the cluster is read or changed.
    Patch(Vec<PatchedFile>),
}

impl Action {
    /// The names of all actions.
    pub const NAMES: [&str; 8] = [
        "install",
        "upgrade",
        "rollback",
        "uninstall",
        "test",
        "crds",
        "render",
        "patch",
    ];

    /// A name for logs and metrics, one of [`Action::NAMES`].
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Install(_) => "install",
            Self::Upgrade(_) => "upgrade",
            Self::Rollback(_) => "rollback",
            Self::Uninstall(_) => "uninstall",
            Self::Test(_) => "test",
            Self::Crds(_) => "crds",
            Self::Render(_) => "render",
            Self::Patch(_) => "patch",
        }
    }

    /// The chart that is deployed or rendered, if any.
    pub const fn deploy(&self) -> Option<&Deploy> {
        match self {
            Self::Install(install) => Some(&install.deploy),
            Self::Upgrade(upgrade) => Some(&upgrade.deploy),
            Self::Render(render) => Some(&render.deploy),
            Self::Rollback(_) | Self::Uninstall(_) | Self::Test(_) | Self::Crds(_) | Self::Patch(_) => None,
        }
    }
}

/// A chart, its values, and how it is rendered.
#[derive(Clone, Debug)]
pub struct Deploy {
    /// The archive of the chart (`.tgz`), as it was fetched.
    pub archive: PathBuf,
    /// What the release records of its BundleDeployment.
    pub origin: Origin,
    /// The values, as JSON or YAML: Helm merges them, and later ones override earlier ones.
    pub values: Vec<Vec<u8>>,
    /// Texts of the values that come from Secrets: no message has them.
    pub secrets: SecretTexts,
    /// What a user changes in the objects.
    pub post_renderers: PostRenderers,
    /// What the agent changes in the objects after that.
    pub post_render: PostRender,
    /// Whether templates may resolve names of hosts.
    pub enables_dns: bool,
    /// Whether values are not checked with the schema of the chart.
    pub skips_schema: bool,
    /// The description of the revision if it succeeds; empty for Helm's.
    pub description: String,
    /// Whether Helm leaves the CRDs of the folder `crds` to the agent. An upgrade never applies them.
    pub skips_crds: bool,
    /// What happens with the release when its BundleDeployment is gone. `None` leaves what its records have.
    pub on_delete: Option<OnDelete>,
    /// What the label of the revision says: awaited if it has to become ready, or to pass tests. Without either it gets none.
    pub acceptance: Option<Acceptance>,
}

/// What a user changes in the objects, with Kustomize.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PostRenderers {
    /// The folder of the chart with a kustomization, which comes first; empty for none.
    pub folder: String,
    /// Whether the chart is made of the files of a Bundle: then the folder is one of these, and the chart may have manifests.
    pub is_content: bool,
    /// The steps, in their order.
    pub steps: Vec<PostRenderer>,
    /// Which objects are changed together.
    pub strategy: String,
}

impl PostRenderers {
    /// Those of options.
    pub fn of(options: &BundleDeploymentOptions, lifecycle: Option<&Lifecycle>) -> Self {
        let kustomize = options.kustomize.as_ref();
        Self {
            folder: kustomize.map_or_else(String::new, |kustomize| kustomize.dir.clone()),
            is_content: false,
            steps: lifecycle.map_or_else(Vec::new, |lifecycle| lifecycle.post_renderers.clone()),
            strategy: lifecycle.map_or_else(String::new, |lifecycle| lifecycle.post_render_strategy.clone()),
        }
    }
}

impl Deploy {
    /// Changes why the release is deployed.
    pub fn set_cause(&mut self, cause: Cause) {
        if let Some(attempt) = &mut self.origin.attempt {
            attempt.cause = cause;
            self.description = attempt.to_string();
        }
    }
}

/// An installation. The namespace of the release exists.
#[derive(Clone, Debug)]
pub struct Install {
    /// The chart.
    pub deploy: Deploy,
    /// How it is installed.
    pub settings: ActionSettings,
    /// Whether a failed or uninstalled release of the same name is replaced. Its records stay, and the revision is the next one.
    pub replaces: bool,
}

/// An upgrade.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// The chart.
    pub deploy: Deploy,
    /// How the release is upgraded.
    pub settings: ActionSettings,
    /// Revisions that are kept.
    pub max_history: u32,
}

/// A rollback.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// The revision to restore.
    pub revision: u64,
    /// How it is restored.
    pub settings: ActionSettings,
    /// Revisions that are kept.
    pub max_history: u32,
}

/// A removal. Objects are not waited for.
#[derive(Clone, Debug)]
pub struct Uninstall {
    /// Whether the records stay.
    pub keeps_history: bool,
    /// The description of the newest record, if it stays; empty for Helm's.
    pub description: String,
    /// Whether hooks run.
    pub runs_hooks: bool,
    /// What happens with the dependents of deleted objects.
    pub propagation: Propagation,
}

/// Tests of the newest revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// Which ones.
    pub filters: TestFilters,
    /// How many: each may take the whole timeout.
    pub count: u32,
}

/// The CRDs of a chart: those in the folders `crds` of the chart and of its enabled subcharts.
#[derive(Clone, Debug)]
pub struct Crds {
    /// The archive of the chart (`.tgz`), as it was fetched.
    pub archive: PathBuf,
    /// The values, as in [`Deploy::values`]: they enable subcharts.
    pub values: Vec<Vec<u8>>,
    /// The version of the cluster, such as `v1.36.0`: a chart that requires another one is an error.
    pub kube_version: String,
}

/// A chart whose objects are printed.
#[derive(Clone, Debug)]
pub struct Render {
    /// The chart.
    pub deploy: Deploy,
    /// Whether templates are rendered as for an upgrade, not an installation.
    pub is_upgrade: bool,
    /// What the cluster has, for a person's Helm: then it sends no request, and `lookup` finds nothing. `None`: Helm reads the cluster,
    /// as the identity.
    pub capabilities: Option<Capabilities>,
}

/// What templates learn of a cluster, as `.Capabilities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of the cluster, such as `v1.36.0`.
    pub kube_version: String,
    /// API versions, and the kinds of each. Helm adds those that it has clients for.
    pub api_versions: BTreeMap<String, BTreeSet<String>>,
}

impl Identity {
    /// The user to impersonate; `None` for the agent itself.
    pub fn user(&self) -> Option<String> {
        match self {
            Self::Agent => None,
            Self::ServiceAccount { namespace, name } => {
                Some(format!("system:serviceaccount:{namespace}:{name}"))
            }
        }
    }
}

impl Request {
    /// How long Helm may run altogether: hooks run one after the other. Tests delay no deployment, so only each of them is limited.
    pub fn deadline(&self) -> Duration {
        let timeout = self.hook_timeout.min(MAX_HELM_RUN);
        let all = match &self.action {
            Action::Test(test) => timeout.saturating_mul(test.count.max(SLOW_HOOKS)),
            _ => timeout.saturating_mul(SLOW_HOOKS).min(MAX_HELM_RUN),
        };
        all.max(MIN_DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_may_take_its_whole_timeout() {
        let deadline = |count, minutes| {
            let request = Request {
                release: ReleaseKey::new("shop", "web"),
                identity: Identity::Agent,
                action: Action::Test(Test {
                    count,
                    ..Test::default()
                }),
                hook_timeout: Duration::from_mins(minutes),
            };
            request.deadline()
        };
        assert_eq!(deadline(12, 5), Duration::from_hours(1));
        assert_eq!(deadline(1, 5), Duration::from_mins(20));
        assert_eq!(deadline(1, 1), Duration::from_mins(10));
    }

    #[test]
    fn a_run_has_a_deadline_whatever_the_timeout_is() {
        let deadline = |seconds, action| {
            let request = Request {
                release: ReleaseKey::new("shop", "web"),
                identity: Identity::Agent,
                action,
                hook_timeout: Duration::from_secs(seconds),
            };
            request.deadline().as_secs()
        };
        let uninstall = || {
            Action::Uninstall(Uninstall {
                keeps_history: false,
                description: String::new(),
                runs_hooks: true,
                propagation: Propagation::default(),
            })
        };
        let tests = |count| {
            Action::Test(Test {
                count,
                ..Test::default()
            })
        };
        let max = MAX_HELM_RUN.as_secs();
        for (seconds, of_uninstall, of_tests) in [
            (1, 600, 600),
            (300, 1200, 3000),
            (5400, max, 54_000),
            (max, max, max * 10),
            (u64::MAX, max, max * 10),
        ] {
            assert_eq!(deadline(seconds, uninstall()), of_uninstall, "{seconds}");
            assert_eq!(deadline(seconds, tests(10)), of_tests, "{seconds}");
        }
    }
}
