//! Policies of a namespace.

mod namespace;
mod without_webhook;
