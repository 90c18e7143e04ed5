//! Conditions as Fleet's kinds carry them.

use super::wire::wire;

wire! {
    /// One aspect of an object's state.
    pub struct Condition {
        /// The aspect, such as `Accepted` or `Ready`.
        "type" => r#type: String,
        /// `True`, `False` or `Unknown`.
        "status" => status: String,
        /// When the condition was last written.
        "lastUpdateTime" => last_update_time: String,
        /// When `status` last changed.
        "lastTransitionTime" => last_transition_time: String,
        /// Why, in one word of a closed list.
        "reason" => reason: String,
        /// Why, in a sentence.
        "message" => message: String,
        /// The `metadata.generation` that the condition speaks of.
        "observedGeneration" => observed_generation: Option<i64>,
    }
}
