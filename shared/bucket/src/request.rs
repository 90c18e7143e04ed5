//! What of a bucket is deployed.

use helmops_chart::Strategy;

use crate::{BucketLocation, ChartObject};

/// What the name of a bucket in records, Bundles and Policies starts with.
pub const BUCKET_PREFIX: &str = "bucket+";

/// A bucket and what of it is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketChart {
    /// Where the bucket is.
    pub location: BucketLocation,
    /// What of it is deployed.
    pub object: ChartObject,
}

impl BucketChart {
    /// Where the chart is, below the prefix.
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.object {
            ChartObject::Folder { path, .. } | ChartObject::Archive { path } => path.as_str(),
        }
    }

    /// What is requested of the bucket, besides the path: the objects as they are, and what is released unless that is each change.
    #[must_use]
    pub fn requested(&self) -> String {
        match &self.object {
            ChartObject::Folder { strategy, .. } if *strategy != Strategy::default() => {
                format!("current objects, {}", strategy.as_str())
            }
            ChartObject::Folder { .. } => "current objects".to_owned(),
            ChartObject::Archive { .. } => "current archive".to_owned(),
        }
    }
}
