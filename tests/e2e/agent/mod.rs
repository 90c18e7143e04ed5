//! The agent: what it does with Helm, whose modules the tests call, and what it does as a process.

mod attacks;
mod copies;
mod crds;
mod engine;
mod failing;
mod failures;
mod faults;
mod hostile;
mod inputs;
mod interruptions;
mod kinds;
mod life;
mod lifecycle;
mod ownership;
mod permissions;
mod pods;
mod post_render;
mod records;
mod release_tests;
mod releases;
mod reports;
mod restart;
mod safety;
mod takeover;
mod token;
mod volumes;
