//! Writes the CustomResourceDefinitions into the folder of manifests that is its only argument; `make manifests` calls it.

use helmops_api::crds;
use std::{env, fs, path::PathBuf, process::ExitCode};

const HEADER: &str = "# Made from the types in shared/api/src by `make manifests`. Do not edit.\n";

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crds: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), Box<dyn std::error::Error>> {
    let manifests: PathBuf = env::args_os().nth(1).ok_or("usage: crds FOLDER")?.into();
    for (folder, definitions) in [
        ("crd/bases", crds::all()?),
        ("crd/notifications", crds::of_notifications()?),
        ("standalone/crds", crds::of_clusters()?),
    ] {
        let folder = manifests.join(folder);
        fs::create_dir_all(&folder)?;
        for (file, definition) in definitions {
            let yaml = serde_saphyr::to_string(&definition)?;
            fs::write(folder.join(file), format!("{HEADER}{yaml}"))?;
        }
    }
    Ok(())
}
