//! An image, unpacked, and its programs run as a container runtime would: with its own root and nothing else.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::command::run;

/// Unpacking takes a second.
const DEADLINE: Duration = Duration::from_mins(1);

/// Where programs look for it first.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// An image, unpacked into a folder that lives as long as this.
#[derive(Debug)]
pub struct Image {
    folder: TempDir,
    user: Option<String>,
}

impl Image {
    /// Unpacks an archive in the layout of OCI with one image in it.
    pub async fn unpack(archive: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix("helmops-image-")?;
        let (layout, root) = (folder.path().join("layout"), folder.path().join("root"));
        for folder in [&layout, &root] {
            std::fs::create_dir(folder)?;
        }
        untar(archive, &layout).await?;
        let index = read(&layout.join("index.json"))?;
        let manifest = read(&blob(&layout, index.pointer("/manifests/0"))?)?;
        let config = read(&blob(&layout, manifest.get("config"))?)?;
        for layer in manifest
            .get("layers")
            .and_then(Value::as_array)
            .context("an image without layers")?
        {
            untar(&blob(&layout, Some(layer))?, &root).await?;
        }
        Ok(Self {
            folder,
            user: config
                .pointer("/config/User")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    /// The user that its programs run as.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Bytes of all its files.
    pub fn size(&self) -> Result<u64> {
        size(&self.root())
    }

    /// Makes `unshare` run a program of it within it, in a user namespace, so that nobody need be root.
    pub fn enter(&self, unshare: &mut Command, program: &str) {
        unshare.arg("--map-root-user").arg("--root").arg(self.root());
        unshare.args(["--wd=/", program]);
    }

    /// Puts a file there, as a volume would, under the same path as outside.
    pub fn mount(&self, file: &Path) -> Result<()> {
        let inside = self.root().join(file.strip_prefix("/")?);
        std::fs::create_dir_all(inside.parent().context("a file in no folder")?)?;
        std::fs::copy(file, &inside)
            .map(drop)
            .with_context(|| format!("cannot copy {}", file.display()))
    }

    /// Makes a name known in it, as a kubelet would.
    pub fn make_known(&self, name: &str, address: &str) -> Result<()> {
        Ok(std::fs::write(
            self.root().join("etc/hosts"),
            format!("{address} {name}\n"),
        )?)
    }

    /// Makes it trust one more authority (PEM), by the list of authorities that is in it.
    ///
    /// # Errors
    /// Where there is no such list, or one that its user cannot read.
    pub fn trust(&self, authority: &str) -> Result<()> {
        let list = self.root().join(AUTHORITIES);
        let opened = OpenOptions::new().append(true).open(&list);
        let mut file = opened.with_context(|| format!("no list of authorities in /{AUTHORITIES}"))?;
        let mode = file.metadata()?.permissions().mode();
        ensure!(mode & 0o004 != 0, "/{AUTHORITIES} has the mode {mode:o}");
        Ok(write!(file, "\n{authority}")?)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

async fn untar(archive: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--preserve-permissions"])
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(folder);
    run(tar, "", DEADLINE).await?.ok().map(drop)
}

fn read(json: &Path) -> Result<Value> {
    let text = std::fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Where the layout has what a descriptor names.
fn blob(layout: &Path, descriptor: Option<&Value>) -> Result<PathBuf> {
    let digest = descriptor
        .and_then(|descriptor| descriptor.get("digest")?.as_str())
        .context("a descriptor without a digest")?;
    let (algorithm, hash) = digest.split_once(':').context("an odd digest")?;
    ensure!(hash.chars().all(|c| c.is_ascii_hexdigit()), "an odd digest");
    Ok(layout.join("blobs").join(algorithm).join(hash))
}

fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() {
            size(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(sum)
}
