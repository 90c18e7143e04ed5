//! The namespace of a release.

use super::{Settings, fields::Fields};
use crate::create::draft::Draft;

/// That of kubectl, for an object without one.
const DEFAULT: &str = "default";

/// Where an object says in which namespace its release is.
#[derive(Debug)]
pub struct Wanted<'w> {
    /// The namespace, if the object has one.
    pub namespace: Option<&'w str>,
    /// The field that is missing without one.
    pub field: &'w str,
    /// What prints the object with one.
    pub build: &'w str,
    /// What has installed the release there.
    pub tool: &'w str,
}

/// Sets the namespace, with a note if it is not that of the object, and returns it.
pub fn set(fields: &Fields<'_>, wanted: &Wanted<'_>, settings: &Settings, draft: &mut Draft) -> String {
    let namespace = settings.target_namespace.as_deref().or(wanted.namespace);
    match (namespace, wanted.namespace) {
        (None, _) => {
            let text = format!(
                "no namespace, so that of the release is {DEFAULT:?}: set --target-namespace, or convert what {} prints",
                wanted.build
            );
            draft.notes.push(fields.note(wanted.field, text));
        }
        (Some(flag), Some(own)) if flag != own => {
            let text = format!(
                "--target-namespace replaces namespace {own:?}, so the release of {} there is not taken over",
                wanted.tool
            );
            draft.notes.push(fields.note("metadata.namespace", text));
        }
        _ => {}
    }
    let namespace = namespace.unwrap_or(DEFAULT).to_owned();
    let options = &mut draft.helmop.spec.bundle.options;
    namespace.clone_into(&mut options.default_namespace);
    namespace
}
