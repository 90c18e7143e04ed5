//! Which BundleDeployment an object belongs to, and what it ignores.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_api::{BundleDeployment, Decoded};
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
    ignored: Rules,
}

impl SetRules {
    /// No BundleDeployments yet.
    pub fn new(scope: &str) -> Self {
        Self {
            scope: scope.into(),
            by_set: Arc::default(),
        }
    }

    /// Follows a change of a BundleDeployment.
    pub fn changed(&self, name: &str, deployment: Option<&Decoded<BundleDeployment>>) {
        let set = SetId::new(name, &self.scope).hash();
        let Some(deployment) = deployment else {
            lock(&self.by_set).remove(&set);
            return;
        };
        let ignore = deployment
            .valid()
            .and_then(|deployment| deployment.spec.options.ignore.as_ref());
        let ignored: Rules = ignore.map_or_else(|| [].into(), |ignore| ignore.conditions.clone().into());
        let owner = Owner {
            deployment: name.to_owned(),
            ignored,
        };
        lock(&self.by_set).insert(set, owner);
    }

    /// The BundleDeployment of a set of objects.
    pub fn deployment(&self, set: &str) -> Option<String> {
        lock(&self.by_set).get(set).map(|owner| owner.deployment.clone())
    }

    /// What the BundleDeployment of a set ignores.
    pub fn of_set(&self) -> RulesOf {
        let rules = self.clone();
        Arc::new(move |set| {
            lock(&rules.by_set)
                .get(set)
                .map(|owner| Arc::clone(&owner.ignored))
        })
    }
}
