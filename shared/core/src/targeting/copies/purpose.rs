//! What a copy is for, as its labels and annotations say.

use helmops_api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyRole {
    /// Values of a deployment.
    Values,
    /// Access to the chart.
    Access,
    /// A resource to copy into the cluster.
    Downstream,
}

impl CopyRole {
    pub(super) const ALL: [Self; 3] = [Self::Values, Self::Access, Self::Downstream];

    /// The value of the label [`labels::COPY_TYPE`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Access => "access",
            Self::Downstream => "downstream",
        }
    }

    /// Parses the value of the label.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// What a copy is for, according to its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPurpose {
    /// Its role.
    pub role: CopyRole,
    /// Namespace of the Bundles that it is for.
    pub bundle_namespace: String,
    /// Name of the Bundle that it is for, if it is for a single one.
    pub bundle: Option<String>,
    /// Namespace and name of its source; `None` for values, which have none.
    pub source: Option<String>,
}

impl CopyPurpose {
    /// Reads the metadata; `None` if the object is not a copy.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let role = CopyRole::parse(metadata.labels.as_ref()?.get(labels::COPY_TYPE)?)?;
        let made_from = labels::annotation(metadata, labels::COPIED_FROM);
        let source = made_from.and_then(|made_from| made_from.split_once('@'));
        Some(Self {
            role,
            bundle_namespace: labels::of(metadata, labels::BUNDLE_NAMESPACE)
                .unwrap_or_default()
                .to_owned(),
            bundle: labels::of(metadata, labels::BUNDLE_NAME).map(str::to_owned),
            source: source
                .filter(|_| role != CopyRole::Values)
                .map(|(source, _)| source.to_owned()),
        })
    }
}
