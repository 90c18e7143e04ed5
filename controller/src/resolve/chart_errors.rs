//! The classification of errors that repositories and registries have in common: those of lists of versions.

use helm_index::{IndexError, SelectError, tags::TagListError};
use helmops_core::reason::Reason;

use crate::error_class::{Class, Classified, ClassifiedError, Scope, classified};

impl ClassifiedError for IndexError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoSuchChart(_) => classified(Reason::ChartNotFound, Class::Absent),
            Self::OverBudget(_) => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
            Self::Input(_)
            | Self::Malformed(_)
            | Self::CutOff(_)
            | Self::NotUtf8(_)
            | Self::NotAnIndex(_)
            | Self::TextTooLong
            | Self::TooManyVersions
            | Self::TooManyAliases
            | Self::UnsupportedLayout => classified(Reason::InvalidIndex, Class::Absent),
        }
    }
}

impl ClassifiedError for TagListError {
    fn classify(&self) -> Classified {
        match self {
            Self::TooLong => classified(Reason::ResponseTooLarge, Class::Absent),
            Self::OverBudget(_) => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
        }
    }
}

impl ClassifiedError for SelectError {
    fn classify(&self) -> Classified {
        let reason = match self {
            Self::OnlyPrereleases { .. } => Reason::OnlyPrereleases,
            Self::NoVersions { .. } | Self::NoMatch { .. } | Self::NoUrl { .. } => Reason::NoMatchingVersion,
        };
        classified(reason, Class::Absent)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use helm_index::{DocumentKind, Nearest, OverBudget};

    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let name = || "web".to_owned();
        let busy = classified(Reason::Busy, Class::Transient(Scope::Namespace));
        let absent = |reason| classified(reason, Class::Absent);
        let nearest = Nearest {
            versions: Vec::new(),
            others: 0,
        };
        let errors: [(Box<dyn ClassifiedError>, Classified); 17] = [
            (
                Box::new(IndexError::NoSuchChart(name())),
                absent(Reason::ChartNotFound),
            ),
            (Box::new(IndexError::OverBudget(OverBudget)), busy),
            (
                Box::new(IndexError::Input(io::ErrorKind::Other.into())),
                absent(Reason::InvalidIndex),
            ),
            (
                Box::new(IndexError::Malformed(name())),
                absent(Reason::InvalidIndex),
            ),
            (Box::new(IndexError::CutOff(name())), absent(Reason::InvalidIndex)),
            (
                Box::new(IndexError::NotUtf8("a byte")),
                absent(Reason::InvalidIndex),
            ),
            (
                Box::new(IndexError::NotAnIndex(DocumentKind::Empty)),
                absent(Reason::InvalidIndex),
            ),
            (Box::new(IndexError::TextTooLong), absent(Reason::InvalidIndex)),
            (
                Box::new(IndexError::TooManyVersions),
                absent(Reason::InvalidIndex),
            ),
            (Box::new(IndexError::TooManyAliases), absent(Reason::InvalidIndex)),
            (
                Box::new(IndexError::UnsupportedLayout),
                absent(Reason::InvalidIndex),
            ),
            (Box::new(TagListError::TooLong), absent(Reason::ResponseTooLarge)),
            (Box::new(TagListError::OverBudget(OverBudget)), busy),
            (
                Box::new(SelectError::NoVersions { chart: name() }),
                absent(Reason::NoMatchingVersion),
            ),
            (
                Box::new(SelectError::NoMatch {
                    chart: name(),
                    requested: name(),
                    nearest,
                }),
                absent(Reason::NoMatchingVersion),
            ),
            (
                Box::new(SelectError::OnlyPrereleases {
                    chart: name(),
                    requested: name(),
                    newest: name(),
                    constraint: name(),
                }),
                absent(Reason::OnlyPrereleases),
            ),
            (
                Box::new(SelectError::NoUrl {
                    chart: name(),
                    version: name(),
                }),
                absent(Reason::NoMatchingVersion),
            ),
        ];
        for (error, expected) in errors {
            assert_eq!(error.classify(), expected, "{error}");
        }
    }
}
