//! What is written for a cluster.

use helmops_api::BundleDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::targeting::copies::{Copy, CopyRef};

/// The actions for a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// They are executed in this order. None is executed after one that fails.
    pub actions: Vec<Action>,
    /// Whether the deployment that is created has to become an owner of copies: after its creation, the cluster is observed and
    /// planned again.
    pub has_new_owner: bool,
}

/// One write, or [`Action::KeepCopy`].
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates a copy. Fails if an object with its name exists: then the observed state was stale.
    CreateCopy(CopyWrite),
    /// Gives a copy exactly these data, and these metadata and owners. Creates it if it does not exist. Fails if it has another
    /// type: then the observed state was stale.
    ApplyCopy(CopyWrite),
    /// Writes nothing: the existing object has the content of the source, and is left as it is. The cache records that, so that
    /// the object is not read again.
    KeepCopy {
        /// The desired copy.
        copy: Box<Copy>,
        /// The metadata of the existing object.
        metadata: Box<ObjectMeta>,
    },
    /// Sets the owners of a copy, and nothing else. Fails if it has changed since it was read.
    SetOwners {
        /// The copy.
        copy: CopyRef,
        /// The version that was read.
        version: ObjectVersion,
        /// All its owners.
        owners: Vec<OwnerReference>,
    },
    /// Deletes a copy. Fails if it has changed since it was read.
    DeleteCopy {
        /// The copy.
        copy: CopyRef,
        /// The version that was read.
        version: ObjectVersion,
    },
    /// Creates the deployment. Fails if it exists.
    CreateDeployment(Box<BundleDeployment>),
    /// Replaces the deployment. Fails if it has changed since it was read.
    ReplaceDeployment(Box<BundleDeployment>),
}

/// A copy and its owners.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyWrite {
    /// The copy.
    pub copy: Box<Copy>,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
}

/// Identifies an object and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its UID.
    pub uid: Option<String>,
    /// Its resource version.
    pub resource_version: Option<String>,
}

impl ObjectVersion {
    /// The version of an object that was read.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}
