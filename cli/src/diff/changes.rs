//! What changes on each cluster: options and values of its BundleDeployment.

use std::time::{Duration, Instant};

use gotmpl::Budget;
use helmops_api::{
    Bundle, BundleDeployment, BundleDeploymentOptions, HelmOp, Lifecycle, PrunedFields,
    bundle::BundleHelmOptions, labels,
};
use helmops_core::{
    bundle::{self, BundleInputs, Plan, RequestedCharts},
    targeting::{self, Group as ClusterGroups, Member, deployment::SecretValues},
};
use helmops_fetch::ResolveContext;
use kube::Client;
use serde_json::{Value, json};

use super::read::Workspace;
use crate::{
    charts::subject::rancher_ca,
    clusters::agent_namespace,
    create::yaml,
    failure::{Failure, causes},
    render::resolver,
};

/// The processor time for the values of all clusters: more than the controller has.
const MAX_TIME: Duration = Duration::from_mins(1);

/// What a HelmOp changes.
#[derive(Debug, Default)]
pub struct Changes {
    /// For each cluster, in the order of their names.
    pub all: Vec<Change>,
    /// What is not known.
    pub warnings: Vec<String>,
}

/// What changes on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub cluster: String,
    /// The name of the BundleDeployment.
    pub deployment: String,
    pub agent_namespace: String,
    /// What is deployed now, as YAML; empty for nothing.
    pub before: String,
    /// What will be deployed, as YAML; empty for nothing.
    pub after: String,
    /// How it will be deployed, with its life cycle; `None` if it is removed.
    pub options: Option<BundleDeploymentOptions>,
    /// Its values, as JSON.
    pub values: String,
}

/// Clusters with the same change.
#[derive(Debug, PartialEq)]
pub struct Group<'c> {
    /// Their names.
    pub clusters: Vec<&'c str>,
    /// What happens.
    pub what: &'static str,
    /// As of [`Change::before`].
    pub before: &'c str,
    /// As of [`Change::after`].
    pub after: &'c str,
}

/// The changes, with clusters that have the same one together. Clusters without a change are in none.
pub fn grouped(changes: &[Change]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for change in changes.iter().filter(|change| change.before != change.after) {
        let known = groups
            .iter_mut()
            .find(|group| group.before == change.before && group.after == change.after);
        match known {
            Some(group) => group.clusters.push(&change.cluster),
            None => groups.push(Group {
                clusters: vec![&change.cluster],
                what: match (change.before.is_empty(), change.after.is_empty()) {
                    (true, _) => "new",
                    (_, true) => "removed",
                    (false, false) => "changed",
                },
                before: &change.before,
                after: &change.after,
            }),
        }
    }
    groups
}

impl Workspace {
    /// What the controller would write for a HelmOp. Its defaults are set, as Policies have them.
    ///
    /// # Errors
    /// If the HelmOp is invalid or forbidden, or its version cannot be resolved.
    pub async fn changes(
        &self,
        client: &Client,
        helmop: &mut HelmOp,
        only: &[String],
    ) -> Result<Changes, Failure> {
        *helmop = self.policies.apply_defaults(helmop).into_owned();
        let name = helmop.metadata.name.clone().unwrap_or_default();
        let bundle = self.desired_bundle(client, helmop, &name).await?;
        let Some(bundle) = bundle.as_ref().or(self.bundle.as_ref()) else {
            return Ok(Changes::default());
        };
        self.deployments(bundle, only)
    }

    /// The Bundle, if it changes.
    async fn desired_bundle(
        &self,
        client: &Client,
        helmop: &HelmOp,
        name: &str,
    ) -> Result<Option<Bundle>, Failure> {
        let valid = self
            .policies
            .accept(helmop)
            .map_err(|errors| Failure::unable(format!("HelmOp {name:?} is not accepted: {errors}")))?;
        if let Some(bundle) = &self.bundle {
            bundle::check_owner(bundle)
                .map_err(|error| Failure::because(format!("HelmOp {name:?} is not accepted"), &error))?;
        }
        let mut charts = RequestedCharts::of(&valid, self.bundle.as_ref());
        if !charts.have_versions() {
            let unable = |error: &dyn std::error::Error| {
                Failure::unable(format!(
                    "cannot resolve the version of HelmOp {name:?}: {}",
                    causes(error)
                ))
            };
            let (resolver, metrics) = resolver()?;
            let wanted: std::collections::BTreeSet<_> = charts
                .as_slice()
                .iter()
                .map(|chart| chart.request.chart.to_owned())
                .collect();
            let context = ResolveContext {
                client,
                metrics: &metrics,
                ca_certificates: &[],
                interest: &|_, _| wanted.clone(),
                since: Instant::now(),
            };
            let mut resolving = resolver.chart_resolver(context, valid.helmop, &valid.chart);
            for chart in charts.as_mut_slice() {
                if chart.version.is_none() {
                    let version = resolving.resolve(chart.request).await;
                    chart.version = Some(version.map_err(|error| unable(&error))?);
                }
            }
        }
        // These follow from the cluster and not from the HelmOp.
        let existing = self.bundle.as_ref();
        let handled =
            existing.and_then(|bundle| labels::annotation(&bundle.metadata, labels::LAST_HANDLED_POLL));
        let inputs = BundleInputs {
            charts: &charts,
            handled_poll: handled,
            ca_bundle: rancher_ca(existing, &self.live_ca_bundle),
            pruned: &PrunedFields::default(),
            traceparent: None,
        };
        match bundle::plan(&valid, existing, inputs) {
            Ok(Plan::Nothing) => Ok(None),
            Ok(Plan::Create(bundle) | Plan::Replace(bundle)) => Ok(Some(*bundle)),
            Err(error) => Err(Failure::because(format!("HelmOp {name:?}"), &error)),
        }
    }

    /// The BundleDeployments of a Bundle.
    fn deployments(&self, bundle: &Bundle, only: &[String]) -> Result<Changes, Failure> {
        let groups: Vec<_> = self.groups.iter().filter_map(ClusterGroups::of).collect();
        let clusters = self
            .clusters
            .iter()
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
        let members = clusters.map(|cluster| Member::new(cluster, &groups));
        let existing: Vec<_> = self.deployments.iter().collect();
        let started = Instant::now();
        let budget = Budget::new(targeting::values::limits(MAX_TIME), move || started.elapsed());
        let forbids = self.policies.forbid_namespace_creation();
        let targets = targeting::targets(bundle, members, &existing, forbids, &budget)
            .map_err(|error| Failure::because("the targets cannot be determined", &error))?;
        let mut changes = Changes::default();
        let name = bundle.metadata.name.clone().unwrap_or_default();
        let is_wanted = |cluster: &str| only.is_empty() || only.iter().any(|name| name == cluster);
        let trusted = |options: &Option<BundleHelmOptions>| {
            let options = options.as_ref();
            options.map_or_else(String::new, |options| options.ca_bundle.clone())
        };
        for target in targets.iter().filter(|target| is_wanted(target.member.name())) {
            let cluster = target.member.name().to_owned();
            let desired = match &target.desired {
                Ok(desired) => desired,
                Err(error) => {
                    let text = format!("cluster {cluster} gets nothing: {}", causes(error));
                    changes.warnings.push(text);
                    continue;
                }
            };
            let secret = target
                .namespace()
                .and_then(|namespace| self.values.get(namespace));
            let options = BundleDeploymentOptions {
                lifecycle: desired.lifecycle.as_deref().cloned().map(Box::new),
                ..(*desired.options).clone()
            };
            // Those that stay are no part of the difference.
            let (ca_before, ca_after) = target
                .existing
                .map(|existing| {
                    (
                        trusted(&existing.spec.helm_chart_options),
                        trusted(&bundle.spec.helm_op_options),
                    )
                })
                .filter(|(before, after)| before != after)
                .unwrap_or_default();
            let lifecycle = desired.lifecycle.as_deref();
            changes.all.push(Change {
                before: match target.existing {
                    Some(existing) => deployed(existing, secret, &ca_before)?,
                    None => String::new(),
                },
                after: shown(&desired.options, lifecycle, &desired.values, &ca_after)?,
                deployment: name.clone(),
                options: Some(options),
                values: desired.values.to_string(),
                agent_namespace: agent_namespace(Some(target.member.cluster)),
                cluster,
            });
        }
        for orphan in targeting::orphans(&targets, &existing) {
            let cluster = targeting::cluster_of(orphan).map_or("", |(_, name)| name);
            if !is_wanted(cluster) {
                continue;
            }
            let namespace = orphan.metadata.namespace.as_deref().unwrap_or_default();
            changes.all.push(Change {
                cluster: cluster.to_owned(),
                deployment: name.clone(),
                before: deployed(orphan, self.values.get(namespace), "")?,
                after: String::new(),
                options: None,
                values: String::new(),
                agent_namespace: String::new(),
            });
        }
        changes.all.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        Ok(changes)
    }
}

/// What a BundleDeployment has. Its agent deploys `options`; what is staged waits for the rollout.
fn deployed(
    deployment: &BundleDeployment,
    secret: Option<&SecretValues>,
    ca_bundle: &str,
) -> Result<String, Failure> {
    let values = secret.map_or("", |secret| &*secret.values);
    let spec = &deployment.spec;
    shown(&spec.options, spec.lifecycle.as_deref(), values, ca_bundle)
}

/// Options, values and certificates as in a HelmOp.
fn shown(
    options: &BundleDeploymentOptions,
    lifecycle: Option<&Lifecycle>,
    values: &str,
    ca_bundle: &str,
) -> Result<String, Failure> {
    let mut object = json!(options);
    if let Some(fields) = object.as_object_mut() {
        if !ca_bundle.is_empty() {
            fields.insert("caBundle".to_owned(), json!(ca_bundle));
        }
        fields.remove("lifecycle");
        if let Some(lifecycle) = lifecycle {
            fields.insert("lifecycle".to_owned(), json!(lifecycle));
        }
        let values: Option<Value> = serde_json::from_str(values).ok();
        let values = values.filter(|values| values.as_object().is_some_and(|values| !values.is_empty()));
        if let (Some(values), Some(helm)) = (values, fields.get_mut("helm").and_then(Value::as_object_mut)) {
            helm.insert("values".to_owned(), values);
        }
    }
    yaml(&object)
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;
    use crate::charts::subject::{Origin, Subject};

    fn workspace(deployed_version: &str) -> Workspace {
        let cluster = |name: &str, tier: &str| {
            json!({
                "metadata": { "name": name, "namespace": "fleet-default", "labels": { "tier": tier } },
                "status": { "namespace": format!("cluster-{name}") },
            })
        };
        let deployment = |name: &str, values: &str| {
            json!({
                "metadata": { "name": "web", "namespace": format!("cluster-{name}"), "labels": {
                    "fleet.cattle.io/cluster": name, "fleet.cattle.io/cluster-namespace": "fleet-default",
                } },
                "spec": { "valuesHash": values, "lifecycle": { "postRenderStrategy": "nohooks" }, "options": {
                    "defaultNamespace": "shop",
                    "helm": { "repo": "https://charts.example.com", "chart": "web", "version": deployed_version },
                } },
            })
        };
        let decode = |object: Value| serde_json::from_str(&object.to_string()).unwrap();
        let secret = |values: &str| SecretValues {
            values: values.to_owned(),
            ..SecretValues::default()
        };
        Workspace {
            clusters: [("a", "prod"), ("b", "prod"), ("c", "test"), ("d", "none")]
                .map(|(name, tier)| serde_json::from_str(&cluster(name, tier).to_string()).unwrap())
                .into(),
            deployments: vec![
                serde_json::from_str(&deployment("a", "1").to_string()).unwrap(),
                serde_json::from_str(&deployment("b", "1").to_string()).unwrap(),
                decode(deployment("d", "1")),
            ],
            values: ["a", "b", "d"]
                .map(|name| (format!("cluster-{name}"), secret("{\"replicas\":1}")))
                .into(),
            ..Workspace::default()
        }
    }

    fn bundle() -> Bundle {
        let bundle = json!({
            "metadata": { "name": "web", "namespace": "fleet-default" },
            "spec": {
                "defaultNamespace": "shop",
                "lifecycle": { "postRenderStrategy": "nohooks" },
                "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.1.0", "values": { "replicas": 1 } },
                "targets": [
                    { "clusterSelector": { "matchLabels": { "tier": "prod" } } },
                    { "clusterSelector": { "matchLabels": { "tier": "test" } }, "helm": { "values": { "replicas": 2 } } },
                ],
            },
        });
        serde_json::from_str(&bundle.to_string()).unwrap()
    }

    #[test]
    fn clusters_with_the_same_change_are_together_and_the_others_are_not() {
        let changes = workspace("1.0.0").deployments(&bundle(), &[]).unwrap();
        let groups = grouped(&changes.all);
        let summary: Vec<_> = groups
            .iter()
            .map(|group| (group.clusters.join(","), group.what))
            .collect();
        assert_eq!(
            summary,
            [
                ("a,b".to_owned(), "changed"),
                ("c".to_owned(), "new"),
                ("d".to_owned(), "removed")
            ]
        );
        assert_eq!(
            groups[0].after,
            "defaultNamespace: shop\nhelm:\n  chart: web\n  repo: https://charts.example.com\n  values:\n    replicas: 1\n  version: \
             1.1.0\nlifecycle:\n  postRenderStrategy: nohooks\n"
        );
        assert!(groups[1].after.contains("replicas: 2"), "{}", groups[1].after);
        let options = changes.all[0].options.as_ref().unwrap();
        let lifecycle = options.lifecycle.as_ref().unwrap();
        assert_eq!(lifecycle.post_render_strategy, "nohooks");
    }

    #[tokio::test]
    async fn certificates_of_a_helmop_that_are_removed_are_a_change() {
        let pem = |name: &str| STANDARD.encode(format!("-----BEGIN CERTIFICATE-----\n{name}\n"));
        let (old, new) = (pem("old"), pem("new"));
        let helm = json!({ "chart": "https://charts.example.com/web-1.1.0.tgz" });
        let client = Subject::alone(HelmOp::default(), Origin::Flags).unwrap().client;
        for (live, own, expected) in [
            (&*old, "", Some((true, ""))),
            (&old, &*old, None),
            (&old, &new, Some((true, &*new))),
            // Those of the Bundle are Rancher's.
            ("", "", None),
            ("", &new, Some((true, &new))),
        ] {
            let access = json!({ "helmOpCABundle": old });
            let mut workspace = workspace("1.0.0");
            workspace.clusters.truncate(1);
            workspace.deployments.truncate(1);
            let spec = &mut workspace.deployments[0].spec;
            std::sync::Arc::make_mut(&mut spec.options).helm =
                serde_json::from_str(&helm.to_string()).unwrap();
            spec.lifecycle = None;
            spec.helm_chart_options = serde_json::from_str(&access.to_string()).unwrap();
            workspace.live_ca_bundle = live.to_owned();
            let mut bundle = bundle();
            bundle.spec.helm_op_options = serde_json::from_str(&access.to_string()).unwrap();
            workspace.bundle = Some(bundle);
            let helmop = json!({
                "metadata": { "name": "web", "namespace": "fleet-default" },
                "spec": {
                    "defaultNamespace": "shop", "helm": { "chart": helm["chart"], "values": { "replicas": 1 } }, "caBundle": own,
                    "targets": [{ "clusterSelector": {} }],
                },
            });
            let mut helmop: HelmOp = serde_json::from_str(&helmop.to_string()).unwrap();
            let changes = workspace.changes(&client, &mut helmop, &[]).await.unwrap();
            let line = |ca_bundle: &str| match ca_bundle {
                "" => String::new(),
                text => format!("caBundle: {text}\n"),
            };
            let groups = grouped(&changes.all);
            let found: Vec<_> = groups
                .iter()
                .map(|group| {
                    (
                        group.before.starts_with(&line(&old)),
                        group.after.split("defaultNamespace").next().unwrap().to_owned(),
                    )
                })
                .collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(has, text)| (has, line(text)))
                .collect();
            assert_eq!(found, expected, "{live} {own}");
        }
    }

    #[test]
    fn a_cluster_that_is_up_to_date_is_in_no_group() {
        let changes = workspace("1.1.0")
            .deployments(&bundle(), &["a".to_owned(), "b".to_owned()])
            .unwrap();
        assert_eq!(changes.all.len(), 2);
        assert_eq!(grouped(&changes.all), []);
    }
}
