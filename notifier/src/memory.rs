//! What is remembered of an Alert in the process only: a restart loses it.

use std::{collections::VecDeque, sync::Arc};

use helmops_notify::{
    alert::{Memory, Message, Rules},
    message_format::Format,
};

/// What is remembered of an Alert in the process only.
#[derive(Debug, Default)]
pub struct AlertMemory {
    /// The part of the memory that the plan reads.
    pub plan: Memory,
    /// Messages to an Alertmanager that are sent again.
    pub refresh: VecDeque<Message>,
    /// The rules of a generation, for a format.
    pub rules: Option<(Option<i64>, Format, Arc<Rules>)>,
}
