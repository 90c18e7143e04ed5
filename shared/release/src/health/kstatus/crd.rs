//! CustomResourceDefinitions.

use super::{Assessment, Subject};

/// The rules of CustomResourceDefinitions.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let decided =
        subject
            .conditions
            .iter()
            .find_map(|condition| match (condition.r#type, condition.status) {
                ("NamesAccepted", "False") => Some(Assessment::failed(condition.message)),
                ("Established", "False") if condition.reason != "Installing" => {
                    Some(Assessment::failed(condition.message))
                }
                ("Established", "True") => Some(Assessment::current("CRD is established")),
                _ => None,
            });
    decided.unwrap_or_else(|| Assessment::in_progress("Install in progress"))
}
