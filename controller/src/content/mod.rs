//! Charts in the management cluster: their files are stored in Content objects, one for each content and for all clusters, from where agents
//! read them.
//!
//! ```text
//! archive, resolved and verified ─► encode ─► write: parts, then the head ─► the Bundle records the ID
//!                                                                            ...
//! collect: what nothing refers to any more ─► proof by the API server ─► deletion, if it was not used again
//! ```

mod buffer;
mod collect;
mod error;
mod metrics;
mod quota;
mod refused;
mod write;

use std::{sync::Mutex, time::Duration};

use helm_archive::{Layout, Limits as ArchiveLimits, check, size};
use helmops_content::{ContentId, Encoded, Limits, of_chart};
use helmops_core::content::{Unused, references};
use helmops_fair::{ByteBudget, Share};
use helmops_runtime::workers::Namespace;

#[cfg(test)]
pub use self::quota::OverQuota;
pub use self::{buffer::ArchiveBuffer, collect::collect, error::ContentError, metrics::expose};
use self::{
    quota::{ContentQuota, Room},
    refused::RefusedCharts,
    write::ContentWriter,
};
use crate::{context::Context, watch::DeliveryStores};

/// What stores charts and deletes them again.
pub struct ContentStorage {
    budget: ByteBudget,
    /// What one archive may take with its files: the share of a namespace while no other one needs any.
    largest: usize,
    quota: ContentQuota,
    grace: Duration,
    unused: Mutex<Unused>,
    refused: RefusedCharts,
}

/// The archive of a chart in a version that was resolved, wherever it came from. Its digest was compared with the one of the resolution.
#[derive(Debug)]
pub struct ChartArchive {
    /// The archive (`.tgz`).
    pub bytes: ArchiveBuffer,
    /// The folder that its files get, see [`ChartRequest::content_folder`](helmops_model::chart::request::ChartRequest::content_folder); empty for
    /// manifests, which are no chart.
    pub folder: String,
    /// Where it came from, without credentials: for messages.
    pub url: String,
}

impl ContentStorage {
    /// Archives and their files may take so many bytes of `memory` together, and what is stored so many bytes of `size`. What nothing refers
    /// to is deleted after `grace`.
    pub fn new(memory: usize, size: usize, grace: Duration) -> Self {
        Self {
            budget: ByteBudget::new(memory, Share::ThreeQuarters),
            largest: memory / 4 * 3,
            quota: ContentQuota::new(size as u64),
            grace,
            unused: Mutex::default(),
            refused: RefusedCharts::default(),
        }
    }

    /// The charts of each namespace that cannot be stored.
    pub const fn refused(&self) -> &RefusedCharts {
        &self.refused
    }

    /// An empty buffer for an archive, whose memory a namespace is charged for.
    pub fn buffer(&self, namespace: &Namespace) -> ArchiveBuffer {
        ArchiveBuffer::new(self.budget.reservation(Namespace::clone(namespace)))
    }
}

/// Stores an archive, unless its content is there already, and returns its ID. A Bundle may refer to it from then on, as soon as it is
/// written: that has to happen within the grace period.
///
/// # Errors
/// If it is neither a chart nor manifests, is too large, or cannot be written.
pub async fn store(
    context: &Context,
    stores: &DeliveryStores,
    namespace: &Namespace,
    archive: ChartArchive,
) -> Result<ContentId, ContentError> {
    let largest = context.contents.largest;
    let encode = move || encoded(archive, largest);
    // The archive is kept as long as what it was encoded to, for which its namespace is charged.
    let (encoded, _charged) = context.compute.on_thread(namespace, encode).await?;
    let needed = if stores.contents.has(encoded.id()) {
        0
    } else {
        encoded.bytes()
    };
    let room = reserve(context, stores, namespace, needed)?;
    let writer = ContentWriter {
        context,
        stored: &stores.contents,
        namespace,
        encoded: &encoded,
    };
    writer.write().await?;
    room.fill(encoded.id());
    Ok(encoded.id().clone())
}

/// Checks that something can be stored for a namespace at all: before anything is downloaded.
///
/// # Errors
/// If there is no room for more.
pub fn check_room(
    context: &Context,
    stores: &DeliveryStores,
    namespace: &Namespace,
) -> Result<(), ContentError> {
    reserve(context, stores, namespace, 1).map(drop)
}

fn reserve(
    context: &Context,
    stores: &DeliveryStores,
    namespace: &Namespace,
    needed: usize,
) -> Result<Room, ContentError> {
    let bundles = context.stores.bundles.state();
    let of_namespace = bundles.iter().filter_map(|bundle| bundle.valid());
    let of_namespace =
        of_namespace.filter(|bundle| bundle.metadata.namespace.as_deref() == Some(&**namespace));
    let referenced = of_namespace.flat_map(references).collect();
    let objects = stores.contents.all();
    let policies = context.stores.policies.of(namespace);
    let allowed = policies.and_then(|policies| policies.content_size());
    let room = context
        .contents
        .quota
        .reserve(namespace, needed as u64, &objects, &referenced, allowed);
    room.map_err(|over| ContentError::full(namespace, over))
}

/// Checks and encodes an archive. `largest` is the memory that it may take at most.
fn encoded(archive: ChartArchive, largest: usize) -> Result<(Encoded, ArchiveBuffer), ContentError> {
    let ChartArchive {
        mut bytes,
        folder,
        url,
    } = archive;
    let limits = ArchiveLimits::HELM;
    let size = if folder.is_empty() {
        size(bytes.as_slice(), limits, Layout::Chart)
    } else {
        check(bytes.as_slice(), limits).map(|chart| chart.bytes)
    };
    let size = size.map_err(|error| ContentError::chart(&url, error.into()))?;
    // Its files, and what they are encoded to.
    let files = usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(2);
    let needed = bytes.as_slice().len().saturating_add(files);
    if needed > largest {
        return Err(ContentError::Memory {
            url,
            needed,
            limit: largest,
        });
    }
    bytes.charge(needed).map_err(|_| ContentError::Busy)?;
    let encoded = of_chart(bytes.as_slice(), &folder, limits, Limits::CHART);
    let encoded = encoded.map_err(|error| ContentError::chart(&url, error))?;
    Ok((encoded, bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use helm_archive::ArchiveWriter;
    use helmops_content::Manifest;

    use super::*;

    fn archive(storage: &ContentStorage, bytes: &[u8]) -> ChartArchive {
        let mut buffer = storage.buffer(&"team".into());
        buffer.write_all(bytes).unwrap();
        ChartArchive {
            bytes: buffer,
            folder: "web".to_owned(),
            url: "https://h/web.tgz".to_owned(),
        }
    }

    #[test]
    fn what_is_no_chart_is_refused_with_its_url() {
        let storage = ContentStorage::new(64 << 20, 0, Duration::ZERO);
        let error = encoded(archive(&storage, b"no archive"), storage.largest).unwrap_err();
        assert!(matches!(error, ContentError::Invalid { .. }), "{error}");
        assert!(error.to_string().starts_with("https://h/web.tgz: "), "{error}");
    }

    #[test]
    fn manifests_are_no_chart_and_in_no_folder() {
        let storage = ContentStorage::new(64 << 20, 0, Duration::ZERO);
        let mut writer = ArchiveWriter::new(Vec::new());
        writer.add("manifests/a.yaml", b"a: 1").unwrap();
        let bytes = writer.finish().unwrap();
        let chart = archive(&storage, &bytes);
        assert!(encoded(chart, storage.largest).is_err(), "it has no Chart.yaml");
        let files = ChartArchive {
            folder: String::new(),
            ..archive(&storage, &bytes)
        };
        let (encoded, _) = encoded(files, storage.largest).unwrap();
        let expected = vec![("a.yaml".to_owned(), b"a: 1".to_vec())];
        let expected = Manifest::of_files(expected, Limits::CHART).unwrap();
        assert_eq!(*encoded.id(), expected.id());
    }

    #[test]
    fn the_memory_of_archives_is_limited_for_all_and_for_each_namespace() {
        let storage = ContentStorage::new(64 << 20, 0, Duration::ZERO);
        let mebibyte = vec![0; 1 << 20];
        let fill = |namespace: &str| {
            let mut buffer = storage.buffer(&namespace.into());
            let written = (0..100)
                .take_while(|_| buffer.write_all(&mebibyte).is_ok())
                .count();
            (written, buffer)
        };
        let (first, held) = fill("a");
        assert_eq!(first, 48, "three quarters of 64 MiB");
        let (second, _) = fill("b");
        assert_eq!(second, 12, "three quarters of the rest");
        drop(held);
        assert_eq!(fill("b").0, 48);
    }
}
