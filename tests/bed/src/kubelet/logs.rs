//! The port of the kubelet from which the API server fetches the logs of pods.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::https;
use crate::private_ca::PrivateCa;

/// Namespace and name of a pod.
type PodName = (String, String);
type ByPod = HashMap<PodName, String>;

/// What each pod has logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs(watch::Sender<ByPod>);

impl Logs {
    /// Replaces what a pod has logged.
    pub(crate) fn set(&self, namespace: &str, pod: &str, log: &str) {
        self.0.send_if_modified(|logs| {
            let before = logs.insert((namespace.to_owned(), pod.to_owned()), log.to_owned());
            before.as_deref() != Some(log)
        });
    }

    pub(crate) fn remove(&self, namespace: &str, pod: &str) {
        let name = (namespace.to_owned(), pod.to_owned());
        self.0.send_if_modified(|logs| logs.remove(&name).is_some());
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

/// The parameters of a request that have an effect.
#[derive(Default)]
struct Part {
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    follows: bool,
}

async fn container_logs(
    State(Logs(logs)): State<Logs>,
    Path((namespace, pod, _)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Body, StatusCode> {
    let part = Part::parse(query.as_deref().unwrap_or_default());
    let (pod, mut changes) = ((namespace, pod), logs.subscribe());
    let log = changes.borrow_and_update().get(&pod).cloned();
    let log = log.ok_or(StatusCode::NOT_FOUND)?;
    let first = part.of(&log);
    if !part.follows {
        return Ok(Body::from(first));
    }
    let later = later(changes, pod, log);
    let all = stream::once(ready(first)).chain(later);
    Ok(Body::from_stream(all.map(Ok::<_, Infallible>)))
}

/// What a pod logs later, until it is removed.
fn later(
    changes: watch::Receiver<ByPod>,
    pod: PodName,
    log: String,
) -> impl Stream<Item = String> + Send + 'static {
    stream::unfold((changes, pod, log), |(mut changes, pod, sent)| async move {
        loop {
            changes.changed().await.ok()?;
            let log = changes.borrow_and_update().get(&pod).cloned()?;
            // One that starts with something else is the log of another container.
            let more = log.strip_prefix(&sent).unwrap_or(&log).to_owned();
            if !more.is_empty() {
                return Some((more, (changes, pod, log)));
            }
        }
    })
}

impl Part {
    fn parse(query: &str) -> Self {
        let parameter = |name| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            Some(pairs.find(|(key, _)| *key == name)?.1)
        };
        let number = |name| parameter(name)?.parse().ok();
        Self {
            tail_lines: number("tailLines"),
            limit_bytes: number("limitBytes"),
            follows: parameter("follow") == Some("true"),
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

    #[tokio::test]
    async fn a_log_that_is_followed_grows_until_the_pod_is_removed() {
        let logs = Logs::default();
        let pod = || ("shop".to_owned(), "web".to_owned());
        logs.set("shop", "web", "a\n");
        let mut later = Box::pin(later(logs.0.subscribe(), pod(), "a\n".to_owned()));
        for (log, more) in [("a\nb\n", "b\n"), ("c\n", "c\n")] {
            logs.set("shop", "web", log);
            assert_eq!(later.next().await.as_deref(), Some(more));
        }
        logs.remove("shop", "web");
        assert_eq!(later.next().await, None);
    }
}
