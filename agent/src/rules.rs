//! Which BundleDeployment an object belongs to, and the rules for its state.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_api::{BundleDeployment, Decoded, bundle_deployment::BundleDeploymentSpec};
use helmops_model::expression::ReadyExpressions;
use helmops_process::lock;
use helmops_release::names::SetId;

use crate::live::{Rules, RulesOf};

/// The BundleDeployments by the label of their objects.
#[derive(Clone)]
pub struct SetRules {
    scope: Arc<str>,
    by_set: Arc<Mutex<HashMap<String, Owner>>>,
}

/// The BundleDeployment of a set of objects.
#[derive(Clone)]
struct Owner {
    deployment: String,
    rules: Arc<Rules>,
}

impl SetRules {
    pub fn new(scope: &str) -> Self {
        Self {
            scope: scope.into(),
            by_set: Arc::default(),
        }
    }

    /// Follows a change of a BundleDeployment. Returns whether its rules have changed, so that its objects have to be observed again.
    pub fn changed(&self, name: &str, deployment: Option<&Decoded<BundleDeployment>>) -> bool {
        let set = SetId::new(name, &self.scope).hash();
        let Some(deployment) = deployment else {
            lock(&self.by_set).remove(&set);
            return false;
        };
        let spec = deployment.valid().map(|deployment| &deployment.spec);
        let options = spec.map(|spec| &spec.options);
        let ignored = options.and_then(|options| options.ignore.as_ref());
        let helm = options.and_then(|options| options.helm.as_ref());
        let rules = Rules {
            ignored: ignored
                .map(|ignored| ignored.conditions.clone())
                .unwrap_or_default(),
            waits_for_jobs: helm.is_some_and(|helm| helm.wait_for_jobs),
            expressions: spec.map(|spec| expressions(name, spec)).unwrap_or_default(),
        };
        let owner = Owner {
            deployment: name.to_owned(),
            rules: Arc::new(rules),
        };
        let rules = Arc::clone(&owner.rules);
        let before = lock(&self.by_set).insert(set, owner);
        before.is_some_and(|before| before.rules != rules)
    }

    /// The BundleDeployment of a set of objects.
    pub fn deployment(&self, set: &str) -> Option<String> {
        lock(&self.by_set).get(set).map(|owner| owner.deployment.clone())
    }

    /// The rules of the BundleDeployment of a set.
    pub fn of_set(&self) -> RulesOf {
        let rules = self.clone();
        Arc::new(move |set| lock(&rules.by_set).get(set).map(|owner| Arc::clone(&owner.rules)))
    }
}

/// The expressions of a BundleDeployment. Admission rejects invalid ones; without it, the rules of the kinds apply.
fn expressions(name: &str, spec: &BundleDeploymentSpec) -> ReadyExpressions {
    let wait = spec
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.wait.as_ref());
    let expressions = wait.map(|wait| &*wait.expressions).unwrap_or_default();
    ReadyExpressions::parse(expressions).unwrap_or_else(|(field, error)| {
        tracing::warn!(
            bundledeployment = name,
            field,
            %error,
            "ignoring the expressions of lifecycle.wait: one of them is invalid"
        );
        ReadyExpressions::default()
    })
}
