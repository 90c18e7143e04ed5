//! Events of an object.

/// Maximum bytes of a message; the API server accepts 1,024 characters.
pub const MAX_NOTE: usize = 1000;

/// An event of a HelmOp or Bundle, as in `kubectl describe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether the type is `Warning` instead of `Normal`.
    pub is_warning: bool,
    /// The reason.
    pub reason: String,
    /// The action.
    pub action: &'static str,
    /// The message.
    pub note: String,
}
