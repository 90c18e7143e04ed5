//! What differs from Fleet's CRDs, and why. An entry that is no difference any more fails the test.

/// Kinds of Fleet that helmops does not serve.
pub const NOT_SERVED: &[(&str, &str)] = &[
    (
        "GitRepo",
        "it makes Bundles of files in Git, which are left to Fleet",
    ),
    (
        "GitRepoRestriction",
        "it is about GitRepos; Policies are what is newer",
    ),
    ("ImageScan", "it writes into the repositories of GitRepos"),
];

const LIFECYCLE: &str = "what helmops adds: the life cycle of releases";
const OBSERVED: &str = "tools that follow kstatus need the generation of a condition";
const ROLLOUT: &str = "what helmops adds: rollouts that wait between partitions, and stop after failures";
const RESOLUTION: &str = "what helmops adds: how the chart of a HelmOp is resolved";
const DELIVERY: &str = "what helmops adds: charts that travel through the management cluster";
const SOURCE: &str =
    "what helmops adds: charts in Git, and charts that travel through the management cluster";
const PASSED_ON: &str =
    "passed on to the pods of the agent as it is, and checked by the API server of its cluster";

/// The kind, the path, and the types in Fleet and here; then the reason. `*` is any kind, or any beginning of a path.
pub const DIFFERENCES: &[(&str, &str)] = &[
    ("* *lifecycle: - object", LIFECYCLE),
    ("* *.conditions[].observedGeneration: - integer", OBSERVED),
    ("* *rolloutStrategy.onFailure: - object", ROLLOUT),
    ("* *rolloutStrategy.partitions[].approval: - string", ROLLOUT),
    ("* *rolloutStrategy.partitions[].gate: - object", ROLLOUT),
    ("* *rolloutStrategy.partitions[].soak: - string", ROLLOUT),
    ("* *rolloutStrategy.soak: - string", ROLLOUT),
    ("Bundle status.partitions[].completedAt: - string", ROLLOUT),
    ("Bundle status.partitions[].gatePassedAt: - string", ROLLOUT),
    ("Bundle status.partitions[].gateSince: - string", ROLLOUT),
    ("Bundle status.completed: - object", ROLLOUT),
    ("Bundle status.rollout: - object", ROLLOUT),
    ("BundleDeployment status.failedDeploymentID: - string", ROLLOUT),
    (
        "Cluster status.window: - object",
        "the status shows which Schedules hold a cluster, and until when",
    ),
    (
        "Schedule spec.kind: - string",
        "windows in which nothing is changed",
    ),
    (
        "Bundle status.maxNew: - integer",
        "the status shows why no cluster gets a chart for the first time",
    ),
    (
        "ClusterRegistration status.conditions: - []object",
        "the status shows why a request is not granted",
    ),
    ("Cluster spec.agentAffinity.nodeAffinity: object -", PASSED_ON),
    ("Cluster spec.agentAffinity.podAffinity: object -", PASSED_ON),
    ("Cluster spec.agentAffinity.podAntiAffinity: object -", PASSED_ON),
    ("Cluster spec.agentEnvVars[].name: string -", PASSED_ON),
    ("Cluster spec.agentEnvVars[].value: string -", PASSED_ON),
    ("Cluster spec.agentEnvVars[].valueFrom: object -", PASSED_ON),
    ("Cluster spec.agentPullSecrets[].name: string -", PASSED_ON),
    ("Cluster spec.agentResources.claims: []object -", PASSED_ON),
    ("Cluster spec.agentResources.limits: {}int-or-string -", PASSED_ON),
    (
        "Cluster spec.agentResources.requests: {}int-or-string -",
        PASSED_ON,
    ),
    (
        "Cluster spec.agentSchedulingCustomization.podDisruptionBudget: object -",
        PASSED_ON,
    ),
    (
        "Cluster spec.agentSchedulingCustomization.priorityClass: object -",
        PASSED_ON,
    ),
    ("Cluster spec.agentTolerations[].effect: string -", PASSED_ON),
    ("Cluster spec.agentTolerations[].key: string -", PASSED_ON),
    ("Cluster spec.agentTolerations[].operator: string -", PASSED_ON),
    (
        "Cluster spec.agentTolerations[].tolerationSeconds: integer -",
        PASSED_ON,
    ),
    ("Cluster spec.agentTolerations[].value: string -", PASSED_ON),
    (
        "Cluster status.agent.version: - string",
        "the version of the agent of helmops",
    ),
    ("HelmOp spec.caBundle: - string", "the CA needs no Secret"),
    ("HelmOp spec.chartSource: - object", SOURCE),
    ("Policy helmOp.allowedDelivery: - []string", DELIVERY),
    ("Policy helmOp.contentSize: - string", DELIVERY),
    ("HelmOp spec.minAge: - string", RESOLUTION),
    ("HelmOp spec.onDigestChange: - string", RESOLUTION),
    ("HelmOp spec.semverFilter: - string", RESOLUTION),
    ("HelmOp status.observedGeneration: - integer", OBSERVED),
    (
        "HelmOp status.omitted: - object",
        "the status of many clusters is bounded, and says what it omits",
    ),
    ("HelmOp status.resolved: - []object", RESOLUTION),
    ("HelmOp status.rollout: - object", ROLLOUT),
    ("HelmOp status.seen: - []object", RESOLUTION),
    (
        "Policy allowedDependencyNamespaces: - []string",
        "what helmops adds: dependencies on other namespaces",
    ),
    (
        "Policy allowedRegistrationLabels: - []string",
        "what helmops adds: limits of what clusters that register themselves may claim to be",
    ),
    (
        "Policy allowedDownstreamResources: - []string",
        "what helmops adds: limits of what is copied",
    ),
];
