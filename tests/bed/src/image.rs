//! An unpacked image, whose programs run as in a container runtime: with only the files of the image.

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
use crate::volume::Volume;

/// Unpacking takes a second.
const DEADLINE: Duration = Duration::from_mins(1);

/// The first path at which programs look for CA certificates.
const CA_CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// A process sees the `/proc` of its own PID namespace only.
const WITH_PROC: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// An image, unpacked into a folder that is removed with this value.
#[derive(Debug)]
pub struct Image {
    folder: TempDir,
    user: Option<String>,
}

impl Image {
    /// Unpacks an archive with one image in the OCI image layout.
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
            .context("the image has no layers")?
        {
            untar(&blob(&layout, Some(layer))?, &root).await?;
        }
        std::fs::create_dir_all(root.join("proc"))?;
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

    /// The size of all its files in bytes.
    pub fn size(&self) -> Result<u64> {
        size(&self.root())
    }

    /// Makes `unshare` run a program of the image with its files as root, in a user namespace, so that root is not needed.
    pub fn enter(&self, unshare: &mut Command, program: &str) {
        unshare.arg("--map-root-user").arg("--root").arg(self.root());
        unshare.args(["--wd=/", program]);
    }

    /// The same as the user of the image, without the capabilities of root, and with `/proc`, which every container runtime mounts. The
    /// process itself is a child of `unshare` then.
    pub fn enter_as_user(&self, unshare: &mut Command, program: &str, volume: &Volume) {
        unshare.args(volume.unshare).args(WITH_PROC);
        unshare.arg("--root").arg(self.root());
        unshare.args(["--wd=/", program]);
    }

    /// Creates a volume at a path in the image. If this process is not root, the user of the image owns it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn volume(&self, path: &str) -> Result<Volume> {
        let folder = self.root().join(path.trim_start_matches('/'));
        Volume::at(&folder)
    }

    /// Copies a file into the image, under the same path as outside, like a volume.
    pub fn mount(&self, file: &Path) -> Result<()> {
        let inside = self.root().join(file.strip_prefix("/")?);
        std::fs::create_dir_all(inside.parent().context("the path has no parent")?)?;
        std::fs::copy(file, &inside)
            .map(drop)
            .with_context(|| format!("cannot copy {}", file.display()))
    }

    /// Adds a name to its /etc/hosts, as the kubelet does.
    pub fn add_host(&self, name: &str, address: &str) -> Result<()> {
        Ok(std::fs::write(
            self.root().join("etc/hosts"),
            format!("{address} {name}\n"),
        )?)
    }

    /// Adds a CA (PEM) to its CA certificates.
    ///
    /// # Errors
    /// If the image has no CA certificates, or its user cannot read them.
    pub fn trust(&self, ca: &str) -> Result<()> {
        let list = self.root().join(CA_CERTIFICATES);
        let opened = OpenOptions::new().append(true).open(&list);
        let mut file =
            opened.with_context(|| format!("the image has no CA certificates in /{CA_CERTIFICATES}"))?;
        let mode = file.metadata()?.permissions().mode();
        ensure!(mode & 0o004 != 0, "/{CA_CERTIFICATES} has the mode {mode:o}");
        Ok(write!(file, "\n{ca}")?)
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

/// The path in the layout of the blob that a descriptor names.
fn blob(layout: &Path, descriptor: Option<&Value>) -> Result<PathBuf> {
    let digest = descriptor
        .and_then(|descriptor| descriptor.get("digest")?.as_str())
        .context("the descriptor has no digest")?;
    let (algorithm, hash) = digest.split_once(':').context("invalid digest")?;
    ensure!(hash.chars().all(|c| c.is_ascii_hexdigit()), "invalid digest");
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
