//! A report as text, as SARIF, and as annotations.

pub mod github;
pub mod sarif;
pub mod text;
