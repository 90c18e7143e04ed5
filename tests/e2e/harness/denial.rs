//! Admission policies of a user, which deny requests.

use anyhow::ensure;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::{SOON, run};

/// An admission policy that denies requests in a namespace.
pub struct Denial {
    cluster: Kubectl,
    name: String,
}

/// What it denies.
pub struct Rule<'r> {
    /// The API group.
    pub group: &'r str,
    /// The plural name of the kind.
    pub resource: &'r str,
    /// Such as `CREATE`.
    pub operation: &'r str,
    /// What is allowed, in CEL.
    pub allowed: &'r str,
    /// What the user who is denied reads.
    pub message: &'r str,
}

impl Denial {
    /// Denies it from now on. `probe` is a request that it denies, with its input.
    pub async fn start(
        cluster: &Kubectl,
        namespace: &str,
        rule: &Rule<'_>,
        probe: (&[&str], &Value),
    ) -> Self {
        let name = format!("{namespace}-{}", rule.resource);
        let resources = json!({
            "apiGroups": [rule.group], "apiVersions": ["*"], "resources": [rule.resource], "operations": [rule.operation],
        });
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
        let policy = json!({
            "matchConstraints": { "resourceRules": [resources], "namespaceSelector": selector },
            "validations": [{ "expression": rule.allowed, "message": rule.message }],
        });
        let binding = json!({ "policyName": name, "validationActions": ["Deny"] });
        for (kind, spec) in [
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        ] {
            let object = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
            });
            cluster.apply(&object.to_string()).await.unwrap().ok().unwrap();
        }
        let (arguments, input) = probe;
        let kubectl = cluster.in_namespace(namespace);
        eventually("the API server to enforce it", SOON, async || {
            let denied = kubectl.run_with_input(arguments, &input.to_string()).await?;
            ensure!(denied.stderr.contains(rule.message), "{denied:?}");
            Ok(())
        })
        .await
        .unwrap();
        Self {
            cluster: cluster.clone(),
            name,
        }
    }

    /// Allows it again.
    pub async fn end(self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            run(&self.cluster, &["delete", kind, &self.name]).await;
        }
    }
}
