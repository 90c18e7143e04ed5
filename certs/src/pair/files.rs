//! The paths of a pair, and reading it.

use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::{
    PemFile, ServingPair,
    error::{MAX_BYTES, PairError},
};

/// The paths of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPaths {
    /// The chain, PEM, the serving certificate first.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// The bytes of both files, read one after the other: the files may be replaced in between. No `Debug`: one of them is a
/// private key.
#[derive(PartialEq, Eq)]
pub(crate) struct PairContents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl PairPaths {
    pub(crate) async fn read(&self) -> Result<PairContents, PairError> {
        Ok(PairContents {
            cert: read_capped(&self.cert).await?,
            key: read_capped(&self.key).await?,
        })
    }
}

impl PairContents {
    pub(crate) fn parse(&self, paths: &PairPaths) -> Result<ServingPair, PairError> {
        let (cert, key) = (paths.cert.to_string_lossy(), paths.key.to_string_lossy());
        ServingPair::from_pem(
            PemFile {
                name: &cert,
                bytes: &self.cert,
            },
            PemFile {
                name: &key,
                bytes: &self.key,
            },
        )
    }
}

async fn read_capped(path: &Path) -> Result<Vec<u8>, PairError> {
    let name = || path.display().to_string();
    let unreadable = |source| PairError::Read { file: name(), source };
    let file = File::open(path).await.map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed distinguishes a file that is too large from one of exactly this size.
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(PairError::TooLarge { file: name() });
    }
    Ok(bytes)
}
