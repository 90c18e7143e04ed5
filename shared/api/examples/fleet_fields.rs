//! Records the fields of Fleet's CRDs: reads the file `charts/fleet-crd/templates/crds.yaml` of Fleet from standard input, and writes what
//! `tests/fleet/fields.txt` has; `make fleet-fields` calls it.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    process::ExitCode,
};

use serde_json::Value;

#[path = "../tests/fleet/fields.rs"]
#[expect(dead_code, reason = "the test reads what is written here")]
mod fields;

const HEADER: &str = "\
# The fields of the CRDs of Fleet, without those of kinds that helmops does not serve. Recorded by `make fleet-fields`. Do not edit.
";

/// Kinds whose fields are compared.
const SERVED: [&str; 11] = [
    "Bundle",
    "BundleDeployment",
    "BundleNamespaceMapping",
    "Cluster",
    "ClusterGroup",
    "ClusterRegistration",
    "ClusterRegistrationToken",
    "Content",
    "HelmOp",
    "Policy",
    "Schedule",
];

fn main() -> ExitCode {
    match record() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleet_fields: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    let mut kinds = BTreeMap::new();
    for document in text.split("\n---") {
        let crd: Value = serde_saphyr::from_str(document.trim_start_matches("---"))?;
        if let Some((kind, mut fields)) = fields::of_crd(&crd) {
            if !SERVED.contains(&&*kind) {
                fields.clear();
            }
            kinds.insert(kind, fields);
        }
    }
    if kinds.is_empty() {
        return Err("standard input has no CRDs".into());
    }
    write!(io::stdout().lock(), "{HEADER}{}", fields::write(&kinds))?;
    Ok(())
}
