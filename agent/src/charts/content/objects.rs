//! Reads Contents into a file.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    sync::Arc,
};

use helmops_api::Content;
use helmops_content::{ContentError, ContentId, Opened, Parts, open};
use helmops_fair::{FairSemaphore, deadline::excluded};
use helmops_kube::path_segment;
use helmops_runtime::client::{CallError, bounded};
use kube::{Api, Client};

use super::{FilesOrigin, LIMITS};
use crate::charts::{ChartError, blocking};

/// The file so far, and the parts that are still to be read.
type Appended = (BufWriter<File>, Option<Parts>);

/// Reads what the Content of an ID has, or its parts. Each object needs a permit of the namespace of its Bundle.
///
/// # Errors
/// If one is missing, or is not the one that is listed, or cannot be written.
pub async fn read_objects(
    upstream: &Client,
    permits: &FairSemaphore<Arc<str>>,
    tenant: &Arc<str>,
    id: &ContentId,
    output: BufWriter<File>,
) -> Result<(), ChartError> {
    let (mut output, mut missing, mut name) = (output, None, id.to_string());
    loop {
        let _permit = excluded(permits.acquire(Arc::clone(tenant))).await;
        let content = object(upstream, &name, id).await?;
        let known = id.clone();
        let appended = blocking(move || append(output, &content, &known, missing)).await?;
        (output, missing) = appended.map_err(|error| FilesOrigin::Content.unreadable(error))?;
        match missing.as_ref().and_then(Parts::next_name) {
            Some(next) => name = next,
            None => return Ok(()),
        }
    }
}

/// Appends what an object has: the first one, or the next part.
fn append(
    mut output: BufWriter<File>,
    content: &Content,
    id: &ContentId,
    missing: Option<Parts>,
) -> io::Result<Result<Appended, ContentError>> {
    let read = match missing {
        None => open(content, id, LIMITS).map(|opened| match opened {
            Opened::Whole(bytes) => (bytes, None),
            Opened::Split(parts) => (Vec::new(), Some(parts)),
        }),
        Some(mut parts) => parts.read(content).map(|bytes| (bytes, Some(parts))),
    };
    match read {
        Ok((bytes, missing)) => {
            output.write_all(&bytes)?;
            output.flush()?;
            Ok(Ok((output, missing)))
        }
        Err(error) => Ok(Err(error)),
    }
}

async fn object(upstream: &Client, name: &str, id: &ContentId) -> Result<Content, ChartError> {
    let api = Api::<Content>::all(upstream.clone());
    let found = bounded(api.get_opt(&path_segment(name))).await;
    let found = found.map_err(CallError::of("read", format_args!("Content {name}")))?;
    found.ok_or_else(|| ChartError::ContentMissing {
        name: name.to_owned(),
        is_part: name != id.as_str(),
    })
}
