//! Charts in buckets: where a bucket is, what its list of objects says about a chart, and which credentials there are for it.
//!
//! ```text
//! fields ─► location ─┐
//! Secret ─► credentials ─┴► (requests of the user of this crate) ─► list of objects ─► folders ─► helmops_chart: unchanged? ─► archive
//! ```
//!
//! Values in, values out. The names of fields, providers and keys are those of Flux's `Bucket`.
//!
//! What a chart is follows from the list alone: each object has an `ETag`, which is another one when its content is. So a poll that finds
//! nothing new is one list.

#![warn(missing_docs)]

mod chart_object;
mod credentials;
mod folders;
mod limits;
mod location;
mod refusal;
mod request;

pub use self::{
    chart_object::ChartObject,
    credentials::{BucketKeys, Credentials, CredentialsError, KEYS},
    folders::{BucketFiles, BucketFilesError, BucketFolders, ContentId, ListedObject, TooManyFolders},
    limits::Limits,
    location::{BucketFieldError, BucketFields, BucketLocation, Provider},
    refusal::{Operation, Refusal, RefusalCause},
    request::{BUCKET_PREFIX, BucketChart},
};

/// What a chart in a bucket consists of.
pub type Content = helmops_chart::Content<ContentId>;
/// Why a folder of a bucket cannot be deployed as a chart.
pub type ChartError = helmops_chart::ChartError<BucketFilesError>;
/// A packed chart.
pub type PackedChart = helmops_chart::PackedChart<ContentId>;
