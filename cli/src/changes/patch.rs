//! Patches of HelmOps: only the fields that a command is about.

use clap::ValueEnum;
use helmops_api::HelmOp;
use helmops_kube::path_segment;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, apply::FIELD_MANAGER, request::Request, selection::Scope},
    create::yaml,
    failure::Failure,
    output::write_json,
    terminal::Console,
};

/// What every command that changes something has.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct PatchArgs {
    /// Print the HelmOp as it is stored then, as name, json or yaml; the lines about what is awaited go to standard error
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PatchOutput>,
    /// Send the change to the API server, which validates but does not store it (server, the default with this flag)
    #[arg(long, value_enum, value_name = "WHERE", default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    dry_run: PatchDryRun,
}

/// How a HelmOp is printed that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PatchOutput {
    /// Its name, such as helmop.fleet.cattle.io/web
    Name,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Where a change is tried. What a patch makes of a HelmOp is known in the API server only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PatchDryRun {
    /// It is made
    #[default]
    None,
    /// In the API server, which validates and stores nothing
    Server,
}

impl PatchArgs {
    /// Whether nothing is stored.
    pub fn is_dry_run(self) -> bool {
        self.dry_run == PatchDryRun::Server
    }

    /// Whether standard output has objects, and lines for a person go elsewhere.
    pub const fn prints_objects(self) -> bool {
        self.output.is_some()
    }

    /// Reports what was done to a HelmOp: as a line, or as the object. `is_first`: whether it is the first one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn report(
        self,
        line: &str,
        helmop: HelmOp,
        is_first: bool,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let mut helmop = helmop;
        helmop.metadata.managed_fields = None;
        match self.output {
            None => writeln!(console.out, "{line}")?,
            Some(PatchOutput::Name) => {
                writeln!(console.out, "helmop.fleet.cattle.io/{}", helmop.name_any())?;
            }
            Some(PatchOutput::Json) => write_json(&mut console.out, &helmop)?,
            Some(PatchOutput::Yaml) => {
                let separator = if is_first { "" } else { "---\n" };
                let text = yaml(&helmop)?;
                write!(console.out, "{separator}{text}")?;
            }
        }
        Ok(())
    }

    /// What lines about a change end in, as kubectl marks a dry run.
    pub fn suffix(self) -> &'static str {
        if self.is_dry_run() {
            " (server dry run)"
        } else {
            ""
        }
    }
}

/// A patch that sets one annotation.
pub fn annotation(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

/// Sends a merge patch and returns the HelmOp as it is stored then.
pub async fn send(cluster: &Cluster, name: &str, patch: &Value, args: PatchArgs) -> Result<HelmOp, Failure> {
    let params = PatchParams {
        dry_run: args.is_dry_run(),
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let api = Api::<HelmOp>::namespaced(cluster.client.clone(), &path_segment(&cluster.namespace));
    match api
        .patch(&path_segment(name), &params, &Patch::Merge(patch))
        .await
    {
        Ok(helmop) => Ok(helmop),
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            Err(cluster.not_found::<HelmOp>(&cluster.namespace, name).await)
        }
        Err(error) => {
            let request = Request::of::<HelmOp>("patch", Scope::Namespace(&cluster.namespace));
            Err(request.named(name).failure(cluster, &error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    fn printed(output: Option<PatchOutput>) -> String {
        let args = PatchArgs {
            output,
            dry_run: PatchDryRun::None,
        };
        let mut buffers = Buffers::default();
        for (index, name) in ["web", "api"].into_iter().enumerate() {
            let helmop = serde_json::from_value(json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
                "metadata": { "name": name, "managedFields": [{ "manager": "a" }] },
                "spec": { "paused": true },
            }));
            let line = format!("helmop {name}: suspended");
            let mut console = buffers.console();
            args.report(&line, helmop.unwrap(), index == 0, &mut console)
                .unwrap();
        }
        buffers.out()
    }

    #[test]
    fn a_change_is_reported_as_a_line_or_as_the_object() {
        assert_eq!(printed(None), "helmop web: suspended\nhelmop api: suspended\n");
        assert_eq!(
            printed(Some(PatchOutput::Name)),
            "helmop.fleet.cattle.io/web\nhelmop.fleet.cattle.io/api\n"
        );
        let yaml = printed(Some(PatchOutput::Yaml));
        assert_eq!(yaml.matches("kind: HelmOp\n").count(), 2, "{yaml}");
        assert_eq!(yaml.matches("---\n").count(), 1, "{yaml}");
        assert!(!yaml.contains("managedFields"), "{yaml}");
        let json = printed(Some(PatchOutput::Json));
        let objects: Vec<_> = serde_json::Deserializer::from_str(&json)
            .into_iter::<Value>()
            .map(|object| object.unwrap()["metadata"]["name"].clone())
            .collect();
        assert_eq!(objects, ["web", "api"]);
    }
}
