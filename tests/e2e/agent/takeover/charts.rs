//! Charts that Fleet's agent has deployed, of many kinds.

use serde_json::{Value, json};

/// The value of [`CONFIG`] in the chart.
pub const MSG: &str = "hello";
/// What charts contain whose content does not matter; `RELEASE` stands for the name of the release.
const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: RELEASE-config}\ndata: {msg: hello}\n";
/// A workload without pods is ready without a node.
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: RELEASE}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: RELEASE}}\n  template:\n    metadata: {labels: {app: RELEASE}}\n    spec: {containers: [{name: web, image: web, ports: [{containerPort: 80}]}]}\n";
const STATEFUL_SET: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: RELEASE}\nspec:\n  replicas: 0\n  serviceName: web\n  selector: {matchLabels: {app: RELEASE}}\n  template:\n    metadata: {labels: {app: RELEASE}}\n    spec: {containers: [{name: web, image: web}]}\n";
const CRON_JOB: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: RELEASE}\nspec:\n  schedule: '@yearly'\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: RELEASE}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";
const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: RELEASE}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: RELEASE}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: RELEASE}\nsubjects: [{kind: User, name: a, apiGroup: rbac.authorization.k8s.io}]\n";
const CLUSTER_ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: RELEASE}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: RELEASE}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: RELEASEs.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: RELEASE, plural: RELEASEs}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: RELEASE-hook\n  annotations: {helm.sh/hook: pre-install}\n";

/// How Fleet's agent, or an older one with Helm 3, has left a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// One revision, with server-side apply.
    Installed,
    /// Two revisions.
    Upgraded,
    /// One revision of Helm 3: with client-side apply, which the record does not mention.
    Helm3,
}

/// A chart that is deployed.
pub struct Deployed {
    /// Of the BundleDeployment, without the word of the test.
    pub name: &'static str,
    /// Its objects, with `RELEASE` in their names.
    pub objects: String,
    /// What its spec has besides the chart.
    pub over: Value,
    pub history: History,
}

/// Twenty of them.
pub fn charts() -> Vec<Deployed> {
    let of = |name, objects: &str| Deployed {
        name,
        objects: objects.to_owned(),
        over: json!({}),
        history: History::Installed,
    };
    let with = |name, over| Deployed {
        over,
        ..of(name, CONFIG)
    };
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: RELEASE-own}\ndata: {password: cw==}\n";
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: RELEASE}\n";
    vec![
        with("config", json!({ "correctDrift": { "enabled": true } })),
        of("secret", secret),
        of("service", SERVICE),
        of("account", account),
        of("role", ROLE),
        of("clusterrole", CLUSTER_ROLE),
        of("policy", POLICY),
        of("cronjob", CRON_JOB),
        of("workload", DEPLOYMENT),
        of("stateful", STATEFUL_SET),
        of("definition", CRD),
        of("several", &[CONFIG, SERVICE, DEPLOYMENT].join("---\n")),
        of("hook", &[CONFIG, HOOK].join("---\n")),
        of("empty", ""),
        Deployed {
            history: History::Helm3,
            ..of("old", CONFIG)
        },
        Deployed {
            history: History::Upgraded,
            ..of("upgraded", CONFIG)
        },
        of("dotted.name", CONFIG),
        with("kept", json!({ "options": { "keepResources": true } })),
        with(
            "impersonated",
            json!({ "options": { "serviceAccount": "deployer" } }),
        ),
        with("forced", json!({ "options": { "forceSyncGeneration": 3 } })),
    ]
}
