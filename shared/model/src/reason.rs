//! Reasons: the closed list of outcomes.

use std::fmt;

/// Declares the closed list of reasons, in groups, with their names, meanings and remedies.
macro_rules! reasons {
    ($($set:ident $group:literal { $($(#[doc = $doc:literal])+ $name:ident: $remedy:literal,)* })*) => {
        /// Why an object is in its state. The same reason is used in conditions, denials, events, logs and metric labels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($($(#[doc = $doc])+ $name,)*)*
        }

        impl Reason {
            /// Every reason, in the order of their declaration.
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            $(
                #[doc = $group]
                pub const $set: &[Self] = &[$(Self::$name,)*];
            )*

            /// The groups, each with its heading.
            pub const GROUPS: &[(&str, &[Self])] = &[$(($group, Self::$set),)*];

            /// The name, as in a condition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)*)*
                }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$name => concat!($($doc,)+).trim_ascii(),)*)*
                }
            }

            /// What to do about it; empty if nothing is wrong.
            pub const fn remedy(self) -> &'static str {
                match self {
                    $($(Self::$name => $remedy,)*)*
                }
            }
        }
    };
}

reasons! {
    VALIDATION "Validation: admission denies the HelmOp, and the controller does not accept it" {
        /// `spec.helm` is missing.
        HelmRequired: "Name a chart: `spec.helm.repo` and `spec.helm.chart`, an archive's URL in `spec.helm.chart`, or a Git repository or a bucket in `spec.chartSource`.",
        /// The chart is missing.
        ChartRequired: "Name it in `spec.helm.chart`.",
        /// The repository is missing.
        RepoRequired: "Give the repository's URL in `spec.helm.repo`, or an archive's URL in `spec.helm.chart`.",
        /// A chart is named where the repository, or another source, names it already.
        ChartForbidden: "Leave `spec.helm.chart` out: an `oci://` URL, or `spec.chartSource`, names the chart itself.",
        /// The chart is named by something that no index has: a path, or the reference of a registry.
        InvalidChartName: "Give the name of the chart as the index of the repository lists it, or of a Git repository the path of its folder.",
        /// A repository is named beside a chart archive, or beside a Git repository.
        RepoForbidden: "Leave `spec.helm.repo` out, or name the chart in place of the archive's URL or of the source in `spec.chartSource`.",
        /// A version, or a field that selects one, is given for a chart archive or for a chart in Git.
        VersionForbidden: "Leave the field out that the message names: an archive has one version, and `spec.chartSource` selects that of a chart in Git or in a bucket.",
        /// A URL is malformed or of a scheme that charts are not fetched by.
        InvalidURL: "Start it with `https://`, `http://` or `oci://`, that of a Git repository also with `ssh://`, and fix what the message points at.",
        /// The version is neither a version nor a range of versions, or a reference of Git is invalid.
        InvalidVersion: "Use a version such as `1.2.3`, a range such as `^1.2` or `1.x`, or leave it empty for the latest; for Git do what the message says.",
        /// The polling interval is not a duration that can be used.
        InvalidPollingInterval: "Use a Go duration such as `15m`, or `0s` to disable polling.",
        /// The minimum age of a version is not a duration.
        InvalidMinAge: "Use a Go duration such as `24h` or `72h`, or remove it.",
        /// `spec.chartSource.deliver` is unknown, or cannot be used for the chart.
        InvalidDelivery: "Use `Direct` or `Content`; with `Content`, name the chart in a repository or registry instead of the URL of an archive.",
        /// The name of the HelmOp, or a name that it refers to, is one that Kubernetes does not allow.
        InvalidName: "Use lower case letters, digits, `-` and `.`, as the message says for the field.",
        /// The release name is one that Helm does not allow.
        InvalidReleaseName: "Use at most 53 lower case letters, digits, `-` and `.`.",
        /// A label or annotation is one that Kubernetes does not allow.
        InvalidLabel: "See what the message points at; a value has at most 63 characters.",
        /// A label selector is one that Kubernetes does not allow.
        InvalidSelector: "Use `In` and `NotIn` with values, `Exists` and `DoesNotExist` without.",
        /// The HelmOp depends on itself, directly or over other HelmOps.
        InvalidDependency: "Remove one of the dependencies that the message names: the HelmOp would wait for itself.",
        /// A number or percentage of the rollout is neither.
        InvalidRollout: "Use a number such as `5`, or a percentage such as `25%`.",
        /// A downstream resource is neither a Secret nor a ConfigMap.
        InvalidDownstreamResource: "Use `kind: Secret` or `kind: ConfigMap`.",
        /// A part of `spec.lifecycle` is invalid, or contradicts another one or the options of Helm.
        InvalidLifecycle: "Do what the message says: it names both fields of a contradiction.",
        /// A CEL expression of `spec.lifecycle` is invalid or exceeds a limit.
        InvalidExpression: "Correct the expression at the position that the message names; [lifecycle.md](lifecycle.md) has examples.",
        /// A list, a text or the whole spec is larger than allowed.
        LimitExceeded: "Shorten it as the message says, or make several HelmOps of it; the limits are in [fields.md](fields.md).",
        /// Helm values, or where they come from, cannot be used.
        InvalidValues: "Do what the message says: name the object of `valuesFrom`, or make the values flatter (100 levels are allowed).",
        /// A field of a Schedule is missing or invalid, or its windows overlap.
        InvalidSchedule: "Do what the message says: it names the field, its value and the fix; [schedules.md](schedules.md) has examples.",
        /// The object does not decode.
        DecodeError: "The message names the field and its value; `kubectl explain helmop.spec` shows what is expected.",
    }
    POLICY "Policies: admission denies the HelmOp, and the controller neither resolves nor deploys its chart" {
        /// A Policy of the namespace does not allow it, or cannot be read.
        PolicyViolation: "Use what the message lists as allowed, or have it added by the owner of the Policy (`kubectl get policies.fleet.cattle.io`).",
    }
    RESOLUTION "Resolution: the chart has no version" {
        /// The Secret that `helmSecretName` or a `secretRef` names does not exist.
        SecretNotFound: "Create the Secret in the namespace of the object, or correct the name in `spec`. The object is reconciled again immediately.",
        /// The Secret that `helmSecretName` or a `secretRef` names lacks a key or holds something unusable.
        InvalidSecret: "Put the keys into it that [charts.md](charts.md) lists, or [alerts.md](alerts.md) for AlertProviders. The object is reconciled again immediately.",
        /// The repository rejects the credentials, or requires some.
        Unauthorized: "Correct the user name and password in the Secret; if there is no Secret, create one and name it in `spec.helmSecretName`, or for Git and buckets in `secretRef` of `spec.chartSource`.",
        /// The credentials lack permissions in the repository.
        Forbidden: "Grant the user permission to read or pull the chart.",
        /// There is no repository at the URL.
        RepositoryNotFound: "Correct `spec.helm.repo`, or the source in `spec.chartSource`: `index.yaml` is directly below the URL of a Helm repository. For a registry start it with `oci://`, and end it with the name of the chart.",
        /// The repository responds with an error.
        RepositoryError: "Check the server, or the proxy in front of it. Requests are retried with backoff.",
        /// The certificate of the repository, or the key of a Git server, is not trusted.
        CertificateError: "Put the CA into `cacerts` of the Secret, or the lines of `ssh-keyscan` into `known_hosts`, renew the certificate, correct the host, or give `tls.crt` and `tls.key`.",
        /// The host name of the repository cannot be resolved.
        DNSLookupFailed: "Correct the host name, or check the DNS of the cluster.",
        /// The repository cannot be reached.
        ConnectionFailed: "Correct the port, start the server, allow the connection in the network, or configure the proxy of the controller (`HTTPS_PROXY`).",
        /// The repository did not respond in time.
        Timeout: "Check the server and the network. Requests are retried with backoff.",
        /// The repository limits requests.
        RateLimited: "Use credentials, or poll less often. Requests are retried after the time that the server names (`Retry-After`).",
        /// The repository requires credentials, but those in the Secret are for another host, or are not sent unencrypted.
        CredentialsNotForHost: "Create a separate HelmOp, or use a Secret with credentials for each host (`.dockerconfigjson`); for plain HTTP set its key `basicHTTP`.",
        /// The response of the repository is larger than allowed.
        ResponseTooLarge: "Correct `spec.helm.repo` if it is not a Helm repository; the limits are in [charts.md](charts.md).",
        /// The object is not stored, because the objects of a namespace use more than their share of the memory of the controller. Used in events.
        MemoryExceeded: "Delete objects of the namespace that the message names, make them smaller, or raise `--memory-limit`; a `ResourceQuota` limits their number, see [multi-tenancy.md](multi-tenancy.md). The object is read as soon as there is memory.",
        /// The memory for reading responses is used up, in total or for the namespace.
        Busy: "Nothing: it is retried. If it persists, the indexes, tag lists or Secrets that HelmOps of the namespace use are too large.",
        /// The response of the repository is not an index.
        InvalidIndex: "Correct `spec.helm.repo`, or publish the index again.",
        /// The repository has no chart of that name.
        ChartNotFound: "Correct `spec.helm.chart`.",
        /// No version of the chart satisfies the request.
        NoMatchingVersion: "Correct `spec.helm.version`, or publish such a version; the message lists the nearest ones.",
        /// Only pre-releases of the chart satisfy the range, and it does not include pre-releases.
        OnlyPrereleases: "Use the range that the message suggests, or publish a release.",
    }
    DOWNLOAD "Download: the agent has no archive of the chart" {
        /// The archive has another digest than the one that was recorded when its version was resolved.
        DigestMismatch: "Publish the chart under a new version: one that changes after its publication is not deployed.",
        /// The archive is not a chart, is damaged, or contains what no chart needs.
        InvalidChart: "Publish the chart again with `helm package`; the message has the path in the archive and the limit.",
        /// The Content with the files of the Bundle, or a part of it, does not exist in the management cluster.
        ContentMissing: "Have the controller write it again: change a label of the Bundle. It is retried with backoff.",
        /// The files of the Bundle are damaged, too large, or make no chart.
        InvalidFiles: "Do what the message says: correct the file that it names, or have the files written again.",
        /// The disk is full, or cannot be read or written.
        StorageError: "Free space on the volume of the agent, or make its cache smaller. It is retried with backoff.",
    }
    DELIVERY "Delivery: the Bundle or a BundleDeployment is not written" {
        /// The chart has too many files or bytes to be kept in the management cluster (`spec.chartSource.deliver: Content`).
        ChartTooLarge: "Publish a smaller chart, raise the memory of the controller if the message names it, or use `spec.chartSource.deliver: Direct` with a chart of a repository or registry.",
        /// The charts in the management cluster take as many bytes as they may, in total or for the namespace.
        ContentQuotaExceeded: "Delete HelmOps with `spec.chartSource.deliver: Content`, raise `--content-size` of the controller or `helmOp.contentSize` of the Policy, or use `spec.chartSource.deliver: Direct` with a chart of a repository or registry.",
        /// `spec.chartSource.deliver: Content` needs the bundle controller of helmops.
        ContentUnsupported: "Run the controller with `--controllers=helmop,bundle`, see [standalone.md](standalone.md), or use `spec.chartSource.deliver: Direct`.",
        /// A Content object of the management cluster cannot be used: it was changed, or belongs to something else.
        InvalidContent: "Delete the Content that the message names; it is written again.",
        /// A Bundle of that name exists and belongs to something else.
        BundleConflict: "Rename the HelmOp, or delete the Bundle or its owner.",
        /// The Bundle contains files, which helmops does not deploy.
        UnsupportedBundle: "Leave such Bundles to Fleet (GitRepos): see [standalone.md](standalone.md).",
        /// The namespace of a cluster may belong to another one, so nothing is written to it.
        NamespaceConflict: "Do what the message says: rename a Cluster, or set the annotations of the namespace that name its Cluster: see [standalone.md](standalone.md#namespace-conflicts).",
        /// The CRD in the cluster lacks `lifecycle`, so releases behave as without it. Used in events.
        LifecycleUnsupported: "Install the CRDs of helmops for the kind that the message names, or remove `spec.lifecycle`.",
        /// A request to the API server failed.
        APIError: "Nothing: it is retried. If the object is `Stalled`, the API server rejects what is written: correct what its message names, such as an admission policy. It is retried, more and more slowly.",
    }
    IMPORT "Import: the agent of a Cluster with `spec.kubeConfigSecret` is not installed" {
        /// The controller does not know under which address agents reach this API server, or their image has no registry.
        ImportUnconfigured: "Set `--api-server-url` of the controller, or the key `apiServerURL` of the Secret with the kubeconfig; or `--agent-image` with the registry: see [agent.md](agent.md#import-clusters).",
        /// The Secret with the kubeconfig must not be read, or holds no kubeconfig that can be used.
        KubeConfigInvalid: "Correct what the message names. The Cluster is reconciled again immediately.",
        /// The kubeconfig has something that would act in the controller itself, such as a command or a file, or does not verify the server.
        KubeConfigUnsafe: "Put a kubeconfig into the Secret that contains its CA and its credentials: a token, or a client certificate and its key.",
        /// A field of the Cluster about its agent is invalid.
        InvalidAgentOptions: "Correct the field that the message names.",
        /// Another agent runs on the cluster, or its agent belongs to another Cluster.
        ImportRefused: "Do what the message says, on the cluster that it names. It is tried again, more and more slowly.",
        /// The kubeconfig leads to another cluster than before.
        ClusterMoved: "Correct the kubeconfig, or confirm the move with the annotation in the message.",
        /// The API server of the cluster cannot be reached, or rejects a request.
        ImportFailed: "Check the address and the credentials in the kubeconfig, and the connection of the controller to it. It is retried with backoff.",
    }
    AGENT "Agent: a release is not deployed, or its objects are not known" {
        /// Helm failed. The metric `helmops_agent_helm_failures_total` has the reason.
        HelmFailed: "Do what the message says; it is that of Helm. It is retried, more and more slowly.",
        /// Something that a deployment needs is missing: values, an object of `valuesFrom`, a ServiceAccount, a namespace.
        DeploymentBlocked: "Create what the message names. It is noticed by itself within minutes, immediately if it is in `dependsOn`.",
        /// A BundleDeployment is gone, and it is not certain that it was deleted, so its release is not removed.
        RemovalRefused: "Do what the message says; [agent.md](agent.md#behaviour) has the checks. If BundleDeployments are missing, restore them.",
        /// A release of the same name belongs to another owner, or the agent has not deployed it.
        ForeignRelease: "Choose another `releaseName`, or set `takeOwnership` to take the release over. If the BundleDeployment is gone, run the command that the message names.",
        /// Another client is changing the release.
        ReleaseBusy: "Wait for the other Helm. If it was interrupted, remove its record as the message says.",
        /// The record of a release cannot be used.
        InvalidRecord: "Restore or delete the Secret that the message names.",
        /// The objects of a release cannot be compared with its manifest.
        MonitorFailed: "The message has the error of the API server. It is retried.",
    }
    AGENT_EVENTS "Events of the agent: what it did with a release" {
        /// A release was installed.
        Installed: "",
        /// A release was upgraded.
        Upgraded: "",
        /// A release failed or did not become ready in time, and was rolled back, since `helm.atomic` or `lifecycle` says so.
        RolledBack: "The message says what failed. Correct it; the next change is deployed as usual.",
        /// A release was uninstalled, or its records were deleted and its objects kept. As a warning: an attempt failed, and `helm.atomic` or `lifecycle` says so.
        Uninstalled: "If it is a warning, the message says what failed. Correct it; the next change is deployed as usual.",
        /// Objects that the record of a release has are not deleted or restored: they belong to another release or client now, or the cluster does not have their kind any more.
        ObjectsKept: "Nothing if another release has taken the objects over. Otherwise delete those yourself that nothing needs. To give an object back to the release, set its annotations `meta.helm.sh/release-name` and `meta.helm.sh/release-namespace` again.",
        /// A release whose BundleDeployment is gone waits for others that depend on it, or is uninstalled although they are still there.
        DependentsRemain: "Nothing, as long as it waits. Otherwise, if those that the message names still need it, deploy it again, or delete them.",
        /// A patch of `lifecycle.postRenderers` has changed nothing: no object of the chart fulfils its `target`.
        PatchMatchedNothing: "Correct the `target` of the patch that the message names, or remove the patch. `helm get manifest` on the cluster shows the objects.",
        /// Values of a ConfigMap or Secret that `valuesFrom` names have changed, and the release is upgraded.
        ValuesChanged: "",
        /// The retries that `lifecycle` grants are used up: from now on, there is one attempt an hour.
        RetriesExhausted: "Correct what failed: a change is deployed immediately. Or request an attempt, see [lifecycle.md](lifecycle.md#requests).",
        /// `lifecycle.suspend` is set, and the release is left as it is. Of an Alert, an AlertProvider or a Receiver: `spec.suspend` is set.
        Suspended: "",
        /// The release is not suspended any more.
        Resumed: "",
        /// An object of a release was changed or deleted by another client.
        DriftDetected: "Undo the change, set `correctDrift.enabled` or `lifecycle.drift.mode`, or ignore the field in `diff.comparePatches` or `lifecycle.drift.ignore`.",
        /// A changed object is again as the chart has it.
        DriftCorrected: "",
    }
    LIFECYCLE "Life cycle: conditions of BundleDeployments with `spec.lifecycle`, see [lifecycle.md](lifecycle.md); results of tests in events too" {
        /// The release was installed, and is ready if that is awaited.
        InstallSucceeded: "",
        /// The installation failed, or the release was not ready in time.
        InstallFailed: "The message has the cause, what was done about it, and when the next attempt is.",
        /// The release was upgraded, and is ready if that is awaited.
        UpgradeSucceeded: "",
        /// The upgrade failed, or the release was not ready in time.
        UpgradeFailed: "The message has the cause, what was done about it, and when the next attempt is.",
        /// The tests of the release have not run yet.
        AwaitingTests: "Wait until the objects of the release are ready.",
        /// The chart has no tests, or the filters leave none.
        NoTests: "",
        /// The tests of the release succeeded.
        TestSucceeded: "",
        /// A test of the release failed.
        TestFailed: "The message has the test and the end of its log.",
        /// A failed upgrade was rolled back.
        RollbackSucceeded: "",
        /// A failed upgrade could not be rolled back.
        RollbackFailed: "The message has the error of Helm. The rollback is tried again.",
        /// A failed attempt was uninstalled.
        UninstallSucceeded: "",
        /// The release failed on more clusters than before. Used in events of HelmOps.
        ReleasesFailed: "The message has a cluster with its failure, and `status.lifecycle` the number of clusters. For the others, see their BundleDeployments.",
    }
    NOTIFICATIONS "Notifications: Alerts, AlertProviders and Receivers, see [alerts.md](alerts.md)" {
        /// A field of an Alert, an AlertProvider or a Receiver is missing or invalid.
        InvalidNotification: "Do what the message says: it names the field, its value and what is allowed.",
        /// The Alert or Receiver selects objects of a namespace that it must not select from.
        NamespaceForbidden: "Create it in the namespace of the objects or in that of helmops, or name its namespace in `--privileged-namespaces` of the notifier.",
        /// The AlertProvider that the Alert names does not exist.
        ProviderNotFound: "Create it in the namespace of the Alert, or correct `spec.providerRef.name`.",
        /// The AlertProvider that the Alert names is not ready.
        ProviderNotReady: "See the condition `Ready` of the AlertProvider.",
        /// The address did not accept a message.
        DeliveryFailed: "The message has the response. It is retried, more and more slowly; a change of the AlertProvider or its Secret starts again immediately.",
        /// The Alert selects more objects than it can report.
        TooManyObjects: "Make several Alerts of it: split `spec.eventSources` by namespaces or labels.",
        /// A Receiver of type `gcr` refuses all requests, because the keys with which Google signs were never fetched.
        GoogleKeysNotFetched: "Check `--google-keys-url` of the notifier and its connection to that host; the message has the error. It is retried every minute.",
        /// A push did not poll HelmOps that it concerns, because the API server, or a policy or webhook of yours, rejects their change.
        PollNotRequested: "The message has the HelmOps and the error. Correct them, and request a poll with `kubectl helmop poll`.",
        /// An object whose failure was reported was deleted, or is not selected any more. Used in messages.
        Deleted: "",
    }
    REGISTRATION "Registration: a cluster that registers itself, see [clusters](cli/clusters.md#clusters-that-register-themselves)" {
        /// The agent has access to its Cluster.
        Registered: "",
        /// The agent of an existing Cluster was replaced by one that has registered itself. Used in events.
        ClusterTakenOver: "If you did not install the agent again, find out who has used a token of the workspace: delete the Cluster and the tokens.",
        /// The Cluster has an agent that still reports, or did until a few minutes ago.
        AgentReports: "Wait, if you have installed the agent again. Otherwise another cluster has the same client ID: the message says how to confirm the takeover.",
        /// The request of an agent cannot be granted, or a token cannot be made.
        RegistrationRefused: "Do what the message says.",
        /// Labels that an agent has requested are left out. Used in events.
        LabelsDropped: "Label the Cluster yourself, or allow the label in a Policy (`allowedRegistrationLabels`).",
    }
    STATE "State" {
        /// The HelmOp is valid and its Bundle is up to date.
        Accepted: "",
        /// The last poll for newer versions succeeded.
        Polled: "",
        /// A newer version of the chart was found and is being deployed. Used in events, under the name that Fleet uses.
        GotNewChartVersion: "",
        /// A version or a tag of the chart was published again with another content; what is deployed stays.
        DigestChanged: "Deploy it with `spec.onDigestChange: Follow`, or publish it under a new version. If it should not have changed, find out who replaced it.",
        /// The repository has a newer release, which the range of the HelmOp does not allow.
        NewVersionOutsideRange: "Read the notes of the chart, and allow the version in `spec.helm.version`.",
        /// The repository marks the deployed version as deprecated.
        ChartDeprecated: "Look in the notes of the chart for what replaces it.",
        /// The version that was deployed is not in the repository any more: its publisher has withdrawn it.
        ChartWithdrawn: "Find out why, such as a security problem. The message says what is deployed in place of it.",
        /// The poll for newer versions failed. Used in events, under the name that Fleet uses.
        FailedToGetNewChartVersion: "See the condition `Polled`.",
        /// Every targeted cluster has the chart and is ready.
        Ready: "",
        /// Clusters are being updated.
        Progressing: "Wait; `status.resources` has the state of each cluster.",
        /// Some clusters are not ready.
        NotReady: "See `status.resources` and the conditions of the Bundle for the clusters and their messages.",
        /// The rollout is halted: what is rolled out has failed on more clusters than allowed.
        RolloutHalted: "Correct the chart or its values: the next change is rolled out. Or go on with the command in the message.",
        /// What the HelmOp wants has failed on more clusters than allowed, so they have what was completed before.
        RolloutRolledBack: "Look at the Events `ReleasesFailed`. Publish another version or correct the values: that is rolled out. Or try again with the command in the message.",
        /// A partition of the rollout begins only with the approval of a person.
        AwaitingApproval: "Look at the clusters that have it already, and run the command in the message.",
        /// The gate of a partition of the rollout cannot be evaluated, so it stays closed.
        GateFailed: "Correct what the message names: `spec.rolloutStrategy.partitions[].gate`, its endpoint or its Secret.",
        /// No cluster is targeted.
        NoClusters: "Check the selectors of `spec.targets` against `kubectl get clusters --show-labels`, and which targets have `doNotDeploy`.",
        /// The agent was installed on the cluster of a kubeconfig.
        Imported: "",
        /// The agent is being installed on the cluster of a kubeconfig.
        Importing: "Wait: at most eight clusters are imported at a time.",
        /// The agent of a cluster reports no more: the states of its deployments are those of its last report.
        AgentSilent: "Check the agent and its connection to this API server: see [agent.md](agent.md#silent-clusters).",
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
