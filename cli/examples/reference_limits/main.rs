//! Writes the page of the limits; `make manifests` calls it.

mod table;

use std::{
    error::Error,
    io::{self, Write},
};

use helm_archive::Limits;
use helm_index::tags;
use helmops_api::{free_form, limits};
use helmops_cli::{create, validate};
use helmops_release::{manifest, record};
use table::{limit, table};

/// Above all tables.
const INTRODUCTION: &str = "\
What helmops reads has limits, so that no chart, repository or person can use up the memory of a process. They are far above what real
charts and repositories need: at least ten times the largest value that was found in 828 charts of 125 repositories, 4,029 HelmReleases of 36
repositories and 98 indexes, or the table says why not. Limits of single fields of a HelmOp are in [fields.md](fields.md#limits), those of
templates in [standalone.md](standalone.md#template-limits), and those of requests in [security.md](security.md).

A message about a limit names it. Each limit is a constant of the code, named in the last column, from which this page is generated.
";

/// Above the table of charts.
const CHARTS: &str = "\
A node is a key, a value, a list or a mapping. An alias counts as often as what it stands for.
";

/// Below the table of charts.
const RECORDS: &str = "\
Kubernetes stores at most 1 MiB in a Secret, and Helm a whole release in one: the chart, the values and the manifest, compressed and as
Base64. Of the 828 charts, four exceed that with their default values; Helm cannot install them either. The BundleDeployment then
says that the record of the release does not fit into a Secret, with the reason [ReleaseTooLarge](reference/helmops-agent.md): remove
files from the chart, or divide it.
";

fn main() -> Result<(), Box<dyn Error>> {
    let charts = table(&[
        limit!("Nodes of all documents of a manifest, of the hooks or of the folder `crds`": manifest::MAX_NODES, Number, 197_954, "kserve-llmisvc-crd 0.20.0"),
        limit!("Levels of a document": go_formats::yaml::MAX_OBJECT_DEPTH, Number, 40, "rancher-logging-crd 104.1.2", "decoders of JSON read 128 levels"),
        limit!("Bytes of a manifest": manifest::MAX_BYTES, MiB, 7_143_040, "kong-operator 1.4.0", "Helm's record, below, is full before"),
        limit!("Bytes of all keys and values of a manifest, with aliases expanded": manifest::MAX_SCALARS, MiB, 3_806_327, "kong-operator 1.4.0"),
        limit!("Objects of a manifest": manifest::MAX_OBJECTS, Number, 156, "rancher-monitoring 104.1.2"),
        limit!("An object that is written as YAML": go_formats::yaml::MAX_OBJECT, MiB, 1_035_985, "CRD of argo-workflows"),
        limit!("Bytes of the folders `crds` of a chart and its subcharts": helmops_helm::MAX_CRD_BYTES, MiB, 4_809_906, "gateway-operator 0.6.1", "Helm's record is full before: charts are in it"),
        limit!("CRDs in these folders": helmops_helm::MAX_CRDS, Number, 59, "gateway-operator 0.6.1"),
        limit!("Helm's record of a revision, as JSON": record::MAX_UNPACKED, MiB, 12_654_062, "kserve-llmisvc-crd 0.20.0", "its Secret has at most 1 MiB: see below"),
        limit!("Values in Helm's record, of the chart and its values": record::MAX_VALUES, Number, 4_988, "loki 7.3.0"),
        limit!("A file of a chart": Limits::HELM.file, MiB, 3_083_468, "gateway-operator 0.6.1", "the limit of Helm"),
        limit!("Files of a chart, with subcharts": Limits::HELM.files, Number, 648, "k8s-monitoring 4.4.0"),
        limit!("Unpacked bytes of a chart": Limits::HELM.total, MiB, 9_765_376, "kong-operator 1.4.0"),
        limit!("A path in an archive": helm_archive::MAX_PATH, Number, 156, "cozy-clickhouse-operator 0.0.0", "the paths of all files are in memory"),
        limit!("An archive": helmops_fetch::MAX_ARCHIVE, MiB, 1_108_997, "kong-operator 1.4.0"),
    ])?;
    let repositories = table(&[
        limit!("An index, as it is sent": helmops_fetch::INDEX_LIMITS.wire, MiB, 4_020_689, "grafana"),
        limit!("An index, decompressed": helmops_fetch::INDEX_LIMITS.decoded, MiB, 27_000_000, "Bitnami, by a report", "a larger one takes seconds of processor time"),
        limit!("What is kept of an index for all charts that HelmOps use": helm_index::MAX_KEPT, MiB, 1_106_434, "all charts of grafana"),
        limit!("A text in an index": helm_index::MAX_TOKEN_LEN, MiB, 7_219, "cilium"),
        limit!("Tags of one repository of a registry": tags::MAX_VERSIONS, Number, 30_813, "Bitnami, all charts together", "926 is the most for one chart"),
        limit!("A tag": tags::MAX_TAG_LEN, Number, 78, "", "the limit of registries"),
        limit!("A version range": masterminds_semver::MAX_CONSTRAINT_LEN, Number, 16, ""),
    ])?;
    let helmops = table(&[
        limit!("The spec of a HelmOp, as JSON": limits::SPEC, MiB, 31_395, "a HelmRelease"),
        limit!("Levels of values": free_form::MAX_DEPTH, Number, 14, "rancher-monitoring 104.1.2", "decoders of JSON read 128 levels"),
        limit!("Nodes of the values that come from rendered texts, and of `Chart.yaml`": go_formats::yaml::MAX_NODES, Number, 5_620, "values.yaml of loki 18.11.0"),
        limit!("The name of a release": limits::RELEASE_NAME, Number, 49, "a HelmRelease", "the limit of Helm"),
        limit!("The name of a HelmOp": limits::LABEL, Number, 48, "a HelmRelease", "it is the value of labels"),
        limit!("`valuesFrom`": limits::SHORT_LIST, Number, 12, ""),
        limit!("`dependsOn`": limits::SHORT_LIST, Number, 5, ""),
        limit!("A file for `kubectl helmop validate`, or with objects for `create`": validate::files::MAX_FILE, MiB, 8_312_613, "the objects of kong-operator 1.4.0"),
        limit!("Nodes of a document in such a file": manifest::MAX_NODES, Number, 99_668, "kserve-llmisvc-crd 0.20.0"),
        limit!("A file of values for `kubectl helmop create`": create::MAX_VALUES_FILE, MiB, 303_745, "loki 18.11.0"),
    ])?;
    let page = format!(
        "# Limits\n\n{INTRODUCTION}\n## Charts and manifests\n\n{CHARTS}\n{charts}\n{RECORDS}\n## Repositories and registries\n\n\
         {repositories}\n## HelmOps and files\n\n{helmops}"
    );
    io::stdout().write_all(page.as_bytes())?;
    Ok(())
}
