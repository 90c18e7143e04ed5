//! The arguments of Helm.

use std::{
    ffi::OsString,
    iter,
    path::{Path, PathBuf},
    time::Duration,
};

use helmops_release::marks;

use super::{
    plugin,
    request::{
        Action, Apply, Capabilities, Crds, Deploy, Install, Render, Request, Rollback, Test, Uninstall,
        Upgrade,
    },
};

/// The files that the arguments name. Everything that is secret, large or hostile is in one of them.
#[derive(Clone, Copy, Debug)]
pub struct Files<'f> {
    /// The kubeconfig.
    pub kubeconfig: &'f Path,
    /// The archive of the chart.
    pub chart: &'f Path,
    /// The values, in the order in which they are merged.
    pub values: &'f [PathBuf],
}

/// Requests per second to the API server. Helm's default of 5, after the first 100, makes a chart of 200 objects take a minute.
const QPS: &str = "--qps=100";

/// The arguments for a request.
pub fn arguments(request: &Request, files: &Files<'_>) -> Vec<OsString> {
    let mut arguments = Arguments(Vec::new());
    let release = &request.release;
    arguments.text(command(&request.action));
    arguments.text(&release.name);
    match &request.action {
        Action::Install(install) => arguments.install(install, files),
        Action::Upgrade(upgrade) => arguments.upgrade(upgrade, files),
        Action::Rollback(rollback) => arguments.rollback(rollback),
        Action::Uninstall(uninstall) => arguments.uninstall(uninstall),
        Action::Test(test) => arguments.test(test),
        Action::Crds(crds) => arguments.crds(crds, files),
        Action::Render(render) => arguments.render(render, files),
    }
    arguments.flag("--namespace", &release.namespace);
    arguments.text("--color=never");
    if request.action.uses_cluster() {
        arguments.cluster(request, files);
    }
    arguments.0
}

/// The command of Helm.
const fn command(action: &Action) -> &'static str {
    match action {
        Action::Crds(_) | Action::Render(_) => "template",
        action => action.name(),
    }
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

    /// How Helm uses the cluster.
    fn cluster(&mut self, request: &Request, files: &Files<'_>) {
        self.flag("--kubeconfig", files.kubeconfig);
        if let Some(user) = request.identity.user() {
            self.flag("--kube-as-user", user);
        }
        self.flag("--timeout", go_duration(request.hook_timeout));
        if !matches!(request.action, Action::Test(_) | Action::Render(_)) {
            // Only hooks: the agent waits for objects.
            self.text("--wait=hookOnly");
        }
        self.text(QPS);
    }

    fn install(&mut self, install: &Install, files: &Files<'_>) {
        self.deploy(&install.deploy, files);
        // The flag of an installation knows no `auto`, and forced replacement excludes server-side apply.
        self.text(match install.apply {
            Apply::AsBefore | Apply::Server | Apply::Override => "--server-side=true",
            Apply::Client | Apply::Replace => "--server-side=false",
        });
        self.force(install.apply);
        self.switch(install.takes_ownership, "--take-ownership");
        self.switch(install.creates_namespace, "--create-namespace");
        self.switch(install.replaces, "--replace");
        self.switch(install.deploy.skips_crds, "--skip-crds");
    }

    fn upgrade(&mut self, upgrade: &Upgrade, files: &Files<'_>) {
        self.deploy(&upgrade.deploy, files);
        self.apply(upgrade.apply);
        self.switch(upgrade.takes_ownership, "--take-ownership");
        // Without values, Helm takes those of the previous revision.
        self.text("--reset-values");
        self.flag("--history-max", upgrade.max_history.to_string());
        if upgrade.deploy.acceptance.is_none() {
            // Helm passes labels on, except for this value.
            self.flag("--labels", format!("{}=null", marks::ACCEPTANCE));
        }
    }

    fn rollback(&mut self, rollback: &Rollback) {
        self.text(rollback.revision.to_string());
        self.apply(rollback.apply);
        self.switch(!rollback.runs_hooks, "--no-hooks");
        self.flag("--history-max", rollback.max_history.to_string());
    }

    fn uninstall(&mut self, uninstall: &Uninstall) {
        // Not --ignore-not-found: with it, a release that cannot be read counts as one that does not exist.
        // What an API server says about an object that it does not delete is only in the debug log.
        self.text("--debug");
        self.switch(uninstall.keeps_history, "--keep-history");
        if !uninstall.description.is_empty() {
            self.flag("--description", &uninstall.description);
        }
        self.switch(!uninstall.runs_hooks, "--no-hooks");
    }

    fn test(&mut self, test: &Test) {
        for name in &test.filters.include {
            self.flag("--filter", csv(&format!("name={name}")));
        }
        for name in &test.filters.exclude {
            self.flag("--filter", csv(&format!("!name={name}")));
        }
    }

    fn crds(&mut self, crds: &Crds, files: &Files<'_>) {
        self.text(files.chart);
        for values in files.values {
            self.flag("--values", values);
        }
        self.text("--include-crds");
        self.text("--skip-schema-validation");
        self.flag("--kube-version", &crds.kube_version);
    }

    fn render(&mut self, render: &Render, files: &Files<'_>) {
        self.chart(&render.deploy, files);
        match &render.capabilities {
            // Helm reads the version and the kinds of the cluster, and objects for the function `lookup`.
            None => self.text("--dry-run=server"),
            Some(Capabilities {
                kube_version,
                api_versions,
            }) => {
                self.text("--dry-run=client");
                self.flag("--kube-version", kube_version);
                for (version, kinds) in api_versions {
                    let kinds = kinds.iter().map(|kind| format!("{version}/{kind}"));
                    let all: Vec<_> = iter::once(version.clone())
                        .chain(kinds)
                        .map(|one| csv(&one))
                        .collect();
                    self.flag("--api-versions", all.join(","));
                }
            }
        }
        self.text("--skip-crds");
        self.switch(render.is_upgrade, "--is-upgrade");
        // Helm would refuse objects that exist and are of another release. Nothing is applied.
        self.text("--take-ownership");
        self.text("--disable-openapi-validation");
    }

    fn chart(&mut self, deploy: &Deploy, files: &Files<'_>) {
        self.text(files.chart);
        for values in files.values {
            self.flag("--values", values);
        }
        self.switch(deploy.enables_dns, "--enable-dns");
        self.switch(deploy.skips_schema, "--skip-schema-validation");
    }

    fn deploy(&mut self, deploy: &Deploy, files: &Files<'_>) {
        self.chart(deploy, files);
        self.flag("--post-renderer", plugin::NAME);
        if !deploy.description.is_empty() {
            self.flag("--description", &deploy.description);
        }
        if let Some(on_delete) = &deploy.on_delete {
            self.flag("--labels", format!("{}={on_delete}", marks::ON_DELETE));
        }
        if let Some(acceptance) = deploy.acceptance {
            self.flag("--labels", format!("{}={acceptance}", marks::ACCEPTANCE));
        }
        // It costs half of the time, and validates nothing that the API server does not.
        self.text("--disable-openapi-validation");
        self.text("--hide-notes");
    }

    fn apply(&mut self, apply: Apply) {
        self.text(match apply {
            Apply::AsBefore => "--server-side=auto",
            Apply::Server | Apply::Override => "--server-side=true",
            Apply::Client | Apply::Replace => "--server-side=false",
        });
        self.force(apply);
    }

    fn force(&mut self, apply: Apply) {
        self.switch(apply == Apply::Replace, "--force-replace");
        self.switch(apply == Apply::Override, "--force-conflicts");
    }

    fn switch(&mut self, is_on: bool, name: &str) {
        if is_on {
            self.text(name);
        }
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
        post_render::PostRender,
        record::{Acceptance, OnDelete, TestFilters},
        scopes::Scopes,
    };

    use super::*;
    use crate::helm::request::Identity;

    fn deploy() -> Deploy {
        Deploy {
            archive: "/cache/web.tgz".into(),
            origin: Origin {
                bundle_deployment: "web".to_owned(),
                agent_namespace: "agent".to_owned(),
                ..Origin::default()
            },
            values: vec![b"{}".to_vec()],
            post_render: PostRender {
                set: "default-web".to_owned(),
                namespace: None,
                deletes_crds: false,
                scopes: Scopes::default(),
            },
            secrets: crate::helm::outcome::SecretTexts::default(),
            enables_dns: false,
            skips_schema: false,
            description: String::new(),
            skips_crds: false,
            on_delete: None,
            acceptance: None,
        }
    }

    fn of(identity: Identity, action: Action) -> String {
        let request = Request {
            release: ReleaseKey {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            },
            identity,
            action,
            hook_timeout: Duration::from_millis(1500),
        };
        let files = Files {
            kubeconfig: Path::new("/run/kubeconfig"),
            chart: Path::new("/run/chart.tgz"),
            values: &["/run/values-0.yaml".into(), "/run/values-1.yaml".into()],
        };
        let arguments = arguments(&request, &files);
        let texts: Vec<_> = arguments.iter().map(|text| text.to_str().unwrap()).collect();
        texts.join(" ")
    }

    const END: &str = " --namespace=shop --color=never --kubeconfig=/run/kubeconfig --timeout=1500ms --wait=hookOnly --qps=100";
    const DEPLOY: &str = " --values=/run/values-0.yaml --values=/run/values-1.yaml --post-renderer=helmops --disable-openapi-validation --hide-notes";

    fn install(change: impl Fn(&mut Install)) -> String {
        let mut install = Install {
            deploy: deploy(),
            apply: Apply::Server,
            takes_ownership: false,
            creates_namespace: false,
            replaces: false,
        };
        change(&mut install);
        of(Identity::Agent, Action::Install(install))
    }

    type Change = fn(&mut Install);

    #[test]
    fn an_installation() {
        let start = format!("install web /run/chart.tgz{DEPLOY}");
        let table: [(Change, &str); 9] = [
            (|_| (), " --server-side=true"),
            (|install| install.apply = Apply::AsBefore, " --server-side=true"),
            (|install| install.apply = Apply::Client, " --server-side=false"),
            (
                |install| install.apply = Apply::Override,
                " --server-side=true --force-conflicts",
            ),
            (
                |install| install.apply = Apply::Replace,
                " --server-side=false --force-replace",
            ),
            (
                |install| install.takes_ownership = true,
                " --server-side=true --take-ownership",
            ),
            (
                |install| install.creates_namespace = true,
                " --server-side=true --create-namespace",
            ),
            (|install| install.replaces = true, " --server-side=true --replace"),
            (
                |install| install.deploy.skips_crds = true,
                " --server-side=true --skip-crds",
            ),
        ];
        for (change, flags) in table {
            assert_eq!(install(change), format!("{start}{flags}{END}"));
        }
    }

    #[test]
    fn options_of_the_chart() {
        let all = install(|install| {
            install.deploy.enables_dns = true;
            install.deploy.skips_schema = true;
            install.deploy.description = "--a b".to_owned();
            install.deploy.on_delete = Some(OnDelete {
                keep_history: true,
                ..OnDelete::default()
            });
            install.deploy.acceptance = Some(Acceptance::Awaited);
        });
        let flags = " --enable-dns --skip-schema-validation --post-renderer=helmops --description=--a b \
            --labels=helmops.fleet.cattle.io/on-delete=Uninstall.keepHistory \
            --labels=helmops.fleet.cattle.io/acceptance=Awaited --disable-openapi-validation";
        assert!(all.contains(flags), "{all}");
    }

    #[test]
    fn an_upgrade() {
        let upgrade = |apply, acceptance| {
            let upgrade = Upgrade {
                deploy: Deploy {
                    acceptance,
                    ..deploy()
                },
                apply,
                takes_ownership: true,
                max_history: 3,
            };
            of(Identity::Agent, Action::Upgrade(upgrade))
        };
        for (apply, flags) in [
            (Apply::AsBefore, " --server-side=auto"),
            (Apply::Server, " --server-side=true"),
            (Apply::Override, " --server-side=true --force-conflicts"),
            (Apply::Client, " --server-side=false"),
            (Apply::Replace, " --server-side=false --force-replace"),
        ] {
            let expected = format!(
                "upgrade web /run/chart.tgz{DEPLOY}{flags} --take-ownership --reset-values --history-max=3 \
                 --labels=helmops.fleet.cattle.io/acceptance=null{END}"
            );
            assert_eq!(upgrade(apply, None), expected);
        }
        // Each upgrade sets or removes the label, or it would be that of the revision before.
        let awaited = upgrade(Apply::Server, Some(Acceptance::Awaited));
        assert!(
            awaited.contains("/acceptance=Awaited") && !awaited.contains("=null"),
            "{awaited}"
        );
    }

    #[test]
    fn a_rollback_and_a_removal() {
        let rollback = Rollback {
            revision: 4,
            apply: Apply::AsBefore,
            max_history: 2,
            runs_hooks: false,
        };
        assert_eq!(
            of(Identity::Agent, Action::Rollback(rollback)),
            format!("rollback web 4 --server-side=auto --no-hooks --history-max=2{END}")
        );
        let uninstall = |keeps_history, runs_hooks| {
            let uninstall = Uninstall {
                keeps_history,
                description: String::new(),
                runs_hooks,
            };
            of(Identity::Agent, Action::Uninstall(uninstall))
        };
        assert_eq!(uninstall(false, true), format!("uninstall web --debug{END}"));
        assert_eq!(
            uninstall(true, false),
            format!("uninstall web --debug --keep-history --no-hooks{END}")
        );
    }

    #[test]
    fn tests_with_filters() {
        let test = |include: &[&str], exclude: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let filters = TestFilters {
                include: owned(include),
                exclude: owned(exclude),
            };
            of(Identity::Agent, Action::Test(Test { filters, count: 1 }))
        };
        let end = END.replace(" --wait=hookOnly", "");
        assert_eq!(test(&[], &[]), format!("test web{end}"));
        let filters = " --filter=\"name=a\" --filter=\"name=b\" --filter=\"!name=c,name=\"\"d\"";
        assert_eq!(
            test(&["a", "b"], &["c,name=\"d"]),
            format!("test web{filters}{end}")
        );
    }

    #[test]
    fn the_crds_of_a_chart_are_printed_without_a_cluster() {
        let crds = Crds {
            archive: "/cache/web.tgz".into(),
            values: Vec::new(),
            kube_version: "v1.36.0".to_owned(),
        };
        let expected = "template web /run/chart.tgz --values=/run/values-0.yaml --values=/run/values-1.yaml --include-crds \
            --skip-schema-validation --kube-version=v1.36.0 --namespace=shop --color=never";
        assert_eq!(of(Identity::Agent, Action::Crds(crds)), expected);
    }

    #[test]
    fn objects_are_printed_with_what_the_cluster_has() {
        let render = |is_upgrade| {
            let render = Render {
                deploy: deploy(),
                is_upgrade,
                capabilities: None,
            };
            of(Identity::Agent, Action::Render(render))
        };
        let start = "template web /run/chart.tgz --values=/run/values-0.yaml --values=/run/values-1.yaml --dry-run=server --skip-crds";
        let end = END.replace(" --wait=hookOnly", "");
        assert_eq!(
            render(false),
            format!("{start} --take-ownership --disable-openapi-validation{end}")
        );
        assert_eq!(
            render(true),
            format!("{start} --is-upgrade --take-ownership --disable-openapi-validation{end}")
        );
    }

    #[test]
    fn objects_are_printed_without_a_cluster() {
        let kinds = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect();
        let render = Render {
            deploy: deploy(),
            is_upgrade: false,
            capabilities: Some(Capabilities {
                kube_version: "v1.36.0".to_owned(),
                api_versions: [
                    ("a.example/v1".to_owned(), kinds(&["B", "C"])),
                    ("v1".to_owned(), kinds(&[])),
                ]
                .into(),
            }),
        };
        let identity = Identity::ServiceAccount {
            namespace: "agent".to_owned(),
            name: "deployer".to_owned(),
        };
        let expected = "template web /run/chart.tgz --values=/run/values-0.yaml --values=/run/values-1.yaml --dry-run=client \
            --kube-version=v1.36.0 --api-versions=\"a.example/v1\",\"a.example/v1/B\",\"a.example/v1/C\" --api-versions=\"v1\" \
            --skip-crds --take-ownership --disable-openapi-validation --namespace=shop --color=never";
        assert_eq!(of(identity, Action::Render(render)), expected);
    }

    #[test]
    fn a_service_account_is_impersonated() {
        let identity = Identity::ServiceAccount {
            namespace: "agent".to_owned(),
            name: "deployer".to_owned(),
        };
        let uninstall = Uninstall {
            keeps_history: false,
            description: String::new(),
            runs_hooks: true,
        };
        let arguments = of(identity, Action::Uninstall(uninstall));
        assert!(
            arguments.contains(" --kube-as-user=system:serviceaccount:agent:deployer "),
            "{arguments}"
        );
    }
}
