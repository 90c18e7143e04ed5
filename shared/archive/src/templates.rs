//! The templates of a chart and of its subcharts.

use std::io::Read;

use crate::{
    ArchiveError, Limits,
    entries::File,
    meter::Remaining,
    nested::{self, Visitor},
    path::shown,
    reader::bytes,
};

/// The folder of templates.
pub const TEMPLATES: &str = "templates";

/// The path of a template whose text is `wanted`, such as one that calls a function; `None` if there is none. Subcharts count whether they
/// are enabled or not.
///
/// # Errors
/// For what [`check`](crate::check) refuses, as far as that matters here.
pub fn template_with(
    archive: impl Read,
    limits: Limits,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<String>, ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut search = Search { wanted, found: None };
    nested::visit(Box::new(archive), limits, &remaining, 0, &mut search)?;
    Ok(search.found)
}

struct Search<W> {
    wanted: W,
    found: Option<String>,
}

impl<W: Fn(&str) -> bool> Visitor for Search<W> {
    fn file<R: Read>(&mut self, file: File<'_, '_, R>) -> Result<(), ArchiveError> {
        if self.found.is_some() || !file.path.in_chart().split('/').any(|folder| folder == TEMPLATES) {
            return Ok(());
        }
        let path = shown(file.path.as_str().as_bytes());
        if (self.wanted)(&String::from_utf8_lossy(&bytes(file)?)) {
            self.found = Some(path);
        }
        Ok(())
    }
}
