//! Conditions of Fleet's resources.

use super::{unknown_fields::UnknownFields, wire_struct::wire};

impl Condition {
    /// The condition of this type.
    pub fn find<'c>(conditions: &'c [Self], r#type: &str) -> Option<&'c Self> {
        conditions.iter().find(|condition| condition.r#type == r#type)
    }

    /// Whether the condition of this type is `True`.
    pub fn is_true(conditions: &[Self], r#type: &str) -> bool {
        conditions
            .iter()
            .any(|condition| condition.r#type == r#type && condition.status == "True")
    }
}

wire! {
    /// One aspect of an object's state.
    pub struct Condition: [unknown: UnknownFields] {
        /// The aspect, such as `Accepted` or `Ready`.
        "type" => r#type: String,
        /// `True`, `False` or `Unknown`.
        "status" => status: String,
        /// When the condition was last written.
        "lastUpdateTime" => last_update_time: String,
        /// When `status` last changed.
        "lastTransitionTime" => last_transition_time: String,
        /// Why, as one of a closed list of reasons.
        "reason" => reason: String,
        /// Why, in a sentence.
        "message" => message: String,
        /// The `metadata.generation` that the condition is for.
        "observedGeneration" => observed_generation: Option<i64>,
    }
}
