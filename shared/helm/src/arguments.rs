//! The arguments of a person's Helm, which only renders: `kubectl helmop` has no `helmops-helm`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use super::request::{Render, Request};

/// Requests per second to the API server. Helm's default of 5, after the first 100, makes a chart of 200 objects take a minute.
const QPS: &str = "--qps=100";

/// The arguments of `helm template` for a rendering. Everything that is secret, large or hostile is in files: the values, in the order in
/// which they are merged, and the kubeconfig.
pub fn arguments(request: &Request, render: &Render, kubeconfig: &Path, values: &[PathBuf]) -> Vec<OsString> {
    let mut arguments = Arguments(Vec::new());
    arguments.text("template");
    arguments.text(&request.release.name);
    arguments.text(&render.deploy.archive);
    for values in values {
        arguments.flag("--values", values);
    }
    arguments.switch(render.deploy.enables_dns, "--enable-dns");
    arguments.switch(render.deploy.skips_schema, "--skip-schema-validation");
    match &render.capabilities {
        // Helm reads the version and the kinds of the cluster, and objects for the function `lookup`.
        None => arguments.cluster(request, kubeconfig),
        Some(capabilities) => {
            arguments.text("--dry-run=client");
            arguments.flag("--kube-version", &capabilities.kube_version);
            for (version, kinds) in &capabilities.api_versions {
                arguments.flag("--api-versions", csv(version));
                for kind in kinds {
                    arguments.flag("--api-versions", csv(&format!("{version}/{kind}")));
                }
            }
        }
    }
    arguments.text("--skip-crds");
    arguments.switch(render.is_upgrade, "--is-upgrade");
    // Helm would refuse objects that exist and are of another release. Nothing is applied.
    arguments.text("--take-ownership");
    arguments.text("--disable-openapi-validation");
    arguments.flag("--namespace", &request.release.namespace);
    arguments.text("--color=never");
    arguments.0
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn text(&mut self, text: impl Into<OsString>) {
        self.0.push(text.into());
    }

    /// A flag and its value, in one argument: a value that starts with a dash is no flag then.
    fn flag(&mut self, name: &str, value: impl Into<OsString>) {
        let mut argument = OsString::from(name);
        argument.push("=");
        argument.push(value.into());
        self.0.push(argument);
    }

    fn switch(&mut self, is_on: bool, name: &str) {
        if is_on {
            self.text(name);
        }
    }

    /// How Helm reads the cluster.
    fn cluster(&mut self, request: &Request, kubeconfig: &Path) {
        self.text("--dry-run=server");
        self.flag("--kubeconfig", kubeconfig);
        if let Some(user) = request.identity.user() {
            self.flag("--kube-as-user", user);
        }
        self.flag("--timeout", go_duration(request.hook_timeout));
        self.text(QPS);
    }
}

/// A value of a flag that takes lists: a comma in it separates nothing.
fn csv(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

/// As Go reads it.
fn go_duration(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use helmops_release::{
        chart_metadata::Origin,
        names::ReleaseKey,
        post_render::{CommonMetadata, PostRender},
        scopes::Scopes,
    };

    use super::*;
    use crate::{
        outcome::SecretTexts,
        request::{Action, Capabilities, Deploy, Identity, PostRenderers},
    };

    fn of(is_upgrade: bool, capabilities: Option<Capabilities>) -> String {
        let render = Render {
            deploy: Deploy {
                archive: "/cache/web.tgz".into(),
                origin: Origin::default(),
                values: Vec::new(),
                post_renderers: PostRenderers::default(),
                post_render: PostRender {
                    common: CommonMetadata::default(),
                    set: String::new(),
                    namespace: None,
                    deletes_crds: false,
                    scopes: Scopes::default(),
                },
                secrets: SecretTexts::default(),
                enables_dns: false,
                skips_schema: false,
                description: String::new(),
                skips_crds: false,
                on_delete: None,
                acceptance: None,
            },
            is_upgrade,
            capabilities,
        };
        let request = Request {
            release: ReleaseKey::new("shop", "web"),
            identity: Identity::ServiceAccount {
                namespace: "agent".to_owned(),
                name: "deployer".to_owned(),
            },
            action: Action::Render(render.clone()),
            hook_timeout: Duration::from_millis(1500),
        };
        let values = ["/run/values-0.yaml".into(), "/run/values-1.yaml".into()];
        let arguments = arguments(&request, &render, Path::new("/run/kubeconfig"), &values);
        let texts: Vec<_> = arguments.iter().map(|text| text.to_str().unwrap()).collect();
        texts.join(" ")
    }

    const START: &str = "template web /cache/web.tgz --values=/run/values-0.yaml --values=/run/values-1.yaml";
    const END: &str = " --take-ownership --disable-openapi-validation --namespace=shop --color=never";

    #[test]
    fn objects_are_printed_with_what_the_cluster_has() {
        let cluster = " --dry-run=server --kubeconfig=/run/kubeconfig --kube-as-user=system:serviceaccount:agent:deployer \
             --timeout=1500ms --qps=100 --skip-crds";
        assert_eq!(of(false, None), format!("{START}{cluster}{END}"));
        assert_eq!(of(true, None), format!("{START}{cluster} --is-upgrade{END}"));
    }

    #[test]
    fn objects_are_printed_without_a_cluster() {
        let kinds = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect();
        let capabilities = Capabilities {
            kube_version: "v1.36.0".to_owned(),
            api_versions: [
                ("a.example/v1".to_owned(), kinds(&["B"])),
                ("v1".to_owned(), kinds(&[])),
            ]
            .into(),
        };
        let versions = " --api-versions=\"a.example/v1\" --api-versions=\"a.example/v1/B\" --api-versions=\"v1\" --skip-crds";
        assert_eq!(
            of(false, Some(capabilities)),
            format!("{START} --dry-run=client --kube-version=v1.36.0{versions}{END}")
        );
    }
}
