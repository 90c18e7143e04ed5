//! A HelmOp that adopts a release of a user's Helm: what Helm's record has, and the repository, which it has not.
//!
//! The agent takes a release over as it is if the chart renders to what is deployed (`helmops_release::adoption`). The same function
//! decides here, before anything is created.

use helmops_api::{HelmOptions, free_form::FreeForm};
use helmops_release::{
    adoption::{self, Obstacle},
    marks,
    names::ReleaseKey,
    record::{Record, Status},
};
use serde_json::Value;

use super::{
    draft::Draft,
    flags::ChartFlags,
    note::{Gap, Note},
};
use crate::{
    cluster::{ClusterArgs, records},
    clusters::agent_namespace,
    failure::Failure,
    render::{self, Access, ChartAccess, RenderArgs, Rendered},
    terminal::{Console, progress::during},
};

/// Texts that Fleet renders as templates, or replaces.
const TEMPLATES: [&str; 2] = ["${", "global.fleet.clusterLabels."];
/// How many places of a chart a hint names.
const HINTS: usize = 3;

/// Which release is adopted.
#[expect(clippy::struct_field_names, reason = "the name of the flag")]
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Source")]
pub struct FromRelease {
    /// A release that Helm has installed. It is adopted: nothing changes on the cluster
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub from_release: Option<String>,
    /// Context of the cluster with the release; by default that of the HelmOp
    #[arg(long, value_name = "CONTEXT", requires = "from_release")]
    pub release_context: Option<String>,
    /// Adopt the release although its objects will change
    #[arg(long, requires = "from_release")]
    pub allow_changes: bool,
    /// How the chart is rendered.
    #[command(flatten)]
    pub render: RenderArgs,
}

impl FromRelease {
    /// Reads the record of a release.
    ///
    /// # Errors
    /// If it cannot be adopted: it does not exist, is not deployed, or belongs to an agent already.
    pub async fn draft(
        &self,
        release: &str,
        name: Option<&str>,
        flags: &ChartFlags,
        cluster: &ClusterArgs,
        console: &mut Console<'_>,
    ) -> Result<Draft, Failure> {
        let (record, key) = self.record(release, cluster, console).await?;
        if flags.repo.is_none() && !flags.chart.as_deref().is_some_and(|chart| chart.contains("://")) {
            return Err(
                Failure::unable("Helm does not record the repository of a release: set --repo")
                    .with_hint(hint(&record)),
            );
        }
        Ok(draft(&record, &key, name, flags))
    }

    /// Checks that the agent takes the release over without a change.
    ///
    /// # Errors
    /// If the chart cannot be fetched or rendered, or if objects would change and that is not allowed.
    pub async fn verify(
        &self,
        release: &str,
        draft: &Draft,
        cluster: &ClusterArgs,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        // An invalid HelmOp is reported as such.
        draft.check()?;
        let bundle = &draft.helmop.spec.bundle;
        let Some(helm) = &bundle.options.helm else {
            return Ok(());
        };
        let (record, recorded) = self.record(release, cluster, console).await?;
        let key = ReleaseKey::of(draft.name(), &bundle.options);
        if key != recorded {
            return Err(Failure::unable(format!(
                "the HelmOp would deploy release {key}, and not {recorded}; omit --release-name and --target-namespace"
            )));
        }
        let Some(program) = self.render.program() else {
            return self.unverified(console, "no program helm was found in $PATH");
        };
        let client = cluster.connect().await?;
        let namespace = draft.helmop.metadata.namespace.clone();
        let namespace = namespace.as_deref().unwrap_or(&client.namespace);
        let access = ChartAccess::of(&draft.helmop, namespace);
        let fetched = render::fetch(&client.client, helm, access);
        let archive = during(console, "Fetching the chart", fetched).await?;
        let chart = render::chart_in(archive.path())
            .map_err(|error| Failure::because("the chart cannot be deployed", &error))?;
        if let Err(obstacle) = adoption::check_chart(&record, &chart.name, &chart.version) {
            return self.refused(console, &key, &obstacle);
        }
        let values = helm
            .values
            .as_ref()
            .map(|values| values.as_str().as_bytes().to_vec());
        let values: Vec<_> = values.into_iter().collect();
        let of_release = self.release_cluster(cluster);
        let account = self
            .render
            .account(&bundle.options, &agent_namespace(None), &of_release)
            .await?;
        let person = of_release.connect().await?.client;
        let access = Access::of(&self.render, account.as_ref(), &person);
        let rendered = Rendered {
            release: &key,
            options: &bundle.options,
            values: &values,
            is_upgrade: record.revision > 1,
        };
        // First: it may be the reason why the rendering fails.
        self.render.report_lookup(archive.path(), console)?;
        let rendering = render::render(&program, archive.path(), access, rendered);
        let text = during(console, "Rendering the chart", rendering).await?;
        match adoption::check(&record, &text, &render::unmarked(&bundle.options)) {
            Ok(()) => Ok(()),
            Err(obstacle) => self.refused(console, &key, &obstacle),
        }
    }

    /// The release would be upgraded.
    fn refused(
        &self,
        console: &mut Console<'_>,
        key: &ReleaseKey,
        obstacle: &Obstacle,
    ) -> Result<(), Failure> {
        if self.allow_changes {
            return Ok(writeln!(
                console.err,
                "warning: the release will be upgraded: {obstacle}"
            )?);
        }
        Err(
            Failure::negative(format!("release {key} would not be adopted as it is: {obstacle}")).with_hint(
                "check that --repo and --version name the chart that is deployed (helm get metadata, helm get values), or add \
                 --allow-changes",
            ),
        )
    }

    fn unverified(&self, console: &mut Console<'_>, why: &str) -> Result<(), Failure> {
        if self.allow_changes {
            return Ok(writeln!(
                console.err,
                "warning: it is not known whether objects will change: {why}"
            )?);
        }
        Err(
            Failure::unable(format!("cannot compare the chart with what is deployed: {why}"))
                .with_hint("set --helm, or add --allow-changes to adopt the release without a comparison"),
        )
    }

    async fn record(
        &self,
        release: &str,
        cluster: &ClusterArgs,
        console: &mut Console<'_>,
    ) -> Result<(Record, ReleaseKey), Failure> {
        let Some(records) = ReleaseKey::parse(release).map(|key| key.records()) else {
            return Err(Failure::unable(format!(
                "--from-release {release:?} is no release; write NAMESPACE/NAME"
            ))
            .with_hint("list releases with: helm list --all-namespaces"));
        };
        let cluster = self.release_cluster(cluster).connect().await?;
        let reading = records::newest(&cluster.client, &records);
        let record = during(console, "Reading the record of the release", reading).await?;
        let Some(record) = record else {
            return Err(Failure::negative(format!(
                "there is no release {:?} in namespace {:?} of {}",
                records.name, records.namespace, cluster.server
            ))
            .with_hint(
                "list releases with: helm list --all-namespaces; the cluster is that of --release-context, and NAMESPACE that of the records",
            ));
        };
        check(&record)?;
        let key = record.key().stored_in(&records.namespace);
        Ok((record, key))
    }

    fn release_cluster(&self, cluster: &ClusterArgs) -> ClusterArgs {
        let mut args = cluster.clone();
        if self.release_context.is_some() {
            args.context.clone_from(&self.release_context);
        }
        args
    }
}

/// Whether a record can be adopted.
fn check(record: &Record) -> Result<(), Failure> {
    let key = record.key();
    if let Some(owner) = record.chart_annotation(marks::BUNDLE_ID) {
        return Err(Failure::negative(format!(
            "release {key} is not a user's: the agent deploys it for BundleDeployment {owner:?}"
        ))
        .with_hint("print its HelmOp with: kubectl helmop export NAME"));
    }
    let status = record.info.status;
    if status == Status::Deployed {
        return Ok(());
    }
    Err(Failure::negative(format!(
        "revision {} of release {key} is {status}, and only a deployed one can be adopted",
        record.revision
    ))
    .with_hint(format!(
        "find out more with: helm history {} --namespace {}",
        key.name, key.namespace
    )))
}

/// The HelmOp of a record of a release.
fn draft(record: &Record, key: &ReleaseKey, name: Option<&str>, flags: &ChartFlags) -> Draft {
    let mut draft = Draft::named(name.unwrap_or(&record.name));
    let text = |key| record.chart_metadata().get(key).and_then(Value::as_str);
    let repo = flags.repo.as_deref().unwrap_or_default();
    let is_index = repo.starts_with("http");
    let has_values = record.config.as_object().is_some_and(|values| !values.is_empty());
    let is_template = TEMPLATES
        .iter()
        .any(|template| record.config.to_string().contains(template));
    let options = &mut draft.helmop.spec.bundle.options;
    options.default_namespace.clone_from(&record.namespace);
    if key.has_records_elsewhere() {
        let lifecycle = options.lifecycle.get_or_insert_default();
        lifecycle.storage_namespace.clone_from(&key.storage);
    }
    options.helm = Some(HelmOptions {
        // A registry names the chart in its URL.
        chart: if is_index {
            text("name").unwrap_or_default().to_owned()
        } else {
            String::new()
        },
        // An archive names its version in its URL.
        version: if repo.is_empty() {
            String::new()
        } else {
            text("version").unwrap_or_default().to_owned()
        },
        release_name: record.name.clone(),
        values: has_values.then(|| FreeForm::from(&record.config)),
        take_ownership: true,
        disable_pre_process: is_template,
        ..HelmOptions::default()
    });
    if is_template {
        draft.notes.push(Note {
            object: format!("release {}", record.key()),
            path: "values".to_owned(),
            position: None,
            text:
                "texts of the values look like templates of Fleet; disablePreProcess leaves them as they are"
                    .to_owned(),
            gap: Gap::None,
        });
    }
    draft
}

/// Where the chart may be from.
fn hint(record: &Record) -> String {
    let metadata = record.chart_metadata();
    let sources = metadata
        .get("sources")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let home = metadata.get("home").into_iter();
    let places: Vec<_> = home
        .chain(sources)
        .filter_map(Value::as_str)
        .take(HINTS)
        .collect();
    let chart = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if places.is_empty() {
        format!("look for chart {chart:?} in your repositories: helm search repo {chart}")
    } else {
        format!(
            "the chart {chart:?} names these places: {}; look for it in your repositories: helm search repo {chart}",
            places.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::create::yaml;

    fn record() -> Record {
        serde_json::from_value(json!({
            "name": "web", "namespace": "shop", "version": 3,
            "info": { "status": "deployed" },
            "chart": { "metadata": {
                "name": "nginx", "version": "1.2.3", "home": "https://nginx.example.com",
                "sources": ["https://git.example.com/nginx"],
            } },
            "config": { "replicas": 2, "debug": "yes" },
        }))
        .unwrap()
    }

    fn flags(repo: &str) -> ChartFlags {
        ChartFlags {
            repo: Some(repo.to_owned()),
            ..ChartFlags::default()
        }
    }

    fn helmop(record: &Record, repo: &str) -> String {
        let flags = flags(repo);
        let mut draft = draft(record, &record.key(), None, &flags);
        flags.apply(&mut draft.helmop).unwrap();
        draft.check().unwrap();
        yaml(&draft.helmop).unwrap()
    }

    #[test]
    fn the_helmop_has_what_the_record_has() {
        let expected = "\
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata:
  name: web
spec:
  defaultNamespace: shop
  helm:
    chart: nginx
    releaseName: web
    repo: https://charts.example.com
    takeOwnership: true
    values:
      debug: \"yes\"
      replicas: 2
    version: 1.2.3
";
        assert_eq!(helmop(&record(), "https://charts.example.com"), expected);
        let registry = helmop(&record(), "oci://registry.example.com/nginx");
        assert!(
            !registry.contains("chart:") && registry.contains("version: 1.2.3"),
            "{registry}"
        );
    }

    #[test]
    fn records_elsewhere_stay_there() {
        let (record, flags) = (record(), flags("https://charts.example.com"));
        let options = |storage: &str| {
            let draft = draft(&record, &record.key().stored_in(storage), None, &flags);
            draft.helmop.spec.bundle.options
        };
        let elsewhere = options("flux");
        assert_eq!(elsewhere.default_namespace, "shop");
        assert_eq!(elsewhere.storage_namespace(), Some("flux"));
        assert_eq!(options("shop").lifecycle, None);
    }

    #[test]
    fn values_that_look_like_templates_are_left_as_they_are() {
        let mut record = record();
        record.config = json!({ "script": "echo ${HOME}" });
        let flags = flags("https://charts.example.com");
        let draft = draft(&record, &record.key(), Some("other"), &flags);
        assert_eq!(draft.name(), "other");
        assert!(
            draft
                .helmop
                .spec
                .bundle
                .options
                .helm
                .as_ref()
                .unwrap()
                .disable_pre_process
        );
        assert_eq!(draft.notes.len(), 1);
    }

    #[test]
    fn a_release_of_an_agent_or_one_that_is_not_deployed_is_refused() {
        let mut other = record();
        other.info.status = Status::PendingUpgrade;
        let failure = check(&other).unwrap_err();
        assert_eq!(
            failure.message,
            "revision 3 of release shop/web is pending-upgrade, and only a deployed one can be adopted"
        );
        assert_eq!(
            failure.hint,
            "find out more with: helm history web --namespace shop"
        );
        let mut own = record();
        own.chart["metadata"]["annotations"] = json!({ marks::BUNDLE_ID: "web" });
        assert!(
            check(&own)
                .unwrap_err()
                .message
                .contains("BundleDeployment \"web\"")
        );
        assert!(check(&record()).is_ok());
    }

    #[test]
    fn the_places_of_a_chart_are_a_hint_only() {
        assert_eq!(
            hint(&record()),
            "the chart \"nginx\" names these places: https://nginx.example.com, https://git.example.com/nginx; look for it in your \
             repositories: helm search repo nginx"
        );
    }
}
