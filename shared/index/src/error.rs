//! Why an index cannot be used.

use std::fmt;
use std::io;

use thiserror::Error;

use super::{MAX_KEPT, MAX_TOKEN_LEN};
use crate::meter::OverBudget;

/// Why an index cannot be used.
#[derive(Debug, Error)]
pub enum IndexError {
    /// The document could not be read to its end. The document itself is not at fault.
    #[error("the index could not be read to its end")]
    Input(#[source] io::Error),
    /// The document is not YAML.
    #[error(
        "the index is not valid YAML: {0}; the owner of the repository has to regenerate it with `helm repo index`"
    )]
    Malformed(String),
    /// The document is truncated.
    #[error(
        "the index is cut off: {0}; the download was interrupted, or the file in the repository is incomplete"
    )]
    CutOff(String),
    /// The document is not UTF-8 text.
    #[error("the index is not UTF-8 text: {0}")]
    NotUtf8(&'static str),
    /// The document is not an index: an error page, for example.
    #[error(
        "the document is not a Helm repository index: {0}; check that `index.yaml` is what is at the URL"
    )]
    NotAnIndex(DocumentKind),
    /// The index does not list the chart.
    #[error("no chart name found: the index has no chart {0:?}")]
    NoSuchChart(String),
    /// A text or comment is longer than in any real index.
    #[error("the index has a text or comment of more than {MAX_TOKEN_LEN} bytes")]
    TextTooLong,
    /// The requested charts have more versions than are kept.
    #[error(
        "the index lists too many versions: those of the requested charts take more than {MAX_KEPT} bytes; the \
         owner of the repository has to remove old ones"
    )]
    TooManyVersions,
    /// The memory for all documents that are parsed at the same time is used up. The document itself is not at fault.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The content of YAML anchors and aliases exceeds the limit.
    #[error(
        "the index repeats too much through YAML aliases; the owner of the repository has to regenerate it without them"
    )]
    TooManyAliases,
    /// The document does not have Helm's layout, which was detected too late to restart. Fetch it again and read it with
    /// [`super::Layout::General`].
    #[error("the index does not have the layout that Helm writes")]
    UnsupportedLayout,
}

/// What a document is that is not an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Empty, or blanks and comments only.
    Empty,
    /// HTML or XML: a login page, an error of a proxy or of an object store.
    WebPage,
    /// A list.
    List,
    /// Text, with its beginning.
    Text(String),
    /// A mapping without `entries`, and its message, if any.
    NoEntries(Option<String>),
    /// A mapping whose `entries` is not a mapping.
    InvalidEntries,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::WebPage => f.write_str("it is a web page"),
            Self::List => f.write_str("it is a list"),
            Self::Text(text) => write!(f, "it is plain text, {text:?}"),
            Self::NoEntries(None) => f.write_str("it has no `entries`"),
            Self::NoEntries(Some(message)) => write!(f, "it has no `entries` but the message {message:?}"),
            Self::InvalidEntries => f.write_str("its `entries` is not a mapping of charts"),
        }
    }
}
