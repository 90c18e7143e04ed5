//! What Policies allow, and what they do not.

use serde_json::{Value, json};

use crate::{Expected, Table};

const REPO: &str = "https://charts.example.com/stable";

/// Adds all of them.
pub fn add(table: &mut Table) {
    for (group, add) in [
        ("names and patterns", names_and_patterns as fn(&mut Table)),
        ("archives and registries", archives_and_registries),
        ("Git", git),
        ("other packed charts", packed),
        ("targets", targets),
        ("required accounts", required_accounts),
        ("all violations", all_violations),
        ("downstream resources", downstream_resources),
        ("namespaces of dependencies", dependencies),
    ] {
        table.group(group);
        add(table);
    }
}

impl Table {
    /// Adds a HelmOp of chart `web`, merged with other fields, and what a Policy with these fields does not allow in it.
    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn denied(&mut self, fields: Value, over: Value, expected: &[(&str, &str)]) {
        let mut spec = json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.2.3" } });
        json_patch::merge(&mut spec, &over);
        let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
        let mut policy = json!({ "metadata": { "name": "p", "namespace": "fleet-default" } });
        json_patch::merge(&mut policy, &fields);
        let errors = expected.iter().map(|(path, words)| Expected {
            path: (*path).to_owned(),
            reason: "PolicyViolation",
            words: vec![(*words).to_owned()],
        });
        let errors = errors.collect();
        self.add(object, vec![policy], errors);
    }
}

fn oci(repo: &str) -> Value {
    json!({ "helm": { "repo": repo, "chart": null, "version": "1.2.3" } })
}

fn archive(url: &str) -> Value {
    json!({ "helm": { "repo": null, "chart": url, "version": null } })
}

fn names_and_patterns(table: &mut Table) {
    let accounts = json!({ "allowedServiceAccounts": ["a", "b"] });
    let secrets = json!({ "helmOp": { "allowedHelmSecretNames": ["s"] } });
    let repos = json!({ "helmOp": { "allowedHelmRepoPatterns": [r"^https://charts\.example\.com/.*"] } });
    let charts = json!({ "helmOp": { "allowedChartPatterns": ["^web(-.*)?"] } });
    let content = json!({ "helmOp": { "allowedDelivery": ["Content"] } });
    for (fields, over, expected) in [
        (
            json!({ "requireServiceAccount": true }),
            json!({}),
            &[("spec.serviceAccount", "serviceAccount is required")][..],
        ),
        (
            json!({ "requireServiceAccount": true }),
            json!({ "serviceAccount": "any" }),
            &[],
        ),
        (
            accounts.clone(),
            json!({ "serviceAccount": "c" }),
            &[("spec.serviceAccount", "disallowed serviceAccount c")],
        ),
        (accounts.clone(), json!({ "serviceAccount": "b" }), &[]),
        // No name is required.
        (accounts.clone(), json!({}), &[]),
        (
            secrets.clone(),
            json!({ "helmSecretName": "t" }),
            &[("spec.helmSecretName", "disallowed helmSecretName t")],
        ),
        (secrets.clone(), json!({ "helmSecretName": "s" }), &[]),
        // No Secret is used.
        (secrets, json!({}), &[]),
        (
            repos.clone(),
            json!({ "helm": { "repo": "http://charts.example.com/x" } }),
            &[("spec.helm.repo", "disallowed helm repo http")],
        ),
        // A pattern must match the whole text.
        (
            repos.clone(),
            json!({ "helm": { "repo": "http://h/https://charts.example.com/" } }),
            &[("spec.helm.repo", "disallowed helm repo http")],
        ),
        (repos, json!({}), &[]),
        (
            charts.clone(),
            json!({ "helm": { "chart": "webhook" } }),
            &[("spec.helm.chart", "disallowed helm chart webhook")],
        ),
        (
            charts.clone(),
            json!({ "helm": { "chart": "my-web" } }),
            &[("spec.helm.chart", "disallowed helm chart my-web")],
        ),
        (charts.clone(), json!({ "helm": { "chart": "web-1" } }), &[]),
        (charts, json!({}), &[]),
        // The default counts, too.
        (
            content.clone(),
            json!({}),
            &[(
                "spec.chartSource.deliver",
                "disallowed chartSource.deliver Direct",
            )],
        ),
        (content, json!({ "chartSource": { "deliver": "Content" } }), &[]),
    ] {
        table.denied(fields, over, expected);
    }
}

fn git(table: &mut Table) {
    let repos =
        json!({ "helmOp": { "allowedHelmRepoPatterns": [r"git\+https://h/team/.*", "https://h/.*"] } });
    let charts = json!({ "helmOp": { "allowedChartPatterns": ["charts/.*"] } });
    let secrets = json!({ "helmOp": { "allowedHelmSecretNames": ["a"], "defaultHelmSecretName": "a" } });
    let direct = json!({ "helmOp": { "allowedDelivery": ["Direct"] } });
    let git = |git: Value| json!({ "helm": null, "chartSource": { "git": git } });
    for (fields, over, expected) in [
        (&repos, git(json!({ "url": "https://h/team/n.git" })), None),
        // A pattern for Helm repositories allows no Git repository.
        (
            &repos,
            git(json!({ "url": "https://h/other/n.git" })),
            Some((
                "spec.chartSource.git.url",
                "disallowed helm repo git+https://h/other",
            )),
        ),
        (
            &repos,
            git(json!({ "url": "git@h:team/n.git" })),
            Some((
                "spec.chartSource.git.url",
                "disallowed helm repo git+ssh://h/team/n.git",
            )),
        ),
        (
            &charts,
            git(json!({ "url": "https://h/n", "path": "charts/web" })),
            None,
        ),
        (
            &charts,
            git(json!({ "url": "https://h/n", "path": "web" })),
            Some(("spec.chartSource.git.path", "disallowed helm chart web")),
        ),
        (
            &secrets,
            git(json!({ "url": "https://h/n", "secretRef": { "name": "b" } })),
            Some((
                "spec.chartSource.git.secretRef.name",
                "disallowed helmSecretName b",
            )),
        ),
        // The default is for repositories and registries.
        (&secrets, git(json!({ "url": "https://h/n" })), None),
        (
            &direct,
            git(json!({ "url": "https://h/n" })),
            Some((
                "spec.chartSource.deliver",
                "disallowed chartSource.deliver Content",
            )),
        ),
    ] {
        table.denied(fields.clone(), over, expected.as_slice());
    }
}

/// A pattern for repositories allows nothing else that charts are packed from.
fn packed(table: &mut Table) {
    let repos = json!({ "helmOp": { "allowedHelmRepoPatterns": ["https://h/.*"] } });
    let charts = json!({ "helmOp": { "allowedChartPatterns": ["charts/.*"] } });
    let secrets = json!({ "helmOp": { "allowedHelmSecretNames": ["a"] } });
    let registries =
        json!({ "helmOp": { "allowedHelmRepoPatterns": ["oci://h/.*", r"artifact\+oci://h/deploy/.*"] } });
    let config_maps = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "helm": null, "chartSource": { "configMaps": names, "manifests": {} } })
    };
    let artifact = |oci: Value| json!({ "helm": null, "chartSource": { "oci": oci } });
    let bucket = |bucket: Value| json!({ "helm": null, "chartSource": { "bucket": bucket } });
    for (fields, over, expected) in [
        (
            &repos,
            bucket(json!({ "endpoint": "h", "bucketName": "team" })),
            Some((
                "spec.chartSource.bucket.bucketName",
                "disallowed helm repo bucket+https://h/team",
            )),
        ),
        (
            &charts,
            bucket(json!({ "endpoint": "h", "bucketName": "team", "path": "web" })),
            Some(("spec.chartSource.bucket.path", "disallowed helm chart web")),
        ),
        (
            &secrets,
            bucket(json!({ "endpoint": "h", "bucketName": "team", "secretRef": { "name": "b" } })),
            Some((
                "spec.chartSource.bucket.secretRef.name",
                "disallowed helmSecretName b",
            )),
        ),
        // A pattern for charts in registries allows no artifact.
        (
            &registries,
            artifact(json!({ "url": "oci://h/team/web" })),
            Some((
                "spec.chartSource.oci.url",
                "disallowed helm repo artifact+oci://h/team/web",
            )),
        ),
        (
            &registries,
            artifact(json!({ "url": "oci://h/deploy/web" })),
            None,
        ),
        (
            &charts,
            artifact(json!({ "url": "oci://h/team/web" })),
            Some(("spec.chartSource.oci.path", "disallowed helm chart .")),
        ),
        (
            &secrets,
            artifact(json!({ "url": "oci://h/team/web", "secretRef": { "name": "b" } })),
            Some((
                "spec.chartSource.oci.secretRef.name",
                "disallowed helmSecretName b",
            )),
        ),
        // Nor does any pattern for repositories allow ConfigMaps.
        (
            &repos,
            config_maps(&["web", "db"]),
            Some((
                "spec.chartSource.configMaps.name",
                "disallowed helm repo configmaps+web,db",
            )),
        ),
    ] {
        table.denied(fields.clone(), over, expected.as_slice());
    }
}

fn archives_and_registries(table: &mut Table) {
    let repos = json!({ "helmOp": { "allowedHelmRepoPatterns": [r"https://charts\.example\.com/.*", r"oci://r\.example\.com/a/.*"] } });
    let charts = json!({ "helmOp": { "allowedChartPatterns": ["web", r"https://charts\.example\.com/web-.*\.tgz", "oci://.*/db"] } });
    for (fields, over, expected) in [
        (&repos, archive("https://charts.example.com/x/web-1.tgz"), None),
        (
            &repos,
            archive("https://elsewhere.example.com/web-1.tgz"),
            Some(("spec.helm.chart", "disallowed helm repo https")),
        ),
        (&repos, oci("oci://r.example.com/a/web"), None),
        (
            &repos,
            oci("oci://r.example.com/b/web"),
            Some(("spec.helm.repo", "disallowed helm repo oci")),
        ),
        (&charts, archive("https://charts.example.com/web-1.tgz"), None),
        (
            &charts,
            archive("https://charts.example.com/db-1.tgz"),
            Some(("spec.helm.chart", "disallowed helm chart https")),
        ),
        // The last part matches.
        (&charts, oci("oci://r.example.com/a/web"), None),
        (&charts, oci("oci://r.example.com/a/web:1.2.3"), None),
        // The whole reference matches.
        (&charts, oci("oci://r.example.com/a/db"), None),
        (
            &charts,
            oci("oci://r.example.com/web/shop"),
            Some(("spec.helm.repo", "disallowed helm chart oci")),
        ),
    ] {
        let expected: Vec<_> = expected.into_iter().collect();
        table.denied(fields.clone(), over, &expected);
    }
}

fn targets(table: &mut Table) {
    let fields = json!({
        "allowedServiceAccounts": ["a"],
        "helmOp": { "allowedHelmRepoPatterns": [REPO, "oci://r/.*"], "allowedChartPatterns": ["web", "db"] }
    });
    for (target, expected) in [
        (json!({ "serviceAccount": "a" }), &[][..]),
        (
            json!({ "serviceAccount": "b" }),
            &[("spec.targets[1].serviceAccount", "disallowed serviceAccount b")],
        ),
        (json!({ "helm": { "version": "2.x", "values": { "a": 1 } } }), &[]),
        (json!({ "helm": { "chart": "db" } }), &[]),
        (
            json!({ "helm": { "chart": "shop" } }),
            &[("spec.targets[1].helm.chart", "disallowed helm chart shop")],
        ),
        // The inherited chart is reported once.
        (
            json!({ "helm": { "repo": "https://h" } }),
            &[("spec.targets[1].helm.repo", "disallowed helm repo https")],
        ),
        (json!({ "helm": { "repo": "oci://r/web" } }), &[]),
        (
            json!({ "helm": { "repo": "oci://h/shop" } }),
            &[
                ("spec.targets[1].helm.repo", "disallowed helm repo oci"),
                ("spec.targets[1].helm.repo", "disallowed helm chart oci"),
            ],
        ),
    ] {
        table.denied(fields.clone(), json!({ "targets": [{}, target] }), expected);
    }
    // Violations of the HelmOp itself are not reported again for targets that inherit them.
    let over = json!({
        "helm": { "chart": "shop" }, "targets": [{ "helm": {} }, { "helm": { "repo": "https://h" } }, { "helm": { "chart": "shop" } }]
    });
    let expected = [
        ("spec.helm.chart", "disallowed helm chart shop"),
        ("spec.targets[1].helm.repo", "disallowed helm repo https"),
    ];
    table.denied(fields.clone(), over, &expected);
    // If the HelmOp names an archive, a target may name another one.
    let over = json!({
        "helm": { "repo": null, "chart": "https://h/x.tgz", "version": null },
        "targets": [{ "helm": { "chart": "https://h/y.tgz" } }]
    });
    let fields = json!({ "helmOp": { "allowedHelmRepoPatterns": ["https://h/x.tgz"] } });
    let expected = [("spec.targets[0].helm.chart", "disallowed helm repo https")];
    table.denied(fields, over, &expected);
}

fn required_accounts(table: &mut Table) {
    let expected = [("spec.serviceAccount", "serviceAccount is required")];
    let over = json!({ "targets": [{ "serviceAccount": "a" }] });
    table.denied(json!({ "requireServiceAccount": true }), over, &expected);
}

fn all_violations(table: &mut Table) {
    let fields = json!({
        "requireServiceAccount": true,
        "helmOp": {
            "allowedHelmSecretNames": ["s"], "allowedHelmRepoPatterns": ["oci://.*"], "allowedChartPatterns": ["a|b"]
        }
    });
    let expected = [
        ("spec.serviceAccount", "serviceAccount is required"),
        ("spec.helmSecretName", "disallowed helmSecretName t"),
        ("spec.helm.repo", "disallowed helm repo https"),
        ("spec.helm.chart", "disallowed helm chart web"),
    ];
    table.denied(fields, json!({ "helmSecretName": "t" }), &expected);
}

fn downstream_resources(table: &mut Table) {
    let required =
        json!({ "requireServiceAccount": true, "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    let allowed = json!({
        "requireServiceAccount": true, "allowedDownstreamResources": ["Secret/pull-.*", "ConfigMap/settings"],
        "helmOp": { "allowedHelmSecretNames": ["charts"] }
    });
    for (fields, kind, name) in [
        (
            json!({ "helmOp": { "allowedHelmSecretNames": ["charts"] } }),
            "secret",
            "prod-kubeconfig",
        ),
        (required.clone(), "Secret", "charts"),
        (required, "configmap", "coredns"),
        (allowed.clone(), "ConfigMap", "pull-a"),
        (allowed, "Secret", "my-pull-a"),
    ] {
        let resources = json!([{ "kind": kind, "name": name }]);
        let over = json!({ "serviceAccount": "a", "downstreamResources": resources });
        let words = "disallowed downstream resource";
        table.denied(
            fields.clone(),
            over,
            &[("spec.downstreamResources[0].name", words)],
        );
        let over = json!({ "serviceAccount": "a", "targets": [{}, { "downstreamResources": resources }] });
        table.denied(
            fields,
            over,
            &[("spec.targets[1].downstreamResources[0].name", words)],
        );
    }
}

fn dependencies(table: &mut Table) {
    let on = |namespace: &str| json!({ "serviceAccount": "a", "lifecycle": { "dependsOn": [{ "name": "db", "namespace": namespace }] } });
    let path = "spec.lifecycle.dependsOn[0].namespace";
    let denied = [(path, "disallowed dependency namespace data")];
    let required = json!({ "requireServiceAccount": true });
    let allowed = json!({ "requireServiceAccount": true, "allowedDependencyNamespaces": ["data-.*"] });
    table.denied(json!({}), on("data"), &[]);
    table.denied(required.clone(), on("data"), &denied);
    table.denied(required, on("fleet-default"), &[]);
    table.denied(allowed.clone(), on("data"), &denied);
    table.denied(allowed, on("data-1"), &[]);
}
