//! Why an index gives no versions.

use std::fmt;
use std::io;

use thiserror::Error;

use super::{MAX_KEPT, MAX_QUIET};
use crate::chart::meter::OverBudget;

/// Why an index gives no versions.
#[derive(Debug, Error)]
pub enum IndexError {
    /// The document could not be read to its end. Says nothing of the document.
    #[error("the index could not be read to its end")]
    Input(#[source] io::Error),
    /// The document is no YAML.
    #[error(
        "the index is not valid YAML: {0}; have the repository's owner make it again with `helm repo index`"
    )]
    Malformed(String),
    /// The document ends in the middle.
    #[error(
        "the index is cut off: {0}; the download was interrupted, or the file in the repository is incomplete"
    )]
    CutOff(String),
    /// The document is no text in UTF-8.
    #[error("the index is not UTF-8 text: {0}")]
    NotUtf8(&'static str),
    /// The document is in order but no index: an error page, for example.
    #[error(
        "the document is not a Helm repository index: {0}; check that `index.yaml` is what is at the URL"
    )]
    NotAnIndex(Instead),
    /// The index does not list the chart.
    #[error("no chart name found: the index has no chart {0:?}")]
    NoSuchChart(String),
    /// One text, or comment, is longer than any index has use for.
    #[error("the index has a text or comment of more than {MAX_QUIET} bytes")]
    TextTooLong,
    /// The wanted charts have more versions than are kept.
    #[error(
        "the index lists too many versions: those of the wanted charts take more than {MAX_KEPT} bytes; have old ones \
         removed from it"
    )]
    TooManyVersions,
    /// The memory for what is read at the same time is used up. Says nothing of the document.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// What anchors name or aliases repeat is more than is kept.
    #[error("the index repeats too much through YAML aliases; have it made again without them")]
    TooManyAliases,
    /// The document is not laid out as Helm writes it, which showed too late to start over. Fetch it again and read it
    /// with [`super::Layout::General`].
    #[error("the index is not laid out as Helm writes it")]
    OddLayout,
}

/// What a document is that is no index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Nothing, or blanks and comments alone.
    Empty,
    /// HTML or XML: a login page, an error of a proxy or of an object store.
    WebPage,
    /// A list.
    List,
    /// Text; this is its beginning.
    Text(String),
    /// A mapping without `entries`, and the message in it.
    NoEntries(Option<String>),
    /// A mapping whose `entries` is something else than a mapping.
    OddEntries,
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::WebPage => f.write_str("it is a web page"),
            Self::List => f.write_str("it is a list"),
            Self::Text(text) => write!(f, "it is plain text, {text:?}"),
            Self::NoEntries(None) => f.write_str("it has no `entries`"),
            Self::NoEntries(Some(message)) => write!(f, "it has no `entries` and says {message:?}"),
            Self::OddEntries => f.write_str("its `entries` is not a mapping of charts"),
        }
    }
}
