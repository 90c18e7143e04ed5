//! A repository with one chart, whose versions only grow.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::random::Rng;
use tempfile::TempDir;

pub const CHART: &str = "web";

/// Major, minor and patch.
pub type Version = (u32, u32, u32);

/// A range, and which release lines (major and minor) it contains.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The range as in a HelmOp.
    pub text: &'static str,
    contains: fn(u32, u32) -> bool,
}

/// The ranges of HelmOps. The last one is a concrete version, which never changes.
pub const RANGES: [Range; 7] = [
    Range {
        text: "0.x",
        contains: |major, _| major == 0,
    },
    Range {
        text: "0.1.x",
        contains: |major, minor| (major, minor) == (0, 1),
    },
    Range {
        text: "~0.2.0",
        contains: |major, minor| (major, minor) == (0, 2),
    },
    Range {
        text: "1.x",
        contains: |major, _| major == 1,
    },
    Range {
        text: "^1.1.0",
        contains: |major, minor| major == 1 && minor >= 1,
    },
    Range {
        text: "*",
        contains: |_, _| true,
    },
    Range {
        text: "0.1.0",
        contains: |_, _| false,
    },
];

impl Range {
    /// Whether a newer version can be in the range.
    pub fn is_floating(self) -> bool {
        version(self.text).is_none()
    }
}

/// The release lines.
const LINES: [(u32, u32); 4] = [(0, 1), (0, 2), (1, 0), (1, 1)];

/// The repository, over HTTP.
pub struct Repository {
    server: ChartServer,
    folder: TempDir,
    /// The newest patch of each line.
    patches: [u32; LINES.len()],
}

impl Repository {
    /// Starts with one version of each release line.
    pub async fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let repository = Self {
            server: ChartServer::http(folder.path()).await?,
            folder,
            patches: [0; LINES.len()],
        };
        repository.write()?;
        Ok(repository)
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Publishes another version of a random release line.
    pub fn publish(&mut self, rng: &mut Rng) -> Result<()> {
        self.patches[rng.below(LINES.len())] += 1;
        self.write()
    }

    /// Publishes another version of each release line.
    pub fn publish_all(&mut self) -> Result<()> {
        self.patches = self.patches.map(|patch| patch + 1);
        self.write()
    }

    /// The number of versions.
    pub fn published(&self) -> u32 {
        self.patches.iter().map(|patch| patch + 1).sum()
    }

    pub fn newest(&self, range: Range) -> Option<Version> {
        self.versions().filter(|version| is_in(range, *version)).max()
    }

    /// Whether a version is published and in a range.
    pub fn has(&self, range: Range, version: Version) -> bool {
        is_in(range, version) && self.versions().any(|published| published == version)
    }

    fn versions(&self) -> impl Iterator<Item = Version> {
        let lines = LINES.iter().zip(&self.patches);
        lines.flat_map(|(&(major, minor), &newest)| (0..=newest).map(move |patch| (major, minor, patch)))
    }

    /// Replaces the index atomically, so that clients never read an incomplete one.
    fn write(&self) -> Result<()> {
        let mut index = format!("apiVersion: v1\nentries:\n  {CHART}:\n");
        for version in self.versions() {
            let version = text(version);
            writeln!(
                index,
                "  - apiVersion: v2\n    name: {CHART}\n    urls: [{CHART}-{version}.tgz]\n    version: {version}"
            )?;
        }
        let file = |name: &str| Path::join(self.folder.path(), name);
        std::fs::write(file(".partial"), index)?;
        Ok(std::fs::rename(file(".partial"), file("index.yaml"))?)
    }
}

fn is_in(range: Range, version: Version) -> bool {
    (range.contains)(version.0, version.1) || range.text == text(version)
}

fn text((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

pub fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let version = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}
