//! Charts, versions, names and selectors.

use serde_json::{Value, json};

use crate::{Table, valid_spec, with_helm};

/// Adds all of them.
pub fn add(table: &mut Table) {
    for (group, add) in [
        ("chart forms", chart_forms as fn(&mut Table)),
        ("Git", git),
        ("beside Git", beside_git),
        ("buckets", bucket),
        ("beside buckets", beside_bucket),
        ("artifacts", artifact),
        ("ConfigMaps", config_maps),
        ("manifests", manifests),
        ("URLs", urls),
        ("tags", tags),
        ("versions", versions),
        ("inheritance", inheritance),
        ("names", names),
        ("durations", durations),
        ("own name", own_name),
        ("selectors and amounts", selectors_and_amounts),
        ("partitions", partitions),
        ("dependency on itself", dependency_on_itself),
        ("charts", charts),
        ("values", values),
        ("templates", templates),
    ] {
        table.group(group);
        add(table);
    }
}

/// A spec with a chart in Git, merged with other fields.
fn with_git(over: &Value) -> Value {
    let mut spec = json!({
        "chartSource": { "git": { "url": "https://h/g/n.git" } },
        "targets": [{ "clusterSelector": {} }],
    });
    json_patch::merge(&mut spec, over);
    spec
}

fn git(table: &mut Table) {
    for (git, field, reason, words) in [
        (
            json!({ "url": "" }),
            "url",
            "InvalidURL",
            &["Required value", "git clone"][..],
        ),
        (
            json!({ "url": "git://h/n" }),
            "url",
            "InvalidURL",
            &["use https:// or ssh://"],
        ),
        (
            json!({ "url": "https://u:geheim@h/n.git" }),
            "url",
            "InvalidURL",
            &["https://h/n.git", "secretRef"],
        ),
        (
            json!({ "ref": { "branch": "refs/heads/main" } }),
            "ref.branch",
            "InvalidVersion",
            &["begins with refs/"],
        ),
        (
            json!({ "ref": { "semver": "latest" } }),
            "ref.semver",
            "InvalidVersion",
            &["\"latest\""],
        ),
        (
            json!({ "ref": { "commit": "0123abc" } }),
            "ref.commit",
            "InvalidVersion",
            &["git rev-parse HEAD"],
        ),
        (
            json!({ "path": "../web" }),
            "path",
            "InvalidChartName",
            &["contains .."],
        ),
        (
            json!({ "reconcileStrategy": "Always" }),
            "reconcileStrategy",
            "InvalidVersion",
            &["Always", "expected Revision or ChartVersion"],
        ),
        (
            json!({ "secretRef": { "name": "My Secret" } }),
            "secretRef.name",
            "InvalidName",
            &["My Secret"],
        ),
        (
            json!({ "secretRef": {} }),
            "secretRef.name",
            "InvalidName",
            &["Required value"],
        ),
    ] {
        let path = format!("spec.chartSource.git.{field}");
        let over = json!({ "chartSource": { "git": git } });
        table.spec(&with_git(&over), &path, reason, words);
    }
}

/// A spec with a chart in a bucket, merged with other fields.
fn with_bucket(over: &Value) -> Value {
    let mut spec = json!({
        "chartSource": { "bucket": { "bucketName": "charts", "endpoint": "minio.example.com:9000", "path": "web" } },
        "targets": [{ "clusterSelector": {} }],
    });
    json_patch::merge(&mut spec, over);
    spec
}

fn bucket(table: &mut Table) {
    for (bucket, field, reason, words) in [
        (
            json!({ "bucketName": "" }),
            "bucketName",
            "InvalidURL",
            &["Required value", "write the name alone"][..],
        ),
        (
            json!({ "bucketName": "s3://charts" }),
            "bucketName",
            "InvalidURL",
            &["s3://charts", "write the name alone"],
        ),
        (
            json!({ "endpoint": null }),
            "endpoint",
            "InvalidURL",
            &["Required value", "minio.example.com:9000"],
        ),
        (
            json!({ "endpoint": "http://minio:9000" }),
            "endpoint",
            "InvalidURL",
            &["set insecure: true"],
        ),
        (
            json!({ "endpoint": "https://u:geheim@minio:9000" }),
            "endpoint",
            "InvalidURL",
            &["put the credentials into the Secret"],
        ),
        (
            json!({ "endpoint": "https://minio:9000/charts" }),
            "endpoint",
            "InvalidURL",
            &["has a path", "bucketName"],
        ),
        (
            json!({ "region": "eu west" }),
            "region",
            "InvalidURL",
            &["eu west", "eu-central-1"],
        ),
        (
            json!({ "prefix": "/charts" }),
            "prefix",
            "InvalidURL",
            &["/charts", "without a slash at its start"],
        ),
        (
            json!({ "provider": "azure", "endpoint": "https://10.0.0.1" }),
            "endpoint",
            "InvalidURL",
            &["https://ACCOUNT.blob.core.windows.net"],
        ),
        (
            json!({ "path": "../web" }),
            "path",
            "InvalidChartName",
            &["../web", "charts/web-1.0.0.tgz"],
        ),
        (
            json!({ "path": "web-1.0.0.tgz", "reconcileStrategy": "Revision" }),
            "path",
            "InvalidChartName",
            &["web-1.0.0.tgz", "ChartVersion"],
        ),
        (
            json!({ "reconcileStrategy": "Always" }),
            "reconcileStrategy",
            "InvalidVersion",
            &["Always", "expected Revision or ChartVersion"],
        ),
        (
            json!({ "secretRef": {} }),
            "secretRef.name",
            "InvalidName",
            &["Required value"],
        ),
    ] {
        let path = format!("spec.chartSource.bucket.{field}");
        let over = json!({ "chartSource": { "bucket": bucket } });
        table.spec(&with_bucket(&over), &path, reason, words);
    }
}

/// A spec with a chart in an artifact, merged with other fields.
fn with_artifact(over: &Value) -> Value {
    let mut spec = json!({
        "chartSource": { "oci": { "url": "oci://r.example.com/team/web", "path": "web" } },
        "targets": [{ "clusterSelector": {} }],
    });
    json_patch::merge(&mut spec, over);
    spec
}

fn artifact(table: &mut Table) {
    for (oci, field, reason, words) in [
        (
            json!({ "url": "" }),
            "url",
            "InvalidURL",
            &["Required value", "oci://registry.example.com/team/web"][..],
        ),
        (
            json!({ "url": "https://r.example.com/web" }),
            "url",
            "InvalidURL",
            &["write oci://"],
        ),
        (
            json!({ "url": "oci://r.example.com/web:1.0.0" }),
            "url",
            "InvalidURL",
            &["oci://r.example.com/web:1.0.0", "write it in ref.tag"],
        ),
        (
            json!({ "url": "oci://u:geheim@r.example.com/web" }),
            "url",
            "InvalidURL",
            &["oci://r.example.com/web", "name it in secretRef"],
        ),
        (
            json!({ "ref": { "tag": "a b" } }),
            "ref.tag",
            "InvalidVersion",
            &["\"a b\"", "is not a tag"],
        ),
        (
            json!({ "ref": { "semver": "latest" } }),
            "ref.semver",
            "InvalidVersion",
            &["\"latest\""],
        ),
        (
            json!({ "ref": { "digest": "sha256:12" } }),
            "ref.digest",
            "InvalidVersion",
            &["needs 64 hexadecimal digits"],
        ),
        (
            json!({ "path": "../web" }),
            "path",
            "InvalidChartName",
            &["../web", "contains .."],
        ),
        (
            json!({ "reconcileStrategy": "Always" }),
            "reconcileStrategy",
            "InvalidVersion",
            &["expected Revision or ChartVersion"],
        ),
        (
            json!({ "secretRef": {} }),
            "secretRef.name",
            "InvalidName",
            &["Required value"],
        ),
    ] {
        let path = format!("spec.chartSource.oci.{field}");
        let over = json!({ "chartSource": { "oci": oci } });
        table.spec(&with_artifact(&over), &path, reason, words);
    }
    for (over, path, reason, word) in [
        (
            json!({ "chartSource": { "bucket": { "bucketName": "charts", "endpoint": "minio:9000" } } }),
            "spec.chartSource.oci",
            "RepoForbidden",
            "remove one of both",
        ),
        (
            json!({ "helm": { "version": "1.x" } }),
            "spec.helm.version",
            "VersionForbidden",
            "spec.chartSource.oci.ref",
        ),
        (
            json!({ "helmSecretName": "access" }),
            "spec.helmSecretName",
            "VersionForbidden",
            "spec.chartSource.oci.secretRef",
        ),
    ] {
        table.spec(&with_artifact(&over), path, reason, &[word]);
    }
}

/// Manifests in ConfigMaps.
fn config_maps(table: &mut Table) {
    let spec = |over: &Value| {
        let mut spec = json!({
            "chartSource": { "configMaps": [{ "name": "web" }], "manifests": {} },
            "targets": [{ "clusterSelector": {} }],
        });
        json_patch::merge(&mut spec, over);
        spec
    };
    for (over, path, reason, word) in [
        (
            json!({ "chartSource": { "manifests": null } }),
            "spec.chartSource.manifests",
            "HelmRequired",
            "add manifests: {}",
        ),
        (
            json!({ "chartSource": { "configMaps": [{ "name": "" }] } }),
            "spec.chartSource.configMaps[0].name",
            "InvalidName",
            "name the ConfigMap",
        ),
        (
            json!({ "chartSource": { "configMaps": [{ "name": "A B" }] } }),
            "spec.chartSource.configMaps[0].name",
            "InvalidName",
            "A B",
        ),
        (
            json!({ "chartSource": { "configMaps": [{ "name": "a" }, { "name": "a" }] } }),
            "spec.chartSource.configMaps[1].name",
            "InvalidName",
            "twice",
        ),
        (
            json!({ "chartSource": { "git": { "url": "https://h/n" } } }),
            "spec.chartSource.configMaps",
            "RepoForbidden",
            "remove one of both",
        ),
        (
            json!({ "helm": { "chart": "web" } }),
            "spec.helm.chart",
            "ChartForbidden",
            "remove chart",
        ),
        (
            json!({ "onDigestChange": "Follow" }),
            "spec.onDigestChange",
            "VersionForbidden",
            "each change is released",
        ),
        (
            json!({ "helmSecretName": "access" }),
            "spec.helmSecretName",
            "VersionForbidden",
            "fetch nothing",
        ),
    ] {
        table.spec(&spec(&over), path, reason, &[word]);
    }
}

/// Nothing else selects a chart.
fn beside_bucket(table: &mut Table) {
    for (over, path, reason, word) in [
        (
            json!({ "chartSource": { "git": { "url": "https://h/g/n.git" } } }),
            "spec.chartSource.bucket",
            "RepoForbidden",
            "remove one of both",
        ),
        (
            json!({ "helm": { "repo": "https://charts.example.com" } }),
            "spec.helm.repo",
            "RepoForbidden",
            "spec.chartSource.bucket",
        ),
        (
            json!({ "helmSecretName": "access" }),
            "spec.helmSecretName",
            "VersionForbidden",
            "spec.chartSource.bucket.secretRef",
        ),
        (
            json!({ "chartSource": { "deliver": "Direct" } }),
            "spec.chartSource.deliver",
            "InvalidDelivery",
            "use Content",
        ),
    ] {
        table.spec(&with_bucket(&over), path, reason, &[word]);
    }
}

/// Nothing else selects a chart.
fn beside_git(table: &mut Table) {
    for (over, path, reason, word) in [
        (
            json!({ "helm": { "repo": "https://charts.example.com" } }),
            "spec.helm.repo",
            "RepoForbidden",
            "remove repo",
        ),
        (
            json!({ "helm": { "chart": "web" } }),
            "spec.helm.chart",
            "ChartForbidden",
            "spec.chartSource.git.path",
        ),
        (
            json!({ "helm": { "version": "1.x" } }),
            "spec.helm.version",
            "VersionForbidden",
            "Chart.yaml",
        ),
        (
            json!({ "targets": [{ "helm": { "version": "1.x" } }] }),
            "spec.targets[0].helm.version",
            "VersionForbidden",
            "Chart.yaml",
        ),
        (
            json!({ "helmSecretName": "access" }),
            "spec.helmSecretName",
            "VersionForbidden",
            "secretRef",
        ),
        (
            json!({ "semverFilter": "-rc" }),
            "spec.semverFilter",
            "VersionForbidden",
            "ref.semver",
        ),
        (
            json!({ "onDigestChange": "Follow" }),
            "spec.onDigestChange",
            "VersionForbidden",
            "reconcileStrategy",
        ),
        (
            json!({ "minAge": "72h" }),
            "spec.minAge",
            "VersionForbidden",
            "72h",
        ),
        (
            json!({ "chartSource": { "deliver": "Direct" } }),
            "spec.chartSource.deliver",
            "InvalidDelivery",
            "use Content",
        ),
    ] {
        table.spec(&with_git(&over), path, reason, &[word]);
    }
}

/// Manifests are files of a repository, and no chart.
fn manifests(table: &mut Table) {
    let manifests = |over: &Value| {
        let mut spec = with_git(&json!({ "chartSource": { "manifests": {} } }));
        json_patch::merge(&mut spec, over);
        spec
    };
    for (over, path, reason, words) in [
        (
            json!({ "chartSource": { "git": null }, "helm": { "repo": "https://h", "chart": "web" } }),
            "spec.chartSource.git",
            "HelmRequired",
            &[
                "name the repository",
                "spec.chartSource.bucket",
                "remove manifests",
            ][..],
        ),
        (
            json!({ "chartSource": { "git": { "reconcileStrategy": "ChartVersion" } } }),
            "spec.chartSource.git.reconcileStrategy",
            "VersionForbidden",
            &["remove reconcileStrategy, or set Revision"],
        ),
        (
            json!({ "helm": { "version": "1.x" } }),
            "spec.helm.version",
            "VersionForbidden",
            &["manifests have none"],
        ),
        (
            json!({ "chartSource": { "git": null, "bucket": { "endpoint": "h", "bucketName": "charts", "path": "web.tgz" } } }),
            "spec.chartSource.bucket.path",
            "InvalidChartName",
            &["web.tgz", "upload them unpacked"],
        ),
        (
            json!({ "helm": { "valuesFiles": ["prod.yaml"] } }),
            "spec.helm.valuesFiles",
            "ChartForbidden",
            &["prod.yaml", "set spec.helm.values"],
        ),
    ] {
        table.spec(&manifests(&over), path, reason, words);
    }
}

fn chart_forms(table: &mut Table) {
    let archive = "https://h/c.tgz";
    table.spec(
        &json!({ "targets": [] }),
        "spec.helm",
        "HelmRequired",
        &["Required value", "helm options are empty"],
    );
    table.spec(
        &with_helm(json!({ "chart": archive, "repo": "https://h" })),
        "spec.helm.repo",
        "RepoForbidden",
        &[
            "Forbidden: \"https://h\"",
            "tarball chart with a non-empty repo field",
        ],
    );
    for version in ["1.2.3", "latest", "*"] {
        table.spec(
            &with_helm(json!({ "chart": archive, "version": version })),
            "spec.helm.version",
            "VersionForbidden",
            &[version, "tarball chart with a non-empty version field"],
        );
    }
    let mut spec = with_helm(json!({ "chart": archive }));
    spec["chartSource"] = json!({ "deliver": "Content" });
    table.spec(
        &spec,
        "spec.chartSource.deliver",
        "InvalidDelivery",
        &["Invalid value: \"Content\"", archive, "use Direct"],
    );
    table.spec(
        &with_helm(json!({ "repo": "Oci://h/c", "chart": "c" })),
        "spec.helm.chart",
        "ChartForbidden",
        &["\"c\"", "OCI repository with a non-empty chart field"],
    );
    table.spec(
        &with_helm(json!({ "repo": "https://h" })),
        "spec.helm.chart",
        "ChartRequired",
        &["non-OCI repository with an empty chart field"],
    );
    table.spec(
        &with_helm(json!({ "chart": "c" })),
        "spec.helm.repo",
        "RepoRequired",
        &["non-tarball chart with an empty repo field"],
    );
}

fn urls(table: &mut Table) {
    for (repo, words) in [
        ("charts.example.com", "not an absolute URL"),
        ("ftp://charts.example.com", "scheme \"ftp\" is not supported"),
        ("https:///charts", "no host"),
        ("https://u:geheim@h:x/", "port"),
    ] {
        let spec = with_helm(json!({ "repo": repo, "chart": "c" }));
        table.spec(&spec, "spec.helm.repo", "InvalidURL", &["Invalid value", words]);
    }
    table.spec(
        &with_helm(json!({ "repo": "oci://h" })),
        "spec.helm.repo",
        "InvalidURL",
        &["no chart"],
    );
    table.spec(
        &with_helm(json!({ "repo": "oci://h/Team/c" })),
        "spec.helm.repo",
        "InvalidURL",
        &["\"Team\"", "capital letters"],
    );
    table.spec(
        &with_helm(json!({ "chart": "./c.tgz" })),
        "spec.helm.chart",
        "InvalidURL",
        &["./c.tgz"],
    );
}

fn tags(table: &mut Table) {
    for (repo, version, words) in [
        ("oci://h/c:1.2.3", "2.x", "is not in version \"2.x\""),
        (
            "oci://h/c:v1.2.3",
            "1.2.4",
            "tag \"v1.2.3\" in the reference is not in version",
        ),
    ] {
        table.spec(
            &with_helm(json!({ "repo": repo, "version": version })),
            "spec.helm.repo",
            "InvalidVersion",
            &[words],
        );
    }
    let target = json!({ "targets": [{ "helm": { "version": "2.x" } }] });
    let mut spec = with_helm(json!({ "repo": "oci://h/c:1.2.3" }));
    spec["targets"] = target["targets"].clone();
    table.spec(
        &spec,
        "spec.targets[0].helm.repo",
        "InvalidVersion",
        &["is not in version \"2.x\""],
    );
}

fn versions(table: &mut Table) {
    let spec = valid_spec(json!({ "helm": { "version": "foo" } }));
    table.spec(
        &spec,
        "spec.helm.version",
        "InvalidVersion",
        &["\"foo\"", "improper constraint: \"foo\""],
    );
    let spec = valid_spec(json!({ "targets": [{ "helm": { "version": ">=1.2.3.4" } }] }));
    table.spec(
        &spec,
        "spec.targets[0].helm.version",
        "InvalidVersion",
        &[">=1.2.3.4"],
    );
}

fn inheritance(table: &mut Table) {
    let main_archive = with_helm(json!({ "chart": "https://h/c.tgz" }));
    let with_target = |mut spec: Value, helm: Value| {
        spec["targets"] = json!([{ "clusterSelector": {}, "helm": helm }]);
        spec
    };
    table.spec(
        &with_target(main_archive.clone(), json!({ "version": "1.x" })),
        "spec.targets[0].helm.version",
        "VersionForbidden",
        &["inherited"],
    );
    table.spec(
        &with_target(main_archive, json!({ "repo": "https://h" })),
        "spec.targets[0].helm.repo",
        "RepoForbidden",
        &["inherits the chart archive"],
    );
    let spec = with_target(
        with_helm(json!({ "repo": "https://h", "chart": "c" })),
        json!({ "chart": "https://h/c.tgz" }),
    );
    table.spec(
        &spec,
        "spec.targets[0].helm.chart",
        "RepoForbidden",
        &["inherited from spec.helm.repo"],
    );
    let spec = with_target(
        with_helm(json!({ "repo": "oci://h/c" })),
        json!({ "repo": "https://h" }),
    );
    table.spec(
        &spec,
        "spec.targets[0].helm.chart",
        "ChartRequired",
        &["spec.helm.chart"],
    );
    // An error in spec.helm is not reported again for a target that only inherits it.
    let spec = with_target(
        with_helm(json!({ "repo": "https://h", "chart": "c", "version": "foo" })),
        json!({ "chart": "d" }),
    );
    table.spec(&spec, "spec.helm.version", "InvalidVersion", &[]);
}

fn names(table: &mut Table) {
    for (over, path, reason, word) in [
        (
            json!({ "helmSecretName": "My Secret" }),
            "spec.helmSecretName",
            "InvalidName",
            "My Secret",
        ),
        (
            json!({ "semverFilter": "(-rc" }),
            "spec.semverFilter",
            "InvalidVersion",
            "error parsing regexp: missing closing ): `(-rc`",
        ),
        (
            json!({ "caBundle": "-----BEGIN CERTIFICATE-----" }),
            "spec.caBundle",
            "CertificateError",
            "has to be that in base64: base64 -w0 ca.pem",
        ),
        (
            json!({ "namespace": "a.b" }),
            "spec.namespace",
            "InvalidName",
            "DNS label",
        ),
        (
            json!({ "defaultNamespace": "A" }),
            "spec.defaultNamespace",
            "InvalidName",
            "DNS label",
        ),
        (
            json!({ "serviceAccount": "-" }),
            "spec.serviceAccount",
            "InvalidName",
            "DNS name",
        ),
        (
            json!({ "helm": { "releaseName": "Web" } }),
            "spec.helm.releaseName",
            "InvalidReleaseName",
            "lower-case",
        ),
        (
            json!({ "helm": { "releaseName": "a".repeat(54) } }),
            "spec.helm.releaseName",
            "InvalidReleaseName",
            "53",
        ),
        (
            json!({ "labels": { "a": "b c" } }),
            "spec.labels[a]",
            "InvalidLabel",
            "b c",
        ),
        (
            json!({ "labels": { "a b": "c" } }),
            "spec.labels",
            "InvalidLabel",
            "a b",
        ),
        (
            json!({ "namespaceLabels": { "a": "-" } }),
            "spec.namespaceLabels[a]",
            "InvalidLabel",
            "-",
        ),
        (
            json!({ "namespaceAnnotations": { "": "x" } }),
            "spec.namespaceAnnotations",
            "InvalidLabel",
            "empty",
        ),
        (
            json!({ "pollingInterval": "1d" }),
            "spec.pollingInterval",
            "InvalidPollingInterval",
            "24h",
        ),
        (
            json!({ "pollingInterval": "-1h" }),
            "spec.pollingInterval",
            "InvalidPollingInterval",
            "negative",
        ),
        (
            json!({ "downstreamResources": [{ "kind": "Pod", "name": "a" }] }),
            "spec.downstreamResources[0].kind",
            "InvalidDownstreamResource",
            "Unsupported value: \"Pod\": supported kinds: Secret, ConfigMap",
        ),
        (
            json!({ "downstreamResources": [{ "kind": "Secret" }] }),
            "spec.downstreamResources[0].name",
            "InvalidDownstreamResource",
            "Required value",
        ),
    ] {
        table.spec(&valid_spec(over), path, reason, &[word]);
    }
}

fn selectors_and_amounts(table: &mut Table) {
    let invalid = json!({ "matchExpressions": [{ "key": "env", "operator": "Is", "values": ["a"] }] });
    for (over, path) in [
        (
            json!({ "targets": [{ "clusterSelector": invalid }] }),
            "spec.targets[0].clusterSelector",
        ),
        (
            json!({ "targets": [{ "clusterGroupSelector": invalid }] }),
            "spec.targets[0].clusterGroupSelector",
        ),
        (
            json!({ "targetRestrictions": [{ "clusterSelector": invalid }] }),
            "spec.targetRestrictions[0].clusterSelector",
        ),
        (
            json!({ "dependsOn": [{ "selector": invalid }] }),
            "spec.dependsOn[0].selector",
        ),
        (
            json!({ "allowedTargetNamespaceSelector": invalid }),
            "spec.allowedTargetNamespaceSelector",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "clusterSelector": invalid }] } }),
            "spec.rolloutStrategy.partitions[0].clusterSelector",
        ),
    ] {
        let path = format!("{path}.matchExpressions[0].operator");
        table.spec(
            &valid_spec(over),
            &path,
            "InvalidSelector",
            &["In, NotIn, Exists, DoesNotExist"],
        );
    }
    for (expression, path) in [
        (
            json!({ "key": "a b", "operator": "Exists" }),
            "matchExpressions[0].key",
        ),
        (
            json!({ "key": "a", "operator": "In" }),
            "matchExpressions[0].values",
        ),
        (
            json!({ "key": "a", "operator": "Exists", "values": ["b"] }),
            "matchExpressions[0].values",
        ),
        (
            json!({ "key": "a", "operator": "NotIn", "values": ["b", "c d"] }),
            "matchExpressions[0].values[1]",
        ),
    ] {
        let over = json!({ "targets": [{ "clusterSelector": { "matchExpressions": [expression] } }] });
        table.spec(
            &valid_spec(over),
            &format!("spec.targets[0].clusterSelector.{path}"),
            "InvalidSelector",
            &[],
        );
    }
    for amount in ["many", "10.5%", "%", "", "5 %"] {
        let over = json!({ "rolloutStrategy": { "partitions": [{ "maxUnavailable": amount }] } });
        table.spec(
            &valid_spec(over),
            "spec.rolloutStrategy.partitions[0].maxUnavailable",
            "InvalidRollout",
            &["percentage"],
        );
    }
}

fn partitions(table: &mut Table) {
    let manual = |name: &str| json!({ "name": name, "approval": "Manual" });
    for (partitions, path, words) in [
        (
            json!([manual("")]),
            "partitions[0].name",
            &["must be set with approval"][..],
        ),
        (
            json!([{ "name": "a" }, manual("a")]),
            "partitions[1].name",
            &["must be unique"],
        ),
        (
            json!([{ "name": "a", "approval": "manual" }]),
            "partitions[0].approval",
            &["supported values: Manual"],
        ),
    ] {
        let over = json!({ "rolloutStrategy": { "partitions": partitions } });
        let path = format!("spec.rolloutStrategy.{path}");
        table.spec(&valid_spec(over), &path, "InvalidRollout", words);
    }
    for (gate, words) in [
        (json!({}), &["a gate needs an expression"][..]),
        (
            json!({ "expression": "previous.all(p, p.ready" }),
            &["not a CEL expression", "docs/standalone.md"],
        ),
        (
            json!({ "expression": "clusters.size() == 0" }),
            &["unknown variable \"clusters\"; available are digest, now, partition"],
        ),
        (
            json!({ "expression": "partition.name == 'a' || previous[0].redy > 1" }),
            &["unknown field \"redy\"; available are clusters, failed"],
        ),
        (
            json!({ "expression": "partition.ready" }),
            &["must be true or false"],
        ),
        (
            json!({ "expression": "partition.name > 1" }),
            &["partition.name > 1"],
        ),
        // The first partition has none before it.
        (
            json!({ "expression": "previous[0].ready > 1" }),
            &["out of bounds"],
        ),
    ] {
        let over = json!({ "rolloutStrategy": { "partitions": [{ "name": "a", "gate": gate }] } });
        let path = "spec.rolloutStrategy.partitions[0].gate.expression";
        table.spec(&valid_spec(over), path, "InvalidRollout", words);
    }
    table.spec(
        &valid_spec(json!({ "rolloutStrategy": { "onFailure": { "maxFailed": "some" } } })),
        "spec.rolloutStrategy.onFailure.maxFailed",
        "InvalidRollout",
        &["percentage"],
    );
    for (soak, words) in [
        ("1d", "24h for a day"),
        ("30", "unit"),
        ("", "Go duration"),
        ("721h", "at most 720h"),
    ] {
        for (strategy, field) in [
            (json!({ "soak": soak }), "soak"),
            (json!({ "partitions": [{ "soak": soak }] }), "partitions[0].soak"),
        ] {
            let over = json!({ "rolloutStrategy": strategy });
            let path = format!("spec.rolloutStrategy.{field}");
            table.spec(&valid_spec(over), &path, "InvalidRollout", &[words]);
        }
    }
}

fn charts(table: &mut Table) {
    const REPO: &str = "https://charts.example.com";
    let mut rejected = |helm: Value, field: &str, reason, words: &[&str]| {
        table.spec(&with_helm(helm), &format!("spec.helm.{field}"), reason, words);
    };
    for repo in ["", REPO] {
        for chart in ["./web", "../web", "/charts/web", "~/web", "."] {
            let words = ["is a path on your machine", chart];
            rejected(
                json!({ "repo": repo, "chart": chart }),
                "chart",
                "InvalidChartName",
                &words,
            );
        }
        let words = ["oci://h/web", "is named in repo; move the reference there"];
        rejected(
            json!({ "repo": repo, "chart": "oci://h/web" }),
            "chart",
            "InvalidChartName",
            &words,
        );
        let words = ["begins or ends with whitespace"];
        rejected(
            json!({ "repo": repo, "chart": "web " }),
            "chart",
            "InvalidChartName",
            &words,
        );
    }
    rejected(
        json!({ "chart": "grafana/loki" }),
        "repo",
        "RepoRequired",
        &["helm repo list"],
    );
    let mut repo = |repo: &str, words: &[&str]| {
        rejected(
            json!({ "repo": repo, "chart": "web" }),
            "repo",
            "InvalidURL",
            words,
        );
    };
    repo("https://h/charts/index.yaml", &["remove /index.yaml"]);
    repo("https://h/charts ", &["begins or ends with whitespace"]);
    repo("\thttps://h/charts", &["begins or ends with whitespace"]);
    for git in [
        "git@github.com:org/charts",
        "ssh://git@h/charts",
        "git+https://h/charts",
    ] {
        repo(
            git,
            &["the address of a Git repository", "spec.chartSource.git.url"],
        );
    }
    let range = json!({ "repo": REPO, "chart": "web", "version": ">1.2.3 <1.0.0" });
    rejected(
        range,
        "version",
        "InvalidVersion",
        &[">1.2.3 <1.0.0", "no version can satisfy"],
    );
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let helm = json!({ "repo": REPO, "chart": "web", "valuesFrom": [{ kind: { "key": "a" } }] });
        rejected(
            helm,
            &format!("valuesFrom[0].{kind}.name"),
            "InvalidValues",
            &["Required value"],
        );
    }
    let target = valid_spec(json!({ "targets": [{ "helm": { "chart": "./web" } }] }));
    table.spec(
        &target,
        "spec.targets[0].helm.chart",
        "InvalidChartName",
        &["./web"],
    );
}

fn durations(table: &mut Table) {
    for interval in ["1d", "1w", "1y", "7d12h", "abc", "5x", "-1h"] {
        let spec = valid_spec(json!({ "pollingInterval": interval }));
        table.spec(&spec, "spec.pollingInterval", "InvalidPollingInterval", &[]);
    }
}

fn own_name(table: &mut Table) {
    let metadata = json!({ "name": "a".repeat(64), "namespace": "fleet-default" });
    let object = json!({ "metadata": metadata, "spec": valid_spec(json!({})) });
    table.object(
        object,
        "metadata.name",
        "InvalidName",
        &["Too long: \"aaa", "63 characters"],
    );
}

fn values(table: &mut Table) {
    let nested = |levels| (1..levels).fold(json!({ "a": 1 }), |inner, _| json!({ "a": inner }));
    let values = |levels| json!({ "helm": { "values": nested(levels) } });
    let words = &["nest 101 levels deep", "at most 100 are allowed", "flatter"];
    let spec = valid_spec(values(101));
    table.spec(&spec, "spec.helm.values", "InvalidValues", words);
    let mut spec = valid_spec(json!({ "targets": [{}] }));
    spec["targets"][0] = values(110);
    let words = &["nest 110 levels deep", "at most 100 are allowed"];
    table.spec(&spec, "spec.targets[0].helm.values", "InvalidValues", words);
}

/// Only admission rejects these: the controller renders them for each cluster, and reports their errors there.
fn templates(table: &mut Table) {
    let words = &["${ .ClusterLabels.env", "unclosed action", "disablePreProcess"];
    let spec = valid_spec(json!({ "helm": { "values": { "a": ["${ .ClusterLabels.env "] } } }));
    table
        .spec(&spec, "spec.helm.values.a[0]", "InvalidValues", words)
        .is_for_admission = true;
    let mut spec = valid_spec(json!({}));
    spec["targets"][0] = json!({ "helm": { "templateValues": { "a": "${ nope }" } } });
    let path = "spec.targets[0].helm.templateValues.a";
    table
        .spec(&spec, path, "InvalidValues", &["nope"])
        .is_for_admission = true;
}

fn dependency_on_itself(table: &mut Table) {
    for dependency in [
        json!({ "name": "web" }),
        json!({ "name": "web", "acceptedStates": ["Ready"] }),
    ] {
        table.over(
            json!({ "dependsOn": [{ "name": "db" }, dependency] }),
            "spec.dependsOn[1].name",
            "InvalidDependency",
            &["depends on itself", "remove the entry"],
        );
    }
    table.over(
        json!({ "dependsOn": [{ "name": "db", "acceptedStates": ["Ready", "WaitingForDependency"] }] }),
        "spec.dependsOn[0].acceptedStates[1]",
        "InvalidDependency",
        &["WaitingForDependency", "remove the state"],
    );
}
