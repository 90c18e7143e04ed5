//! Charts in buckets: where a bucket is, what its list of objects says about a chart, and which credentials there are for it.
//!
//! ```text
//! fields ─► location ─┐
//! Secret ─► credentials ─┴► (requests of the user of this crate) ─► list of objects ─► helmops_chart: folders, unchanged? ─► archive
//! ```
//!
//! Values in, values out. The names of fields, providers and keys are those of Flux's `Bucket`.
//!
//! What a chart is follows from the list alone: each object has an `ETag`, which is another one when its content is. So a poll that finds
//! nothing new is one list.

#![warn(missing_docs)]

mod chart_object;
mod credentials;
mod limits;
mod location;
mod refusal;
mod request;

pub use self::{
    chart_object::ChartObject,
    credentials::{BucketKeys, Credentials, CredentialsError, KEYS},
    limits::Limits,
    location::{BucketFieldError, BucketFields, BucketLocation, Provider},
    refusal::{Operation, Refusal, RefusalCause},
    request::{BUCKET_PREFIX, BucketChart},
};
