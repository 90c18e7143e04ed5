//! The functional core of the agent: what a BundleDeployment requires of a Helm release, and what is to be reported of it.
//!
//! Values in, values out: the current time and names are parameters, and nothing here reads a clock, a file or a socket.

#![warn(missing_docs)]

pub mod action;
pub mod adoption;
pub mod api_move;
pub mod chart_metadata;
pub mod content;
pub mod dependencies;
pub mod deployed;
pub mod drift;
#[cfg(test)]
mod fixture;
pub mod error_text;
pub mod gate;
pub mod health;
pub mod history;
pub mod lifecycle;
pub mod manifest;
mod mapping;
pub mod marks;
pub mod names;
pub mod object;
pub mod owner;
pub mod plan;
pub mod post_render;
pub mod record;
pub mod removal_order;
pub mod report;
pub mod scopes;
pub mod state;
pub mod values;
