//! The classification of errors that several sources of charts have in common: those of lists of versions, and of charts in folders.

use helm_index::{IndexError, SelectError, tags::TagListError};
use helmops_chart::{ChartError, ListedChartError, ListedFilesError};
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, Scope, classified};

/// The classification of an error of an index.
pub fn of_index(error: &IndexError) -> Classified {
    match error {
        IndexError::NoSuchChart(_) => classified(Reason::ChartNotFound, Class::Absent),
        IndexError::OverBudget(_) => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
        IndexError::Input(_)
        | IndexError::Malformed(_)
        | IndexError::CutOff(_)
        | IndexError::NotUtf8(_)
        | IndexError::NotAnIndex(_)
        | IndexError::TextTooLong
        | IndexError::TooManyVersions
        | IndexError::TooManyAliases
        | IndexError::UnsupportedLayout => classified(Reason::InvalidIndex, Class::Absent),
    }
}

/// The classification of an error of a list of tags.
pub fn of_tags(error: TagListError) -> Classified {
    match error {
        TagListError::TooLong => classified(Reason::ResponseTooLarge, Class::Absent),
        TagListError::OverBudget(_) => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
    }
}

/// The classification of an error of a selection.
pub fn of_selection(error: &SelectError) -> Classified {
    let reason = match error {
        SelectError::OnlyPrereleases { .. } => Reason::OnlyPrereleases,
        SelectError::NoVersions { .. }
        | SelectError::NoMatch { .. }
        | SelectError::Filtered { .. }
        | SelectError::NoUrl { .. } => Reason::NoMatchingVersion,
    };
    classified(reason, Class::Absent)
}

/// The classification of an error of a chart in folders, with that of an error of what stores them.
pub fn of_chart<E: std::error::Error>(
    error: &ChartError<E>,
    of_tree: impl FnOnce(&E) -> Classified,
) -> Classified {
    match error {
        ChartError::Tree(error) => of_tree(error),
        ChartError::NoChart { .. } | ChartError::NoManifests { .. } => {
            classified(Reason::ChartNotFound, Class::Absent)
        }
        _ => classified(Reason::InvalidChart, Class::Absent),
    }
}

/// The classification of an error of a chart of listed files.
pub fn of_listed(error: &ListedChartError) -> Classified {
    of_chart(error, |error| match error {
        ListedFilesError::Memory => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
        ListedFilesError::Missing => classified(Reason::RepositoryError, Class::TRANSIENT),
    })
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
        let errors: [(Classified, Classified); 17] = [
            (
                of_index(&IndexError::NoSuchChart(name())),
                absent(Reason::ChartNotFound),
            ),
            (of_index(&IndexError::OverBudget(OverBudget)), busy),
            (
                of_index(&IndexError::Input(io::ErrorKind::Other.into())),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::Malformed(name())),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::CutOff(name())),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::NotUtf8("a byte")),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::NotAnIndex(DocumentKind::Empty)),
                absent(Reason::InvalidIndex),
            ),
            (of_index(&IndexError::TextTooLong), absent(Reason::InvalidIndex)),
            (
                of_index(&IndexError::TooManyVersions),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::TooManyAliases),
                absent(Reason::InvalidIndex),
            ),
            (
                of_index(&IndexError::UnsupportedLayout),
                absent(Reason::InvalidIndex),
            ),
            (of_tags(TagListError::TooLong), absent(Reason::ResponseTooLarge)),
            (of_tags(TagListError::OverBudget(OverBudget)), busy),
            (
                of_selection(&SelectError::NoVersions { chart: name() }),
                absent(Reason::NoMatchingVersion),
            ),
            (
                of_selection(&SelectError::NoMatch {
                    chart: name(),
                    requested: name(),
                    nearest,
                }),
                absent(Reason::NoMatchingVersion),
            ),
            (
                of_selection(&SelectError::OnlyPrereleases {
                    chart: name(),
                    requested: name(),
                    newest: name(),
                    constraint: name(),
                }),
                absent(Reason::OnlyPrereleases),
            ),
            (
                of_selection(&SelectError::NoUrl {
                    chart: name(),
                    version: name(),
                }),
                absent(Reason::NoMatchingVersion),
            ),
        ];
        for (at, (actual, expected)) in errors.into_iter().enumerate() {
            assert_eq!(actual, expected, "{at}");
        }
    }
}
