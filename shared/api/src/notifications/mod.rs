//! Notifications: alerts about objects to addresses, and requests from registries that announce a new chart.
//!
//! These kinds belong to helmops, not to Fleet, so they have a group of their own.

mod alert;
mod alert_provider;
pub mod limits;
mod receiver;

pub use alert::{Alert, AlertSpec, AlertStatus, EventSource, Grouping, ReportedObject, UndeliveredMessage};
pub use alert_provider::{AlertProvider, AlertProviderSpec, AlertProviderStatus};
pub use receiver::{Push, Receiver, ReceiverResource, ReceiverSpec, ReceiverStatus};

use super::{unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// The name of an object in the same namespace.
    pub struct LocalReference: [unknown: UnknownFields] {
        /// Name of the object.
        "name" => name: String,
    }
}
