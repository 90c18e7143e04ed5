//! A list of tags while its pages are read, within the memory that is reserved for it.

use std::io::{self, Read};

use helm_index::{
    Meter, OverBudget,
    tags::{TagList, TagListError},
};
use helmops_model::chart::registry::tags_page::{self, PageError};

use crate::http::CHUNK;
use crate::{
    bounds::ReadMemory,
    http::{FetchErrorKind, read_error},
};

/// A list of tags that is being read, and the memory that is reserved for it.
#[derive(Debug)]
pub(super) struct PartialTagList {
    pub list: TagList,
    pub memory: ReadMemory,
}

/// Why a page cannot be added to a list.
#[derive(Debug)]
pub(super) enum TagPageError {
    Page(PageError),
    List(TagListError),
}

impl From<OverBudget> for TagPageError {
    fn from(error: OverBudget) -> Self {
        Self::List(error.into())
    }
}

impl PartialTagList {
    pub fn with_page(mut self, body: impl Read) -> Result<Result<Self, TagPageError>, FetchErrorKind> {
        let bytes = match self.body(body) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Ok(Err(error.into())),
            Err(error) => return Err(read_error(&error)),
        };
        Ok(self.add(&bytes).map(|()| self))
    }

    /// The body of a page.
    fn body(&mut self, mut body: impl Read) -> io::Result<Result<Vec<u8>, OverBudget>> {
        let mut bytes = Vec::new();
        let mut chunk = [0; CHUNK];
        loop {
            let count = body.read(&mut chunk)?;
            let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else {
                return Ok(Ok(bytes));
            };
            bytes.extend_from_slice(read);
            let page = page_cost(bytes.capacity());
            if let Err(error) = self.memory.reserve(self.list.bytes() + page) {
                return Ok(Err(error));
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TagPageError> {
        let page = tags_page::decode(bytes).map_err(TagPageError::Page)?;
        let mut meter = OffsetMeter {
            memory: &mut self.memory,
            bytes: page_cost(bytes.len()),
        };
        for tag in page.tags {
            self.list.add(&tag, &mut meter).map_err(TagPageError::List)?;
        }
        Ok(())
    }
}

/// The memory of a page while it is read: its body, and the list of the tags in it, which refers to the body.
const fn page_cost(body: usize) -> usize {
    body + body / 2
}

/// Reserves memory in addition to `bytes`.
struct OffsetMeter<'r> {
    memory: &'r mut ReadMemory,
    bytes: usize,
}

impl Meter for OffsetMeter<'_> {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.memory.reserve(self.bytes + bytes)
    }
}
