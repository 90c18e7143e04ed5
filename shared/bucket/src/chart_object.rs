//! What of a bucket is deployed: a folder, or an archive.

use bounded_text::cut;
use helmops_chart::{ChartPath, Strategy};

use crate::location::{BucketFieldError, MAX_SHOWN};

/// What the name of an archive ends with.
const ARCHIVE: &str = ".tgz";

/// What of a bucket is deployed, below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartObject {
    /// The objects of a folder, which are packed.
    Folder {
        /// The folder.
        path: ChartPath,
        /// Which version the packed chart has.
        strategy: Strategy,
    },
    /// One object, which is the archive of a chart.
    Archive {
        /// Its path.
        path: ChartPath,
    },
}

impl ChartObject {
    /// Reads a path: that of an archive ends with `.tgz`. Without a strategy, a folder has the usual one.
    ///
    /// # Errors
    /// If it is no path in a bucket, or the version of an archive would have to be changed.
    pub fn parse(path: &str, strategy: Option<Strategy>) -> Result<Self, BucketFieldError> {
        let error = |field, text: &str, problem| BucketFieldError {
            field,
            text: cut(text.to_owned(), MAX_SHOWN),
            problem,
        };
        let parsed = ChartPath::parse(path).map_err(|_| {
            let problem = "is no path in a bucket; write the folder of the chart, such as charts/web, or its archive, such as \
                           charts/web-1.0.0.tgz, without a slash at its start and without . or .. in it";
            error("path", path, problem)
        })?;
        if !parsed.as_str().ends_with(ARCHIVE) {
            return Ok(Self::Folder {
                path: parsed,
                strategy: strategy.unwrap_or_default(),
            });
        }
        match strategy {
            None | Some(Strategy::ChartVersion) => Ok(Self::Archive { path: parsed }),
            Some(Strategy::Manifests) => {
                let problem = "names an archive, and manifests are in a folder; upload them unpacked, and name their folder";
                Err(error("path", path, problem))
            }
            Some(Strategy::Revision) => {
                let problem = "names an archive, which is used as it is, so it keeps its version; use the strategy ChartVersion, or upload the folder of \
                     the chart";
                Err(error("path", path, problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_folder_or_an_archive() {
        let parse = |path| ChartObject::parse(path, None);
        let at = |path| ChartPath::parse(path).unwrap();
        let folder = |path, strategy| ChartObject::Folder {
            path: at(path),
            strategy,
        };
        assert_eq!(parse("charts/web/"), Ok(folder("charts/web", Strategy::Revision)));
        assert_eq!(parse(""), Ok(folder("", Strategy::Revision)));
        let path = at("charts/web-1.0.0.tgz");
        assert_eq!(parse("charts/web-1.0.0.tgz"), Ok(ChartObject::Archive { path }));
        assert_eq!(
            ChartObject::parse("web", Some(Strategy::ChartVersion)),
            Ok(folder("web", Strategy::ChartVersion))
        );
        for (path, strategy, expected) in [
            ("/web", None, "path \"/web\" is no path"),
            ("a/../b", None, "is no path"),
            ("web.tgz", Some(Strategy::Revision), "keeps its version"),
            ("web.tgz", Some(Strategy::Manifests), "upload them unpacked"),
        ] {
            let error = ChartObject::parse(path, strategy).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
