//! The port of the kubelet from which the API server fetches the logs of pods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::https;
use crate::private_ca::PrivateCa;

/// What each pod has logged, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(Arc<Mutex<HashMap<(String, String), String>>>);

impl Logs {
    /// Replaces what a pod has logged.
    pub(crate) fn set(&self, namespace: &str, pod: &str, log: &str) {
        self.lock()
            .insert((namespace.to_owned(), pod.to_owned()), log.to_owned());
    }

    /// Removes a pod.
    pub(crate) fn remove(&self, namespace: &str, pod: &str) {
        self.lock().remove(&(namespace.to_owned(), pod.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves the logs. The API server does not verify the certificate, because it has no `--kubelet-certificate-authority`.
pub(crate) fn server(listener: TcpListener, logs: Logs) -> Result<impl Future<Output = ()>> {
    let tls = https::acceptor(&PrivateCa::new("kubelet")?, &["127.0.0.1"])?;
    let router = Router::new()
        .route(
            "/containerLogs/{namespace}/{pod}/{container}",
            get(container_logs),
        )
        .with_state(logs);
    Ok(https::serve(listener, Some(tls), router))
}

/// The parameters of a request that have an effect. `follow` has none: a log does not grow.
#[derive(Default)]
struct Part {
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
}

async fn container_logs(
    State(logs): State<Logs>,
    Path((namespace, pod, _)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<String, StatusCode> {
    let log = logs.lock().get(&(namespace, pod)).cloned();
    let part = Part::parse(query.as_deref().unwrap_or_default());
    log.map(|log| part.of(&log)).ok_or(StatusCode::NOT_FOUND)
}

impl Part {
    fn parse(query: &str) -> Self {
        let parameter = |name| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name)?.1.parse().ok()
        };
        Self {
            tail_lines: parameter("tailLines"),
            limit_bytes: parameter("limitBytes"),
        }
    }

    fn of(&self, log: &str) -> String {
        let lines = log.split_inclusive('\n');
        let skipped = match self.tail_lines {
            Some(tail) => lines.clone().count().saturating_sub(tail),
            None => 0,
        };
        let mut kept: String = lines.skip(skipped).collect();
        if let Some(limit) = self.limit_bytes {
            kept.truncate(kept.floor_char_boundary(limit));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_and_the_first_bytes_of_them_are_kept() {
        for (query, expected) in [
            ("", "a\nb\nc"),
            ("stream=All&tailLines=2", "b\nc"),
            ("tailLines=9", "a\nb\nc"),
            ("tailLines=0", ""),
            ("tailLines=2&limitBytes=1", "b"),
        ] {
            assert_eq!(Part::parse(query).of("a\nb\nc"), expected, "{query}");
        }
    }
}
