//! Writes pushes into the status of a Receiver.

use std::time::Duration;

use helmops_api::{NamespacedName, Receiver, timestamp::timestamp};
use helmops_notify::push::{Announcement, recorded};
use helmops_process::exit::with_causes;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    metrics::Metrics,
    recorder::{RecordError, Sink},
};

/// The field manager of the writes.
const FIELD_MANAGER: &str = "helmops-receiver";

/// Maximum time of one request to the API server.
const DEADLINE: Duration = Duration::from_secs(5);

/// The notifier and the other replica write the same status.
const ATTEMPTS: usize = 5;

/// Writes pushes into the status of a Receiver.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
    metrics: Metrics,
}

impl StatusWriter {
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self { client, metrics }
    }

    /// One attempt. Returns whether another client has changed the object meanwhile.
    async fn attempt(
        &self,
        receiver: &NamespacedName,
        announced: &[Announcement],
    ) -> Result<bool, RecordError> {
        let api = Api::<Receiver>::namespaced(self.client.clone(), &receiver.namespace);
        let read = call(api.get_opt(&receiver.name)).await?;
        let object = read.map_err(|error| failed(&error))?.ok_or(RecordError::Gone)?;
        let status = object.status.clone().unwrap_or_default();
        let time = timestamp(Timestamp::now());
        let change = json!({
            // The write fails if the object was replaced or changed meanwhile.
            "metadata": { "uid": object.uid(), "resourceVersion": object.resource_version() },
            "status": { "pushes": recorded(&status, announced, &time) },
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match call(api.patch_status(&receiver.name, &params, &Patch::Merge(change))).await? {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Sink for StatusWriter {
    async fn record(
        &self,
        receiver: NamespacedName,
        announced: Vec<Announcement>,
    ) -> Result<(), RecordError> {
        for _ in 0..ATTEMPTS {
            match self.attempt(&receiver, &announced).await {
                Ok(true) => {
                    self.metrics.write("success");
                    return Ok(());
                }
                Ok(false) => self.metrics.write("conflict"),
                Err(error) => {
                    self.metrics.write("error");
                    return Err(error);
                }
            }
        }
        Err(RecordError::Failed("its status changes all the time".to_owned()))
    }
}

fn failed(error: &kube::Error) -> RecordError {
    RecordError::Failed(with_causes(error))
}

async fn call<T>(request: impl Future<Output = T>) -> Result<T, RecordError> {
    timeout(DEADLINE, request).await.map_err(|_| {
        RecordError::Failed(format!(
            "the API server did not respond within {} s",
            DEADLINE.as_secs()
        ))
    })
}
