//! Why content is refused.

use std::fmt;

use thiserror::Error;

/// Why content is refused. Texts of it are cut. None of these goes away by itself, unless the objects change.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ContentError {
    /// It is not the ID of content.
    #[error("{0:?} is not the ID of content, which is `s-` and 61 hexadecimal digits")]
    Id(String),
    /// The field `content` is not base64, or not gzip.
    #[error("the content {id} cannot be read: {cause}")]
    Damaged {
        /// The ID of the content, or the name of the part.
        id: String,
        /// Why.
        cause: String,
    },
    /// The bytes are not those of the ID.
    #[error("the content {id} has the SHA-256 sum {found} instead of {expected}: it was changed or cut")]
    Mismatch {
        /// The ID of the content, or the name of the part.
        id: String,
        /// What it should be; as far as the ID has it.
        expected: String,
        /// What it is.
        found: String,
    },
    /// More parts were given than there are.
    #[error("the content {id} has no part after the last one")]
    SurplusPart {
        /// The ID of the content.
        id: String,
    },
    /// It has too many bytes when stored.
    #[error("the files have more than {limit} bytes when they are compressed")]
    CompressedTooLarge {
        /// The limit.
        limit: u64,
    },
    /// It has too many bytes after decompression.
    #[error("the files have more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It has too many files.
    #[error("there are more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A file is too large.
    #[error("the file {name:?} has more than {limit} bytes")]
    FileTooLarge {
        /// Its name, cut.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// The JSON is not that of a manifest.
    #[error("the content {id} is not a list of files: {cause}")]
    Json {
        /// The ID of the content.
        id: String,
        /// Why.
        cause: String,
    },
    /// A file has a path that none needs.
    #[error("the file {name:?} has a path that {problem}")]
    Path {
        /// The path, cut.
        name: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// A file is not encoded as it says.
    #[error("the file {name:?} cannot be decoded from {encoding:?}: {cause}")]
    File {
        /// Its name, cut.
        name: String,
        /// The encoding that it names, cut.
        encoding: String,
        /// Why.
        cause: String,
    },
}

impl ContentError {
    /// Whether the files are too many or too large.
    pub const fn is_size(&self) -> bool {
        matches!(
            self,
            Self::CompressedTooLarge { .. }
                | Self::TooLarge { .. }
                | Self::TooManyFiles { .. }
                | Self::FileTooLarge { .. }
        )
    }
}

/// What is wrong with the path of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// It begins with `/`.
    Absolute,
    /// It contains `..`.
    Parent,
    /// It contains a control character.
    Control,
    /// It is too long.
    TooLong,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "is absolute",
            Self::Parent => "leads out of its folder",
            Self::Control => "contains a control character",
            Self::TooLong => "is too long",
        })
    }
}
