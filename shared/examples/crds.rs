//! Writes the CustomResourceDefinitions into the folder that is its only argument; `make manifests` calls it.

use std::{env, fs, path::PathBuf, process::ExitCode};

const HEADER: &str = "# Made from the types in shared/src/api by `make manifests`. Do not edit.\n";

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
    let folder: PathBuf = env::args_os().nth(1).ok_or("usage: crds FOLDER")?.into();
    fs::create_dir_all(&folder)?;
    for (file, definition) in helmops_shared::api::crds::all()? {
        let yaml = serde_saphyr::to_string(&definition)?;
        fs::write(folder.join(file), format!("{HEADER}{yaml}"))?;
    }
    Ok(())
}
