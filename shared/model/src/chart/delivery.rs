//! How a chart gets to the clusters: `spec.chartSource.deliver`.

use super::{registry::reference::Reference, source::ChartSource};

/// The folder of a chart whose name is no name of a folder.
const FOLDER: &str = "chart";
/// The longest name of a folder, in bytes.
const MAX_FOLDER: usize = 250;

/// How a chart gets to the clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Each agent downloads it from its repository or registry.
    #[default]
    Direct,
    /// The controller downloads it once, and agents read it from a Content object of the management cluster.
    Content,
}

impl Delivery {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "Direct",
            Self::Content => "Content",
        }
    }

    /// Parses the text in the API, which may be empty; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        [Self::Direct, Self::Content]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

/// The folder that the files of a chart are in, in its content: the name by which a HelmOp requests it. It is `helm.chart` of the options that
/// agents deploy the content with, so that Fleet's agents find `Chart.yaml` in it.
pub fn content_folder(source: ChartSource<'_>) -> &str {
    let name = match source {
        ChartSource::Repository { chart, .. } => chart,
        ChartSource::Oci { repo } => {
            let repository = Reference::parse(repo).map_or("", |reference| reference.repository);
            repository.rsplit_once('/').map_or(repository, |(_, name)| name)
        }
        ChartSource::Packed { path, .. } => path.rsplit_once('/').map_or(path, |(_, name)| name),
        ChartSource::Archive { .. } => "",
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    // A dot at its start would hide it, or lead elsewhere.
    let is_folder =
        !name.is_empty() && name.len() <= MAX_FOLDER && !name.starts_with('.') && name.bytes().all(is_plain);
    if is_folder { name } else { FOLDER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_direct() {
        for (text, delivery) in [
            ("", Some(Delivery::Direct)),
            ("Direct", Some(Delivery::Direct)),
            ("Content", Some(Delivery::Content)),
            ("content", None),
        ] {
            assert_eq!(Delivery::parse(text), delivery, "{text}");
        }
    }

    #[test]
    fn the_folder_has_the_name_of_the_chart_if_it_can() {
        for (repo, chart, folder) in [
            ("https://h", "web", "web"),
            ("https://h", "web_1.x", "web_1.x"),
            ("https://h", "..", "chart"),
            ("https://h", "a/b", "chart"),
            ("https://h", "ä", "chart"),
            ("oci://h/charts/web:1.2.3", "", "web"),
            ("oci://h", "", "chart"),
            ("", "https://h/web-1.2.3.tgz", "chart"),
            ("git+https://h/n.git", "charts/web", "web"),
            ("git+https://h/n.git", "", "chart"),
        ] {
            assert_eq!(
                content_folder(ChartSource::of(repo, chart)),
                folder,
                "{repo} {chart}"
            );
        }
    }
}
