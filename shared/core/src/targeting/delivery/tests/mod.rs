//! The guarantees of the delivery, on plans and on a model of the API server.

mod guarantees;
mod histories;
mod model;
mod pruning;
