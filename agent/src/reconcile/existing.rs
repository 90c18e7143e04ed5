//! What exists already of what a chart would install.
//!
//! Helm takes objects over that carry the name of the release, or any with `takeOwnership`. An installation does not say which of its
//! objects are new, so this looks at them first.

use helmops_release::{
    lifecycle::Remediation,
    manifest, marks,
    object::ObjectId,
    owner::OtherOwner,
    record::{Cause, Status},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    deployment::{Deployment, Run, name},
    prepare::Prepared,
};
use crate::{error::AgentError, live::Objects, owned::OwnedRelease};

impl Deployment<'_> {
    /// Whether all objects of the chart that exist already are of these releases, or of the present one: then Helm may take them over.
    /// Otherwise it refuses them, and names the first one.
    ///
    /// # Errors
    /// If the chart cannot be rendered because the agent stops, or an object cannot be read.
    pub(super) async fn owns_all_that_exists(
        &self,
        prepared: &Prepared,
        releases: &[OwnedRelease],
    ) -> Result<bool, AgentError> {
        let Some(objects) = self.objects_to_install(prepared).await? else {
            return Ok(false);
        };
        let own = releases.iter().map(|owned| &owned.release);
        let own: Vec<_> = own.chain([&self.release]).collect();
        let set = self.context.set_of(name(self.wanted));
        for object in objects {
            if let Some((id, metadata)) = self.existing(prepared, &object).await?
                && OtherOwner::of(&metadata.annotations.unwrap_or_default(), &own, &set).is_some()
            {
                tracing::info!(release = %self.release, object = %id, "the release that was renamed does not own the object");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the release has no objects of its own before a run: it was never installed, or is uninstalled.
    ///
    /// # Errors
    /// If a record cannot be read.
    async fn has_no_objects(&self, run: Run) -> Result<bool, AgentError> {
        match run {
            Run::Install { replaces: false } => Ok(true),
            Run::Install { replaces: true } => {
                let history = self.records.history().await?;
                let newest = history.newest();
                Ok(newest.is_some_and(|newest| newest.status == Status::Uninstalled))
            }
            Run::Upgrade { .. } => Ok(false),
        }
    }

    /// Makes an installation over objects of the chart that exist already one of a release whose records are missing: if it fails, nothing is
    /// uninstalled.
    ///
    /// # Errors
    /// As [`Self::owns_all_that_exists`], and if a record cannot be read.
    pub(super) async fn look_for_older_objects(
        &self,
        run: Run,
        prepared: &mut Prepared,
    ) -> Result<(), AgentError> {
        if self.policy.install.remediation == Remediation::Uninstall
            && self.has_no_objects(run).await?
            && let Some(object) = self.older_object(prepared).await?
        {
            tracing::warn!(release = %self.release, %object, "the release has objects without a record: if its installation fails, it is not uninstalled");
            prepared.deploy.set_cause(Cause::Missing);
        }
        Ok(())
    }

    /// The first object of the chart that exists already and that an uninstallation would delete. Objects that stay in any case
    /// (`helm.sh/resource-policy: keep`), or are being deleted, do not count.
    ///
    /// # Errors
    /// As [`Self::owns_all_that_exists`].
    async fn older_object(&self, prepared: &Prepared) -> Result<Option<ObjectId>, AgentError> {
        for object in self.objects_to_install(prepared).await?.unwrap_or_default() {
            if let Some((id, metadata)) = self.existing(prepared, &object).await?
                && metadata.deletion_timestamp.is_none()
                && !marks::is_kept(&object)
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The objects that Helm applies, without hooks, which have no owner; `None` if the chart cannot be rendered, or Helm refuses
    /// them: an installation fails too, and reports that.
    async fn objects_to_install(&self, prepared: &Prepared) -> Result<Option<Vec<Value>>, AgentError> {
        let Some(rendered) = self.rendered(prepared, false).await? else {
            return Ok(None);
        };
        let rendered = prepared.deploy.post_render.render(&rendered).ok();
        let mut objects = rendered.and_then(|rendered| manifest::objects(&rendered).ok());
        if let Some(objects) = &mut objects {
            objects.retain(|object| {
                object
                    .pointer("/metadata/annotations")
                    .is_none_or(|own| own.get(marks::HOOK).is_none())
            });
        }
        Ok(objects)
    }

    /// The live object of an object of the chart.
    async fn existing(
        &self,
        prepared: &Prepared,
        object: &Value,
    ) -> Result<Option<(ObjectId, ObjectMeta)>, AgentError> {
        let Some(id) = ObjectId::in_release(object, &self.release.namespace) else {
            return Ok(None);
        };
        let objects = Objects {
            kinds: &self.context.kinds,
            client: &prepared.deployer,
        };
        let found = objects.metadata(&id).await?;
        Ok(found.map(|found| (id, found.metadata)))
    }
}
