//! The images of the node. The path of an archive in its folder is the name of the image, with `.tar`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::command::run;
use helmops_bed::test_bed::binary;
use helmops_bed::{files, tools};
use tokio::process::Command;

use crate::machine::STATE;
use crate::oci_archive::{self, Image};

/// The image of the webhook, the controller, the notifier and the receiver, and that of the agent: a registry that does not exist.
pub const REPOSITORIES: [&str; 2] = ["registry.node.test/helmops", "registry.node.test/helmops-agent"];
/// The tag of both.
pub const TAG: &str = "0.1.0";
/// The end of the name of an archive.
pub const ARCHIVE: &str = ".tar";

const DEADLINE: Duration = Duration::from_mins(1);
/// The authorities that programs trust.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Writes all archives to a folder; those of helmops are of the programs that cargo has built, or come from the folder of `make image`.
///
/// # Errors
/// If a program is missing.
pub async fn write(folder: &Path, tools: &[PathBuf], real: Option<&Path>) -> Result<()> {
    let coredns = tools.iter().map(|folder| folder.join("coredns"));
    let coredns = coredns.into_iter().find(|path| path.is_file());
    let coredns = coredns.context("CoreDNS was not built")?;
    write_one(folder, "node.test/coredns:1", &[coredns], &["/coredns"]).await?;
    let app = binary("node-app")?;
    write_one(
        folder,
        "node.test/pause:1",
        std::slice::from_ref(&app),
        &["/node-app", "pause"],
    )
    .await?;
    write_one(folder, "node.test/app:1", &[app], &["/node-app"]).await?;
    if let Some(real) = real {
        return link_real(folder, real);
    }
    let names = [
        "helmops-webhook",
        "helmops-controller",
        "helmops-notifier",
        "helmops-receiver",
    ];
    let programs = names.into_iter().map(binary).collect::<Result<Vec<_>>>()?;
    let agent = [binary("helmops-agent")?, tools::agent_helm().await?];
    let [helmops, agent_image] = REPOSITORIES.map(|repository| format!("{repository}:{TAG}"));
    write_one(folder, &helmops, &programs, &["/helmops-webhook"]).await?;
    write_one(folder, &agent_image, &agent, &["/helmops-agent"]).await
}

/// Uses the archives of `make image`.
fn link_real(folder: &Path, real: &Path) -> Result<()> {
    for repository in REPOSITORIES {
        let (_, name) = repository.rsplit_once('/').unwrap_or_default();
        let prefix = format!("{name}-{TAG}");
        let archives = std::fs::read_dir(real).with_context(|| format!("cannot read {}", real.display()))?;
        let mut archives = archives.filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let archive = archives.find(is_it);
        let archive = archive.with_context(|| format!("{} has no archive {prefix}…", real.display()))?;
        std::fs::copy(&archive, place(folder, &format!("{repository}:{TAG}"))?)?;
    }
    Ok(())
}

/// Writes the image of programs of this machine, without their symbols and with the libraries that they need.
async fn write_one(folder: &Path, name: &str, programs: &[PathBuf], entrypoint: &[&str]) -> Result<()> {
    let mut files = vec![(AUTHORITIES.into(), AUTHORITIES.into())];
    for program in programs {
        let file = Path::new(program.file_name().context("a program has no name")?);
        let stripped = files::target()?.join(STATE).join("stripped").join(file);
        strip(program, &stripped).await?;
        files.push((stripped, Path::new("/").join(file)));
    }
    for library in libraries(programs).await? {
        files.push((library.clone(), library));
    }
    let entrypoint = entrypoint.iter().map(ToString::to_string).collect();
    oci_archive::write(&Image { files, entrypoint }, &place(folder, name)?)
}

fn place(folder: &Path, name: &str) -> Result<PathBuf> {
    let archive = folder.join(format!("{name}{ARCHIVE}"));
    std::fs::create_dir_all(archive.parent().unwrap_or(folder))?;
    Ok(archive)
}

async fn strip(program: &Path, stripped: &Path) -> Result<()> {
    std::fs::create_dir_all(stripped.parent().unwrap_or(Path::new("/")))?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(stripped).arg(program);
    run(strip, "", DEADLINE).await?.ok().map(drop)
}

/// The shared libraries of programs, with the loader.
async fn libraries(programs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for program in programs {
        let mut ldd = Command::new("ldd");
        ldd.arg(program);
        // It fails for a static program.
        let output = run(ldd, "", DEADLINE).await?.stdout;
        let paths = output.split_whitespace().filter(|word| word.starts_with('/'));
        found.extend(paths.filter(|path| !path.ends_with(':')).map(PathBuf::from));
    }
    found.sort();
    found.dedup();
    Ok(found)
}
