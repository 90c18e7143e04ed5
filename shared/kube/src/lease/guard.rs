//! Rejects writes without leadership.
//!
//! The guard is the outermost layer of the client that the loops use, so it covers every write: also one that waits for a
//! connection or is retried when leadership ends.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use http::{Method, Request};
use thiserror::Error;
use tower::{BoxError, Layer, Service};

use super::Leadership;

/// A client layer that allows reads always, and writes only while this process is the leader.
#[derive(Clone, Debug)]
pub struct Guard(pub Leadership);

/// A client that writes only while this process is the leader.
#[derive(Clone, Debug)]
pub struct LeaderOnly<S> {
    inner: S,
    leadership: Leadership,
}

/// A write was rejected because this process is not the leader.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("this replica is not the leader, so it writes nothing")]
pub struct NotLeading;

impl<S> Layer<S> for Guard {
    type Service = LeaderOnly<S>;

    fn layer(&self, inner: S) -> LeaderOnly<S> {
        LeaderOnly {
            inner,
            leadership: self.0.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for LeaderOnly<S>
where
    S: Service<Request<B>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let leadership = self.leadership.clone();
        if is_read(request.method()) {
            let call = self.inner.call(request);
            Box::pin(async move { call.await.map_err(Into::into) })
        } else if leadership.remaining().is_none() {
            Box::pin(async { Err(NotLeading.into()) })
        } else {
            let call = self.inner.call(request);
            Box::pin(async move { while_held(leadership, call).await?.map_err(Into::into) })
        }
    }
}

fn is_read(method: &Method) -> bool {
    // Watches and lists are GET too.
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// Polls a call while leadership lasts. Checks the clock before each poll: a process that was suspended for a while must not
/// continue a write.
async fn while_held<T>(leadership: Leadership, call: impl Future<Output = T>) -> Result<T, NotLeading> {
    let mut call = pin!(call);
    loop {
        let remaining = leadership.remaining().ok_or(NotLeading)?;
        let result = poll_fn(|context| {
            if leadership.remaining().is_none() {
                return Poll::Ready(Err(NotLeading));
            }
            call.as_mut().poll(context).map(Ok)
        });
        tokio::select! {
            biased;
            result = result => return result,
            // Leadership was renewed, or has ended.
            () = tokio::time::sleep(remaining) => {}
        }
    }
}

#[cfg(test)]
mod tests;
