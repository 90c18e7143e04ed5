//! The folders `crds` of a chart and of its subcharts. Helm creates whatever is in them before it renders the chart, as it is: what checks
//! or changes rendered objects never gets these. Objects of most kinds can be there, such as an admission policy beside the CRDs of the Gateway
//! API, but no Secrets: Helm's records of releases are Secrets.
//!
//! Parsers of YAML differ, so an object that is a CRD for one of them can be a Secret for the next. No parser decides here, but a
//! form in which a document has the same fields for all of them:
//!
//! ```text
//! file ─► documents, between lines that start with `---` ─┬─► objects in JSON
//!                                                         └─► lines: each starts with a field, or is indented below one
//! ```

use std::{collections::BTreeMap, io::Read};

use bounded_text::cut;
use serde_json::{Deserializer, value::RawValue};

use crate::{
    ArchiveError, CrdProblem, Limits,
    entries::File,
    meter::Remaining,
    nested::{self, Visitor},
    path::{MAX_SHOWN, shown},
    reader::bytes,
};

/// The folder of CRDs.
const CRDS: &str = "crds/";
/// Helm reads files with these extensions in it; here in upper case.
const EXTENSIONS: [&str; 3] = ["YAML", "YML", "JSON"];
/// What a line between two documents starts with.
const SEPARATOR: &str = "---";
/// The line that ends a document.
const END: &str = "...";
/// The kind that is refused.
const SECRET: &str = "Secret";
/// What the kinds of lists end with.
const LIST: &str = "List";
/// With this field, Kubernetes reads an object of any kind as a list of others.
const ITEMS: &str = "items";
/// The fields that say what an object is.
const TYPE: [&str; 2] = ["apiVersion", "kind"];
/// What ends a line for some parsers of YAML, besides the line feed.
const OTHER_BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];
/// What a blank line has.
const BLANKS: [char; 2] = [' ', '\t'];

/// Checks that the folders `crds` of a chart and of its subcharts have no Secrets, and no lists, which could contain some. Helm creates
/// objects of any kind from them when it installs the chart.
///
/// Subcharts count whether they are enabled or not. Files that Helm does not read there, such as `crds/README.md`, may have any content.
///
/// # Errors
/// If there are some, or a document cannot be read with certainty. Also for what [`check`](crate::check) refuses, as far as that matters
/// here.
pub fn check_crds(archive: impl Read, limits: Limits) -> Result<(), ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    nested::visit(Box::new(archive), limits, &remaining, 0, &mut FoldersOfCrds)
}

/// Checks the files in folders of CRDs.
struct FoldersOfCrds;

impl Visitor for FoldersOfCrds {
    fn file<R: Read>(&mut self, file: File<'_, '_, R>) -> Result<(), ArchiveError> {
        if !is_of_crds(file.path.in_chart()) {
            return Ok(());
        }
        let path = shown(file.path.as_str().as_bytes());
        check_file(&bytes(file)?).map_err(|problem| ArchiveError::Crds { path, problem })
    }
}

/// Whether Helm creates what is in a file.
fn is_of_crds(in_chart: &str) -> bool {
    let mut path = in_chart;
    // Subcharts in folders.
    while let Some((chart, below)) = path
        .strip_prefix(nested::CHARTS)
        .and_then(|charts| charts.split_once('/'))
    {
        // Helm ignores these.
        if chart.starts_with(['_', '.']) {
            return false;
        }
        path = below;
    }
    let extension = path
        .strip_prefix(CRDS)
        .and_then(|file| Some(file.rsplit_once('.')?.1));
    // As Helm compares it: `ſ` is an `s`, too.
    extension.is_some_and(|extension| EXTENSIONS.contains(&&*extension.to_uppercase()))
}

fn check_file(content: &[u8]) -> Result<(), CrdProblem> {
    let text = std::str::from_utf8(content).map_err(|_| CrdProblem::NotText)?;
    // Helm ignores it too.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut start, mut end, mut first) = (0, 0, 1);
    for (line, whole) in (1..).zip(text.split_inclusive('\n')) {
        let content = whole.strip_suffix('\n').unwrap_or(whole);
        let content = content.strip_suffix('\r').unwrap_or(content);
        if content.contains(OTHER_BREAKS) {
            return Err(CrdProblem::Line { line });
        }
        if let Some(rest) = content.strip_prefix(SEPARATOR) {
            let rest = rest.trim();
            if !(rest.is_empty() || rest.starts_with('#')) {
                return Err(CrdProblem::Line { line });
            }
            check_document(text.get(start..end).unwrap_or_default(), first)?;
            (start, first) = (end + whole.len(), line + 1);
        }
        end += whole.len();
    }
    check_document(text.get(start..).unwrap_or_default(), first)
}

/// Checks a document that starts in the line `first` of its file.
fn check_document(text: &str, first: usize) -> Result<(), CrdProblem> {
    if text.trim_start().starts_with('{') {
        check_json(text, first)
    } else {
        check_lines(text, first)
    }
}

/// Helm reads all objects that follow one another.
fn check_json(text: &str, first: usize) -> Result<(), CrdProblem> {
    for object in Deserializer::from_str(text).into_iter::<BTreeMap<String, &RawValue>>() {
        let object = object.map_err(|error| CrdProblem::Line {
            line: first + error.line().saturating_sub(1),
        })?;
        let text = |field: &str| {
            let value = object.get(field)?;
            serde_json::from_str::<String>(value.get()).ok()
        };
        check_type(
            &text("apiVersion").unwrap_or_default(),
            &text("kind").unwrap_or_default(),
        )?;
        for field in object.keys() {
            check_field(field)?;
            // Two of them may count as one.
            if TYPE
                .iter()
                .any(|name| field != name && field.eq_ignore_ascii_case(name))
            {
                return Err(CrdProblem::Line { line: first });
            }
        }
    }
    Ok(())
}

/// Whatever a line is a part of, such as a text in quotes: a field of the document starts only where one starts here.
fn check_lines(text: &str, first: usize) -> Result<(), CrdProblem> {
    let of = |name: &'static str| {
        let fields = text.lines().filter_map(field);
        fields.filter(move |field| field.0 == name)
    };
    // The cause that helps most, whatever else is in the document.
    for (_, kind) in of("kind") {
        check_type(of("apiVersion").next().unwrap_or_default().1, kind)?;
    }
    let (mut fields, mut last, mut has_ended) = (BTreeMap::new(), "", false);
    for (line, content) in (first..).zip(text.lines()) {
        let blank = content.trim_matches(BLANKS);
        if blank.is_empty() || blank.starts_with('#') {
            continue;
        }
        // Nothing may follow the end: parsers differ in what becomes of that.
        if has_ended {
            return Err(CrdProblem::Line { line });
        }
        if content.trim_end_matches(BLANKS) == END {
            has_ended = true;
            continue;
        }
        if content.starts_with([' ', '-']) {
            // In these fields it would continue the text.
            if last.is_empty() || TYPE.contains(&last) {
                return Err(CrdProblem::Line { line });
            }
            continue;
        }
        let (name, value) = field(content).ok_or(CrdProblem::Line { line })?;
        check_field(name)?;
        if fields.insert(name, value).is_some() {
            return Err(CrdProblem::Line { line });
        }
        last = name;
    }
    if fields.is_empty() {
        return Ok(());
    }
    let text = |name: &str| fields.get(name).copied().unwrap_or_default();
    check_type(text("apiVersion"), text("kind"))
}

fn check_type(api_version: &str, kind: &str) -> Result<(), CrdProblem> {
    if !(kind.is_empty() || kind == SECRET || kind.ends_with(LIST)) {
        return Ok(());
    }
    Err(CrdProblem::Kind {
        api_version: cut(api_version.to_owned(), MAX_SHOWN),
        kind: cut(kind.to_owned(), MAX_SHOWN),
    })
}

fn check_field(field: &str) -> Result<(), CrdProblem> {
    // In JSON, the case of a field may not count.
    if field.eq_ignore_ascii_case(ITEMS) {
        let field = cut(field.to_owned(), MAX_SHOWN);
        return Err(CrdProblem::Field { field });
    }
    Ok(())
}

/// The field that starts with a line, and its text.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    (is_name && (value.is_empty() || value.starts_with(' '))).then(|| (name, plain(value)))
}

/// A text without its quotes and the comment after it.
fn plain(value: &str) -> &str {
    let value = value.split(" #").next().unwrap_or_default();
    let value = value.trim_matches(BLANKS);
    let unquoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    unquoted('"').or_else(|| unquoted('\'')).unwrap_or(value)
}
