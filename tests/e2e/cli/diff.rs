//! `diff`.

use helmops_bed::command::Output;
use serde_json::json;

use super::environment::Environment;
use crate::harness::{
    agent::{self, CONFIG},
    run,
};

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\nstringData:\n  password: \"{{ .Values.msg }}-{{ .Chart.Version }}\"\n";

#[tokio::test]
async fn a_diff_shows_what_changes_on_which_clusters() {
    let environment = Environment::new("cli-diff").await;
    let charts = &environment.cluster.charts;
    for version in ["1.0.0", "1.1.0"] {
        charts
            .web(version, &[("config", CONFIG), ("secret", SECRET)])
            .await;
    }
    let (url, apps) = (charts.url(), environment.apps());
    let created = environment
        .ok(&[
            "create",
            "web",
            "--repo",
            &url,
            "--chart=web",
            "--version=1.0.0",
            "--cluster=c0",
            "--target-namespace",
            apps,
            "--set",
            "msg=one",
        ])
        .await;
    assert!(created.ends_with("created\n"), "{created}");
    environment.until_revision("web", "web", 1).await;
    let same = environment.helmop(&["diff", "web"]).await;
    assert_eq!((same.status.code(), &*same.stdout), (Some(0), ""), "{same:?}");

    let exported = environment.ok(&["export", "web"]).await;
    let changed = exported.replace("1.0.0", "1.1.0").replace("msg: one", "msg: two");
    let output = environment.helmop_with(&["diff", "-f", "-"], &changed).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = format!(
        "\
--- web on cluster c0: changed (deployed)
+++ web on cluster c0: changed (desired)
@@ -3,5 +3,5 @@
   chart: web
   repo: {url}
   values:
-    msg: one
-  version: 1.0.0
+    msg: two
+  version: 1.1.0
"
    );
    assert_eq!(output.stdout, expected);

    // The objects, with masked values of Secrets.
    let output = environment
        .helmop_with(&["diff", "-f", "-", "--manifests"], &changed)
        .await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for part in [
        "-  msg: one\n+  msg: two\n",
        "-  password: '*** (before)'\n+  password: '*** (after)'\n",
    ] {
        assert!(
            output.stdout.contains(part),
            "{part:?} is not in {}",
            output.stdout
        );
    }
    assert!(!output.stdout.contains("two-1.1.0"), "{}", output.stdout);

    // A new cluster selection removes it.
    let removed = changed.replace("clusterName: c0", "clusterName: other");
    let output = environment.helmop_with(&["diff", "-f", "-"], &removed).await;
    assert!(output.stdout.contains("web on cluster c0: removed"), "{output:?}");

    for (arguments, text) in [
        (&["diff", "other"][..], "there is no HelmOp \"other\""),
        (&["diff", "-f", "missing.yaml"], "cannot read missing.yaml"),
    ] {
        let error = environment.fails(2, arguments).await;
        assert!(error.contains(text), "{error}");
    }
}

/// The objects as they are deployed, with the values that they are deployed with, and the values themselves.
#[tokio::test]
async fn post_renderers_and_values_of_secrets_are_compared_and_printed() {
    let environment = Environment::new("cli-rendered").await;
    let charts = &environment.cluster.charts;
    for version in ["1.0.0", "1.1.0"] {
        charts.web(version, &[("config", CONFIG)]).await;
    }
    let secret = ["create", "secret", "generic", "own", "--from-literal=msg=geheim"];
    environment.cluster.kubectl(&secret).await;
    let patch = "[{op: add, path: /data/patched, value: \"yes\"}]";
    let helmop = |version: &str, patch: &str| {
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": "web" },
            "spec": {
                "defaultNamespace": environment.apps(), "targets": [{ "clusterName": "c0" }],
                "helm": { "repo": charts.url(), "chart": "web", "version": version, "values": { "own": 1 } },
                "lifecycle": {
                    "valuesFrom": [{ "kind": "Secret", "name": "own", "valuesKey": "msg", "targetPath": "msg" }],
                    "commonMetadata": { "labels": { "team": "a" } },
                    "postRenderers": [{ "kustomize": { "patches": [{ "target": { "kind": "ConfigMap" }, "patch": patch }] } }],
                },
            },
        })
        .to_string()
    };
    let first = helmop("1.0.0", patch);
    environment
        .helmops
        .namespace
        .kubectl()
        .apply(&first)
        .await
        .unwrap()
        .ok()
        .unwrap();
    environment.until_revision("web", "web", 1).await;
    let of_agent = format!("--agent-namespace={}", environment.cluster.system.name());
    let masked = environment.ok(&["values", "web", &of_agent]).await;
    assert_eq!(masked, "msg: '*****'\nown: 1\n");
    let shown = environment
        .ok(&["values", "web", "--show-secrets", &of_agent])
        .await;
    assert_eq!(shown, "msg: geheim\nown: 1\n");

    let diff = async |helmop: String| {
        let arguments = ["diff", "-f", "-", "--manifests", &of_agent];
        let output = environment.helmop_with(&arguments, &helmop).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        output.stdout
    };
    // Another version of the chart has the same objects, after the same patches.
    let same = diff(helmop("1.1.0", patch)).await;
    assert_has(&same, &["+  version: 1.1.0\n"]);
    assert!(
        !same.contains("ConfigMap") && !same.contains("configmap"),
        "{same}"
    );
    let other = diff(helmop("1.0.0", &patch.replace("yes", "no"))).await;
    assert_has(&other, &["-  patched: \"yes\"\n+  patched: \"no\"\n"]);
}

/// What its author wants to learn from an administrator who looks at it.
const SPY: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: spy
data:
  found: {{ dig "data" "token" "nothing" (lookup "v1" "Secret" .Release.Namespace "admin-token") | quote }}
  address: {{ getHostByName "localhost" | quote }}
  kind: {{ .Capabilities.APIVersions.Has "fleet.cattle.io/v1alpha1/HelmOp" | quote }}
  values: {{ .Values.stolen | default "nothing" | quote }}
"#;
const ESCAPES: &str =
    r#"{{ lookup "v1" "Secret" "" "" }}{{ fail "\u001b]0;title\u0007\u001b[2J\u202etxt" }}"#;

/// A Secret that the chart and the values of a HelmOp of `deployer` name.
struct Rights {
    environment: Environment,
}

/// The Secret, as a template finds it.
const ENCODED: &str = "c3RvbGVuOiBnZWhlaW0=";

impl Rights {
    async fn new(prefix: &str) -> Self {
        let environment = Environment::new(prefix).await;
        let charts = &environment.cluster.charts;
        charts.web("1.0.0", &[("spy", SPY)]).await;
        charts.web("2.0.0", &[("fail", ESCAPES)]).await;
        let secret = "--from-literal=token=stolen: geheim";
        let secret = ["create", "secret", "generic", "admin-token", secret];
        environment.cluster.kubectl(&secret).await;
        Self { environment }
    }

    fn system(&self) -> &str {
        self.environment.cluster.system.name()
    }

    async fn create_account(&self) {
        let account = ["create", "serviceaccount", "deployer"];
        run(&self.environment.cluster.system, &account).await;
    }

    /// `diff --manifests` of a HelmOp with this version of the chart, and with `valuesFrom` or without it.
    async fn diff(&self, version: &str, has_values: bool, more: &[&str]) -> Output {
        let apps = self.environment.apps();
        let reference =
            json!({ "secretKeyRef": { "name": "admin-token", "namespace": apps, "key": "token" } });
        let values_from = if has_values { json!([reference]) } else { json!([]) };
        let url = self.environment.cluster.charts.url();
        let helmop = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": "spy" },
            "spec": {
                "defaultNamespace": apps, "serviceAccount": "deployer", "targets": [{ "clusterName": "c0" }],
                "helm": { "repo": url, "chart": "web", "version": version, "valuesFrom": values_from },
            },
        });
        let of_agent = format!("--agent-namespace={}", self.system());
        let mut arguments = vec!["diff", "-f", "-", "--manifests", &of_agent];
        arguments.extend(more);
        self.environment
            .helmop_with(&arguments, &helmop.to_string())
            .await
    }
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[tokio::test]
async fn a_chart_finds_nothing_of_the_cluster_but_its_kinds() {
    let rights = Rights::new("cli-rights").await;
    let output = rights.diff("1.0.0", false, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = [
        "+  found: nothing\n",
        "+  address: \"\"\n",
        "+  kind: \"true\"\n",
        "+  values: nothing\n",
    ];
    assert_has(&output.stdout, &found);
    assert_has(&output.stderr, &["calls lookup (web/templates/spy.yaml)"]);

    // What it fails with controls no terminal.
    let output = rights.diff("2.0.0", false, &[]).await;
    assert_has(
        &output.stderr,
        &["]0;titletxt", "calls lookup (web/templates/fail.yaml)"],
    );
    assert!(!output.stderr.contains("Helm 4"), "{output:?}");
    assert!(!output.stderr.contains(bounded_text::is_control), "{output:?}");
}

#[tokio::test]
async fn a_chart_and_its_values_are_read_as_the_account_that_would_deploy() {
    let rights = Rights::new("cli-account").await;
    let missing = rights.diff("1.0.0", false, &["--with-lookup"]).await;
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert_has(&missing.stderr, &["deployer: it does not exist"]);
    rights.create_account().await;
    let account = format!("system:serviceaccount:{}:deployer", rights.system());
    for (has_values, flags) in [(false, &["--with-lookup"][..]), (true, &[])] {
        let forbidden = rights.diff("1.0.0", has_values, flags).await;
        assert_eq!(forbidden.status.code(), Some(2), "{forbidden:?}");
        assert_has(&forbidden.stderr, &[&account, "admin-token", "forbidden"]);
        let has_secret = forbidden.stdout.contains("geheim") || forbidden.stdout.contains(ENCODED);
        assert!(!has_secret, "{forbidden:?}");
    }
    let found = format!("+  found: {ENCODED}\n");
    let found = [&*found, "+  address: \"\"\n", "+  values: geheim\n"];

    // The person decides so.
    let output = rights
        .diff("1.0.0", true, &["--with-lookup", "--as-myself"])
        .await;
    assert_has(&output.stdout, &found);
    assert!(!output.stderr.contains("calls lookup"), "{output:?}");

    // The account is allowed to.
    let role = [
        "create",
        "role",
        "read",
        "--verb=get",
        "--resource=secrets,configmaps",
    ];
    rights.environment.cluster.kubectl(&role).await;
    let account = format!("--serviceaccount={}:deployer", rights.system());
    let binding = ["create", "rolebinding", "read", "--role=read", &account];
    rights.environment.cluster.kubectl(&binding).await;
    let output = rights.diff("1.0.0", true, &["--with-lookup"]).await;
    assert_has(&output.stdout, &found);
}

#[tokio::test]
async fn a_person_who_may_not_impersonate_the_account_is_refused() {
    let rights = Rights::new("cli-viewer").await;
    rights.create_account().await;
    let environment = &rights.environment;
    let namespace = &environment.helmops.namespace;
    // This person can read everything.
    let role = format!("{}-view", environment.apps());
    let of_role = format!("--clusterrole={role}");
    let account = format!("--serviceaccount={}:viewer", namespace.name());
    for arguments in [
        &["create", "serviceaccount", "viewer"][..],
        &[
            "create",
            "clusterrole",
            &role,
            "--verb=get,list,watch",
            "--resource=*.*",
        ],
        &["create", "clusterrolebinding", &role, &of_role, &account],
    ] {
        run(namespace, arguments).await;
    }
    let token = run(namespace, &["create", "token", "viewer"]).await;
    let kubeconfig = agent::kubeconfig(&environment.cluster.management, token.trim(), namespace.name());
    let file = environment
        .helmops
        .suite
        .bed
        .directory
        .join(format!("{role}.kubeconfig"));
    std::fs::write(&file, kubeconfig).unwrap();
    let viewer = format!("--kubeconfig={}", file.display());
    let needed = format!(
        "impersonate serviceaccounts deployer in namespace {}",
        rights.system()
    );
    for (has_values, flags) in [(false, &["--with-lookup", &*viewer][..]), (true, &[&*viewer])] {
        let refused = rights.diff("1.0.0", has_values, flags).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert_has(&refused.stderr, &[&needed, "--as-myself"]);
        assert!(!refused.stdout.contains("geheim"), "{refused:?}");
    }
    let output = rights.diff("1.0.0", false, &[&viewer]).await;
    assert_has(&output.stdout, &["+  found: nothing\n"]);
    let output = rights.diff("1.0.0", true, &["--as-myself", &viewer]).await;
    assert_has(&output.stdout, &["+  values: geheim\n"]);
}
