//! Why the files of a Bundle cannot be read.

use helmops_content::ContentError;
use thiserror::Error;

/// Where files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesOrigin {
    /// In Contents of the management cluster, compressed.
    Content,
    /// In a registry.
    Registry,
}

/// Files that were changed, or are too large.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{source}{}", advice(.source, *.origin))]
pub struct UnreadableFiles {
    origin: FilesOrigin,
    source: ContentError,
}

impl FilesOrigin {
    /// Files from here that cannot be read.
    pub const fn unreadable(self, source: ContentError) -> UnreadableFiles {
        UnreadableFiles { origin: self, source }
    }
}

/// What puts the right files there again. It makes none smaller.
const fn advice(error: &ContentError, origin: FilesOrigin) -> &'static str {
    match (error, origin) {
        (ContentError::Mismatch { .. } | ContentError::Damaged { .. }, FilesOrigin::Content) => {
            "; delete the Content object, so that it is written again"
        }
        (ContentError::Mismatch { .. } | ContentError::Damaged { .. }, FilesOrigin::Registry) => {
            "; have the files published to the registry again: raise spec.forceSyncGeneration of the GitRepo"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_for_where_the_files_are() {
        let damaged = || ContentError::Damaged {
            id: "s-1".to_owned(),
            cause: "it is damaged".to_owned(),
        };
        let large = ContentError::TooManyFiles { limit: 1 };
        for (error, text) in [
            (
                FilesOrigin::Content.unreadable(damaged()),
                "the content s-1 cannot be read: it is damaged; delete the Content object, so that it is written again",
            ),
            (
                FilesOrigin::Registry.unreadable(damaged()),
                "the content s-1 cannot be read: it is damaged; have the files published to the registry again: raise \
                 spec.forceSyncGeneration of the GitRepo",
            ),
            (
                FilesOrigin::Content.unreadable(large),
                "there are more than 1 files",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
