//! The key of a chart in the cache: deployments with the same key have the same archive.

use bounded_text::hex;
use helmops_api::{BundleDeployment, bundle::BundleHelmOptions};
use helmops_core::targeting::chart_record::expected_digest;
use ring::digest::{Context, SHA256};

use super::origin::{ChartOrigin, commit, has_files_of_bundle};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChartKey(String);

impl ChartKey {
    /// The key of the chart of a deployment. Only deployments with the same Secret share an archive: a tenant who knows the name of a
    /// chart may not be allowed to read it. Without a recorded digest a version may change, so the archive is only for the attempts
    /// of one deployment ID.
    pub fn of(deployment: &BundleDeployment) -> Self {
        match ChartOrigin::of(deployment) {
            ChartOrigin::Repository => Self::of_repository(deployment),
            ChartOrigin::Content | ChartOrigin::Storage => Self::of_content(deployment),
        }
    }

    /// The chart of a Bundle with files: its ID, and all that decides how a chart is made of these. There is no Secret in it: the ID is a digest
    /// of the files, which only those know who have them.
    fn of_content(deployment: &BundleDeployment) -> Self {
        let spec = &deployment.spec;
        let options = &spec.options;
        let id = spec.deployment_id.split(':').next().unwrap_or_default();
        let helm = options.helm.clone().unwrap_or_default();
        let dir = options.kustomize.as_ref().map_or("", |kustomize| &*kustomize.dir);
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        // Files of a Bundle may be in the archive for a kustomization, too.
        let kind = if has_files_of_bundle(deployment) {
            "files"
        } else {
            "chart"
        };
        let mut fields = vec![
            kind,
            id,
            name,
            commit(deployment),
            &*helm.chart,
            &helm.repo,
            &helm.version,
            dir,
        ];
        let overlays = options.yaml.iter().flat_map(|yaml| &yaml.overlays);
        fields.extend(overlays.map(String::as_str));
        Self::hash("content", &fields)
    }

    fn of_repository(deployment: &BundleDeployment) -> Self {
        let spec = &deployment.spec;
        let helm = spec.options.helm.clone().unwrap_or_default();
        let BundleHelmOptions {
            secret_name,
            insecure_skip_tls_verify,
            ca_bundle,
            ..
        } = spec.helm_chart_options.clone().unwrap_or_default();
        let digest = expected_digest(deployment);
        let own = match &digest {
            Some(_) => "",
            None => &spec.deployment_id,
        };
        let name = deployment.metadata.name.as_deref().filter(|_| digest.is_none());
        let insecure = if insecure_skip_tls_verify { "insecure" } else { "" };
        let digest = digest.as_deref().unwrap_or_default();
        Self::hash(
            "repository",
            &[
                &*helm.repo,
                &helm.chart,
                &helm.version,
                digest,
                &secret_name,
                insecure,
                &ca_bundle,
                own,
                name.unwrap_or_default(),
            ],
        )
    }

    fn hash(kind: &str, fields: &[&str]) -> Self {
        let mut context = Context::new(&SHA256);
        for field in [kind].iter().chain(fields) {
            // Lengths keep one field from flowing into the next.
            context.update(&(field.len() as u64).to_be_bytes());
            context.update(field.as_bytes());
        }
        Self(hex(context.finish().as_ref()))
    }

    /// The key in the name of a file.
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_key.then(|| Self(text.to_owned()))
    }

    /// The key in hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
    use serde_json::{Value, json};

    use super::*;

    fn key(change: impl FnOnce(&mut Value)) -> ChartKey {
        let record = json!({ "repo": "https://h", "chart": "web", "version": "1.0.0", "digest": "a" });
        let mut object = json!({
            "metadata": { "name": "one", "annotations": { labels::RESOLVED: record.to_string() } },
            "spec": {
                "deploymentID": "1",
                "options": { "helm": { "repo": "https://h", "chart": "web", "version": "1.0.0", "values": { "a": 1 } } },
                "helmChartOptions": { "helmOpSecretName": "access" }
            }
        });
        change(&mut object);
        ChartKey::of(&serde_json::from_str(&object.to_string()).unwrap())
    }

    #[test]
    fn the_chart_of_files_depends_on_all_that_makes_it() {
        let key = |change: fn(&mut Value)| {
            let mut object = json!({
                "metadata": { "name": "one" },
                "spec": { "deploymentID": "s-1:2", "options": { "yaml": { "overlays": ["a"] } } },
            });
            change(&mut object);
            ChartKey::of(&serde_json::from_str(&object.to_string()).unwrap())
        };
        let base = key(|_| {});
        assert_eq!(
            key(|object| object["spec"]["deploymentID"] = json!("s-1:3")),
            base
        );
        let other: [fn(&mut Value); 8] = [
            |object| object["spec"]["deploymentID"] = json!("s-2:2"),
            |object| object["spec"]["options"]["yaml"] = json!({ "overlays": ["a", "b"] }),
            |object| object["spec"]["options"]["kustomize"] = json!({ "dir": "a" }),
            |object| object["spec"]["options"]["helm"] = json!({ "chart": "a" }),
            |object| object["spec"]["options"]["helm"] = json!({ "repo": "a" }),
            |object| object["spec"]["options"]["helm"] = json!({ "version": "a" }),
            |object| object["metadata"]["labels"] = json!({ "fleet.cattle.io/commit": "a" }),
            // It is the name of a chart without one of its own.
            |object| object["metadata"]["name"] = json!("two"),
        ];
        for change in other {
            assert_ne!(key(change), base);
        }
    }

    #[test]
    fn a_chart_of_files_is_none_of_a_repository() {
        let of = |object: Value| ChartKey::of(&serde_json::from_str(&object.to_string()).unwrap());
        let helm = |repo: &str, chart: &str, version: &str| json!({ "repo": repo, "chart": chart, "version": version });
        let content = of(json!({
            "metadata": { "name": "one" },
            "spec": {
                "deploymentID": "s-1:2",
                "options": { "helm": helm("", "", ""), "yaml": { "overlays": [""] } },
            },
        }));
        let repository = of(json!({
            "metadata": { "name": "" },
            "spec": {
                "options": { "helm": helm("content", "s-1", "one") },
                "deploymentID": "",
                "helmChartOptions": { "helmOpSecretName": "" },
            },
        }));
        assert_ne!(content, repository);
    }

    #[test]
    fn deployments_share_an_archive_only_if_it_is_the_same() {
        let base = key(|_| {});
        assert_eq!(ChartKey::parse(base.as_str()), Some(base.clone()));
        let same: [fn(&mut Value); 3] = [
            |object| object["metadata"]["name"] = json!("other"),
            |object| object["spec"]["deploymentID"] = json!("2"),
            |object| object["spec"]["options"]["helm"]["values"] = json!({}),
        ];
        for change in same {
            assert_eq!(key(change), base);
        }
        let no_digest = |object: &mut Value| object["metadata"]["annotations"] = json!({});
        let others: [fn(&mut Value); 5] = [
            |object| object["spec"]["options"]["helm"]["version"] = json!("1.0.1"),
            |object| object["spec"]["options"]["helm"]["repo"] = json!("https://other"),
            |object| object["spec"]["helmChartOptions"]["helmOpSecretName"] = json!(""),
            |object| object["spec"]["helmChartOptions"]["helmOpInsecureSkipTLSVerify"] = json!(true),
            |object| object["metadata"]["annotations"] = json!({}),
        ];
        let mut seen = vec![base];
        for change in others {
            let other = key(change);
            assert!(!seen.contains(&other), "{object}", object = seen.len());
            seen.push(other);
        }
        // Without a digest, each deployment has its own.
        let of = |name: &str, id: &str| {
            let (name, id) = (name.to_owned(), id.to_owned());
            key(move |object| {
                no_digest(object);
                object["metadata"]["name"] = json!(name);
                object["spec"]["deploymentID"] = json!(id);
            })
        };
        assert_eq!(of("one", "1"), of("one", "1"));
        assert_ne!(of("one", "1"), of("other", "1"));
        assert_ne!(of("one", "1"), of("one", "2"));
    }
}
