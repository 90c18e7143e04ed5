//! `export`: HelmOps as they should be in Git.

use helmops_api::{
    HelmOp,
    labels::{self, LAST_APPLIED},
};
use helmops_core::admit::{default::POLLING_INTERVAL, nulls::nulls};

use crate::{
    cluster::{
        ClusterArgs,
        objects::{all_valid, report_nothing},
        selection::{Scope, helmop_name},
    },
    create::yaml,
    failure::Failure,
    output::write_json,
    terminal::{Console, style::Style},
    validate::IN_FILES,
};

/// Requests have their effect once, and would have it again on another cluster.
const REQUESTS: [&str; 6] = [
    labels::POLL_REQUESTED_AT,
    labels::RECONCILE_REQUESTED_AT,
    labels::FORCE_REQUESTED_AT,
    labels::RESET_REQUESTED_AT,
    labels::APPROVED_ROLLOUT,
    labels::RESUMED_ROLLOUT,
];
/// The default of the CRD.
const TARGET_MODE: &str = "FirstMatch";

/// The arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # For Git
  kubectl helmop export web > web.yaml

  # All HelmOps of all namespaces
  kubectl helmop export --all-namespaces > helmops.yaml

  # Those of a team
  kubectl helmop export -l team=shop")]
pub struct ExportArgs {
    /// Name of the HelmOp; all of the namespace without one
    #[arg(value_parser = helmop_name)]
    pub name: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// Only HelmOps with these labels, such as app=web
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub selector: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "yaml")]
    pub output: Format,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// YAML documents
    Yaml,
    /// JSON objects
    Json,
}

/// Prints HelmOps without what the cluster has added.
///
/// # Errors
/// If they cannot be read, or there is none of that name.
pub async fn run(args: &ExportArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let scope = if args.all_namespaces {
        Scope::All
    } else {
        Scope::Namespace(&cluster.namespace)
    };
    let selector = args.selector.as_deref();
    let helmops = match &args.name {
        Some(name) => vec![cluster.get::<HelmOp>(&cluster.namespace, name).await?],
        None => all_valid(cluster.list::<HelmOp>(scope, selector).await?)?,
    };
    if helmops.is_empty() {
        return report_nothing::<HelmOp>(console, scope, selector);
    }
    for (index, helmop) in helmops.into_iter().enumerate() {
        let exported = exported(helmop);
        if let Some(remark) = remark(&exported) {
            writeln!(
                console.err,
                "{} {remark}",
                console.styles.paint(Style::Pending, "warning:")
            )?;
        }
        if args.output == Format::Json {
            write_json(&mut console.out, &exported)?;
            continue;
        }
        if index > 0 {
            writeln!(console.out, "---")?;
        }
        write!(console.out, "{}", yaml(&exported)?)?;
    }
    Ok(())
}

/// What `kubectl apply` would change in a HelmOp that is applied as it is printed.
fn remark(helmop: &HelmOp) -> Option<String> {
    let nulls = nulls(helmop);
    let more = match nulls.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let name = helmop.metadata.name.as_deref().unwrap_or_default();
    nulls
        .first()
        .map(|path| format!("HelmOp {name}: {path}{more}: {IN_FILES}"))
}

/// A HelmOp as it should be in Git: without status, without what the API server, kubectl and the webhook add, and without requests.
fn exported(mut helmop: HelmOp) -> HelmOp {
    helmop.status = None;
    let metadata = &helmop.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != LAST_APPLIED && !REQUESTS.contains(&key.as_str()));
    let kept = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..Default::default()
    };
    helmop.metadata = kept.into();
    // The webhook sets it where there is none, and it means the same.
    let spec = &mut helmop.spec;
    if spec.polling_interval.as_deref() == Some(POLLING_INTERVAL) {
        spec.polling_interval = None;
    }
    // The API server sets it.
    if spec.bundle.target_customization_mode == TARGET_MODE {
        spec.bundle.target_customization_mode.clear();
    }
    helmop
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_cluster_adds_is_left_out() {
        let stored = r#"{
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
            "metadata": {
                "name": "web", "namespace": "fleet-default", "uid": "1", "resourceVersion": "2", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "team": "shop" },
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept",
                    "helmops.fleet.cattle.io/reconcile-requested-at": "1"
                },
                "finalizers": ["fleet.cattle.io/helmop-finalizer"],
                "managedFields": [{ "manager": "kubectl", "operation": "Update" }]
            },
            "spec": {
                "pollingInterval": "0s", "targetCustomizationMode": "FirstMatch", "newer": { "field": true },
                "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x", "values": { "b": "yes", "a": 1 } },
                "targets": [{ "clusterGroup": "all" }]
            },
            "status": { "version": "1.2.3" }
        }"#;
        let expected = "\
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata:
  annotations:
    note: kept
  labels:
    team: shop
  name: web
  namespace: fleet-default
spec:
  helm:
    chart: web
    repo: https://charts.example.com
    values:
      a: 1
      b: \"yes\"
    version: 1.x
  newer:
    field: true
  targets:
  - clusterGroup: all
";
        let exported = exported(serde_json::from_str(stored).unwrap());
        assert_eq!(yaml(&exported).unwrap(), expected);
    }

    #[test]
    fn what_is_applied_again_has_the_same_values_and_controls_no_terminal() {
        let values = json!({
            "<<": { "privileged": true }, "=": "<<", "plain": "=",
            "text": "\u{1b}]0;title\u{7}\u{202e}txt", "lines": "a\u{9b}2J\nb\n",
        });
        let stored = json!({ "metadata": { "name": "web" }, "spec": { "helm": { "values": values } } });
        let exported = yaml(&exported(serde_json::from_value(stored).unwrap())).unwrap();
        assert!(!exported.contains(bounded_text::is_control), "{exported:?}");
        assert!(
            exported.contains("\"<<\":\n") && exported.contains("\"=\": \"<<\"\n"),
            "{exported}"
        );
        let read = go_formats::yaml::read_exact(&exported, &mut go_formats::yaml::Quota::default()).unwrap();
        assert_eq!(read["spec"]["helm"]["values"], values, "{exported}");
    }

    #[test]
    fn a_null_that_kubectl_apply_would_drop_is_remarked() {
        let of = |values: &str| {
            let object = format!(
                "{{\"metadata\": {{\"name\": \"web\"}}, \"spec\": {{\"helm\": {{\"values\": {values}}}}}}}"
            );
            remark(&serde_json::from_str(&object).unwrap())
        };
        assert_eq!(of("{\"a\": 1}"), None);
        let text = of("{\"a\": {\"b\": null}, \"c\": null}").unwrap();
        assert!(
            text.starts_with("HelmOp web: spec.helm.values.a.b and 1 more: kubectl apply drops a null"),
            "{text}"
        );
    }

    #[test]
    fn an_interval_that_is_set_stays() {
        let mut helmop = HelmOp::default();
        helmop.spec.polling_interval = Some("15m".to_owned());
        assert_eq!(exported(helmop).spec.polling_interval.as_deref(), Some("15m"));
    }
}
