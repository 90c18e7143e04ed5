//! What the functional cores and the processes share, and what decides nothing about a HelmOp: values in, values out.
//!
//! | module | content |
//! |---|---|
//! | [`reason`] | the closed list of reasons, for all outcomes |
//! | [`validation`] | errors of fields, names and label selectors |
//! | [`selector`] | the objects that a label selector matches |
//! | [`expression`] | CEL expressions: whether they are valid, and their evaluation within limits |
//! | [`chart`] | where a chart comes from, the protocol of registries, and which versions are requested |
//! | [`patch`] | patches of Kustomize |
//! | [`names`] | names of objects that follow from those of others |
//! | [`deployment_state`] | the state of a Bundle on a cluster |
//! | [`condition`] | conditions of a status |
//! | [`event`] | events of an object |
//!
//! It is a crate of its own so that a change of admission or targeting rebuilds only what uses them.
//!
//! Nothing here depends on a client, a clock, a socket or a file: the current time and names are parameters.

#![warn(missing_docs)]

pub mod reason;
pub mod validation;
pub mod selector;
pub mod expression;
pub mod chart;
pub mod patch;
pub mod names;
pub mod deployment_state;
pub mod condition;
pub mod event;
