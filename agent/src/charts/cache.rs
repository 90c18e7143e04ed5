//! Archives of charts on disk, up to a number of bytes. If there is no space, those of the tenant with the most bytes make room.
//!
//! The name of a file has the key of the chart and the digest of the file: a restart finds both, and whatever happens to a file on
//! disk is noticed when it is read. A file gets its name when it is complete, so a process that ends leaves no part of one.
//!
//! The functions block; they are called from a thread for that.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use helmops_model::chart::digest::HashingWriter;
use helmops_process::lock;
use tempfile::{Builder, NamedTempFile, TempPath};

use super::key::ChartKey;

/// The end of the name of a complete archive.
const ARCHIVE: &str = ".tgz";
/// The start of the name of an archive that is not complete.
const PARTIAL: &str = "partial-";

/// The archives in a folder.
#[derive(Clone, Debug)]
pub struct ChartCache {
    folder: PathBuf,
    /// Maximum of all bytes.
    limit: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<ChartKey, Entry>,
    bytes: u64,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    sha256: String,
    bytes: u64,
    last_use: u64,
    /// Who has used it last; empty after a restart.
    tenant: Arc<str>,
    /// Held by those who read the file.
    in_use: Arc<()>,
}

/// An archive, which stays on disk as long as this value.
#[derive(Debug)]
pub struct ChartFile {
    path: PathBuf,
    _held: Held,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held until it is dropped")]
enum Held {
    /// It is in the cache, and not evicted meanwhile.
    Cached(Arc<()>),
    /// It is deleted with this value.
    Temporary(TempPath),
}

impl ChartFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file that is in no cache. It is deleted with the value.
    pub fn temporary(file: NamedTempFile) -> Self {
        let held = file.into_temp_path();
        Self {
            path: held.to_path_buf(),
            _held: Held::Temporary(held),
        }
    }
}

impl ChartCache {
    /// The archives in a folder, which is created if there is none. Those above the limit are deleted, the oldest first, and all
    /// other files that this cache may have created.
    ///
    /// # Errors
    /// If the folder cannot be created or read.
    pub fn open(folder: PathBuf, limit: u64) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let mut found = Vec::new();
        for file in fs::read_dir(&folder)? {
            let file = file?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            let (path, metadata) = (file.path(), file.metadata()?);
            match parse_name(&name) {
                Some((key, sha256)) if metadata.is_file() => {
                    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((modified, key, sha256, metadata.len()));
                }
                None if name.starts_with(PARTIAL) => remove(&path),
                _ => {}
            }
        }
        found.sort_unstable();
        let cache = Self {
            folder,
            limit,
            state: Arc::default(),
        };
        for (_, key, sha256, bytes) in found {
            cache.insert(&key, &sha256, bytes, "");
        }
        cache.evict(0, "");
        Ok(cache)
    }

    /// The archive of a key, for a tenant. One that is damaged is deleted.
    pub fn get(&self, key: &ChartKey, tenant: &str) -> Option<ChartFile> {
        let (sha256, in_use) = lock(&self.state).used(key, tenant)?;
        let path = self.path(key, &sha256);
        let cause = match sha256_of(&path) {
            Ok(found) if found == sha256 => {
                // The next process evicts by age. Without it, an archive in use is only evicted too early.
                let touched = File::options().write(true).open(&path);
                let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
                return Some(ChartFile {
                    path,
                    _held: Held::Cached(in_use),
                });
            }
            Ok(found) => format!("its digest is {found}"),
            Err(error) => error.to_string(),
        };
        tracing::warn!(path = %path.display(), cause, "a chart in the cache is damaged; it is downloaded again");
        drop(in_use);
        lock(&self.state).remove(key);
        remove(&path);
        None
    }

    /// An empty file for an archive. It is deleted with the value, unless it is put into the cache.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self) -> io::Result<NamedTempFile> {
        temporary_in(&self.folder)
    }

    /// Stores a complete archive of a tenant, and evicts others that are not in use. If there is no space for it, the archive is temporary.
    pub fn put(
        &self,
        key: &ChartKey,
        file: NamedTempFile,
        sha256: &str,
        bytes: u64,
        tenant: &str,
    ) -> ChartFile {
        if !self.evict(bytes, tenant) {
            tracing::info!(
                bytes,
                limit = self.limit,
                "a chart does not fit into the cache (--cache-size)"
            );
            return ChartFile::temporary(file);
        }
        let path = self.path(key, sha256);
        match file.persist(&path) {
            Ok(_) => {
                let held = Held::Cached(self.insert(key, sha256, bytes, tenant));
                ChartFile { path, _held: held }
            }
            Err(failed) => {
                tracing::warn!(error = %failed.error, "a chart cannot be kept in the cache");
                ChartFile::temporary(failed.file)
            }
        }
    }

    /// Adds the archive of a file, and deletes another one that had the key.
    fn insert(&self, key: &ChartKey, sha256: &str, bytes: u64, tenant: &str) -> Arc<()> {
        let (in_use, before) = lock(&self.state).insert(key.clone(), sha256, bytes, tenant);
        if let Some(before) = before.filter(|before| before.sha256 != sha256) {
            remove(&self.path(key, &before.sha256));
        }
        in_use
    }

    /// The bytes of all archives.
    pub fn bytes(&self) -> u64 {
        lock(&self.state).bytes
    }

    /// Deletes archives until there is space for `bytes` more of a tenant. Whether there is.
    fn evict(&self, bytes: u64, tenant: &str) -> bool {
        let mut state = lock(&self.state);
        while state.bytes.saturating_add(bytes) > self.limit {
            let Some(key) = state.next_to_evict(bytes, tenant) else {
                return false;
            };
            if let Some(entry) = state.remove(&key) {
                remove(&self.path(&key, &entry.sha256));
            }
        }
        true
    }

    fn path(&self, key: &ChartKey, sha256: &str) -> PathBuf {
        self.folder.join(format!("{}.{sha256}{ARCHIVE}", key.as_str()))
    }
}

impl State {
    fn used(&mut self, key: &ChartKey, tenant: &str) -> Option<(String, Arc<()>)> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.last_use = self.uses;
        entry.tenant = Arc::from(tenant);
        Some((entry.sha256.clone(), Arc::clone(&entry.in_use)))
    }

    /// Adds an archive. Also returns another one that had the key.
    fn insert(&mut self, key: ChartKey, sha256: &str, bytes: u64, tenant: &str) -> (Arc<()>, Option<Entry>) {
        let before = self.remove(&key);
        self.uses += 1;
        self.bytes += bytes;
        let in_use = Arc::default();
        let entry = Entry {
            sha256: sha256.to_owned(),
            bytes,
            last_use: self.uses,
            tenant: Arc::from(tenant),
            in_use: Arc::clone(&in_use),
        };
        self.entries.insert(key, entry);
        (in_use, before)
    }

    fn remove(&mut self, key: &ChartKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry)
    }

    /// Of the archives that are not in use, one of the tenant that has the most bytes with what is added: the one that was not used for the
    /// longest time.
    fn next_to_evict(&self, added: u64, tenant: &str) -> Option<ChartKey> {
        let mut bytes = HashMap::from([(tenant, added)]);
        for entry in self.entries.values() {
            *bytes.entry(&*entry.tenant).or_default() += entry.bytes;
        }
        let unused = self
            .entries
            .iter()
            .filter(|(_, entry)| Arc::strong_count(&entry.in_use) == 1);
        let of_tenant = |entry: &Entry| bytes.get(&*entry.tenant).copied();
        unused
            .max_by_key(|(_, entry)| (of_tenant(entry), Reverse(entry.last_use)))
            .map(|(key, _)| key.clone())
    }
}

/// An empty file in a folder, which is deleted with the value.
///
/// # Errors
/// If it cannot be created.
pub fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    Builder::new().prefix(PARTIAL).suffix(ARCHIVE).tempfile_in(folder)
}

/// The key and the digest in the name of a complete archive.
fn parse_name(name: &str) -> Option<(ChartKey, String)> {
    let (key, sha256) = name.strip_suffix(ARCHIVE)?.split_once('.')?;
    let is_digest = ChartKey::parse(sha256).is_some();
    Some((ChartKey::parse(key)?, sha256.to_owned())).filter(|_| is_digest)
}

fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = HashingWriter::new(io::sink());
    io::copy(&mut file, &mut digest)?;
    let (_, sha256, _) = digest.finish()?;
    Ok(sha256)
}

/// A file that cannot be deleted is found again by the next process.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a chart in the cache cannot be deleted");
    }
}
