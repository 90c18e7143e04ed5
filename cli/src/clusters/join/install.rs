//! The steps on the workload cluster: the objects of the agent, its access, and in the end its Deployment.

use helmops_join::{
    access::{self, Joined},
    object::{as_json, name_of},
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::{Join, Known, plan::Credentials};
use crate::{
    cluster::{
        api_error,
        apply::{self, FIELD_MANAGER, Written},
    },
    clusters::workload::{FLEETS_AGENT, FleetsAgent},
    failure::Failure,
    terminal::Console,
};

impl Join<'_> {
    /// Installs the agent. Returns whether it is started, or started again.
    pub(super) async fn install(
        &self,
        known: &Known,
        joined: &Joined,
        token: &str,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let Some((deployment, before)) = known.objects.split_last() else {
            return Ok(false);
        };
        let namespace = known.options.namespace();
        let what = format!("Applying what the agent needs to namespace {namespace} of the workload cluster");
        self.steps
            .run(console, &what, Box::pin(self.apply_all(before)))
            .await?;
        if known.found.has_fleets_agent {
            let step = Box::pin(stop_fleets_agent(
                &self.workload.client,
                namespace,
                known.found.fleets_agent,
            ));
            self.steps.run(console, "Stopping Fleet's agent", step).await?;
        }
        let what = format!("Writing Secret {namespace}/{}", access::SECRET);
        let step = Box::pin(self.write_secret(known, &joined.deployment_namespace, token));
        self.steps.run(console, &what, step).await?;
        let what = format!("Applying {}", name_of(deployment));
        self.steps
            .run(console, &what, Box::pin(self.apply_deployment(deployment)))
            .await
    }

    async fn apply_all(&self, objects: &[DynamicObject]) -> Result<((), String), Failure> {
        let mut changed = 0;
        for object in objects {
            let (written, _) = self.apply(object).await?;
            changed += usize::from(written != Written::Unchanged);
        }
        let of = objects.len();
        Ok((
            (),
            format!("{of} objects of the agent applied, {changed} of them changed"),
        ))
    }

    async fn apply(&self, object: &DynamicObject) -> Result<(Written, DynamicObject), Failure> {
        let applied = apply::apply(&self.workload.client, object, self.args.force_conflicts).await;
        applied.map_err(|error| {
            let failure = api_error::failed(format!("cannot apply {}", name_of(object)), &error);
            if api_error::is_conflict(&error) {
                failure
                    .with_hint("another tool has set these fields; to overwrite them add --force-conflicts")
            } else {
                failure
            }
        })
    }

    async fn write_secret(
        &self,
        known: &Known,
        deployments: &str,
        token: &str,
    ) -> Result<((), String), Failure> {
        let namespace = known.options.namespace();
        if known.credentials == Credentials::Keep {
            let done = format!(
                "Secret {namespace}/{} of Fleet's agent is used as it is",
                access::SECRET
            );
            return Ok(((), done));
        }
        let secret = self.secret(&known.options, deployments, token)?;
        // The agent itself writes the next token, as another field manager.
        let written = apply::apply(&self.workload.client, &secret, true).await;
        let (written, _) = written
            .map_err(|error| api_error::failed(format!("cannot apply {}", name_of(&secret)), &error))?;
        let done = format!(
            "{} {}, with a token for a day that the agent renews",
            name_of(&secret),
            written.as_str()
        );
        Ok(((), done))
    }

    async fn apply_deployment(&self, deployment: &DynamicObject) -> Result<(bool, String), Failure> {
        let (written, applied) = self.apply(deployment).await?;
        let applied = as_json(&applied);
        let image = applied.pointer("/spec/template/spec/containers/0/image");
        let image = image.and_then(serde_json::Value::as_str).unwrap_or_default();
        let done = format!("{} {}, image {image}", name_of(deployment), written.as_str());
        Ok((written != Written::Unchanged, done))
    }
}

async fn stop_fleets_agent(
    client: &Client,
    namespace: &str,
    agent: Option<FleetsAgent>,
) -> Result<((), String), Failure> {
    let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let kind = agent.map_or("deployment/fleet-agent", FleetsAgent::as_str);
    let stopped = if agent == Some(FleetsAgent::StatefulSet) {
        let api = Api::<StatefulSet>::namespaced(client.clone(), namespace);
        api.patch_scale(FLEETS_AGENT, &params, &none).await
    } else {
        let api = Api::<Deployment>::namespaced(client.clone(), namespace);
        api.patch_scale(FLEETS_AGENT, &params, &none).await
    };
    stopped.map_err(|error| {
        api_error::failed(
            format!("cannot scale {kind} in namespace {namespace} to 0"),
            &error,
        )
    })?;
    Ok(((), format!("{kind} in namespace {namespace} scaled to 0")))
}
