//! `diff`.

use super::environment::Environment;
use crate::harness::agent::CONFIG;

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
