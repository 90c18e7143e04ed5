//! Requests to a Git server over SSH: each is a connection of its own.

mod backoff;
mod connect;
mod exchange;
mod known_hosts;

use std::time::Instant;

use helmops_git::{
    PackError, SshLocation,
    wire::{WireError, advertisement, fetch_request, pack_body, references, references_request},
};
use tokio::time::timeout;

pub use self::{backoff::SshBackoffs, known_hosts::HostKeyError};
use self::{
    connect::connect,
    exchange::{Exchange, run},
};
use super::{
    Advertisement, Capabilities, FetchRequest, GitError, Pack, ReadMemory, ReferenceQuery, References,
    Source,
    read::{Awaited, ReadFailure, git_error},
};
use crate::{
    http::{FetchError, FetchErrorKind},
    metrics::RequestKind,
};

/// Bytes of a greeting, which has all references if the server has an older protocol.
const GREETING: u64 = 16 << 20;

/// Requests to a server over SSH.
#[derive(Clone, Copy)]
pub(super) struct SshSession<'a> {
    pub source: Source<'a>,
    pub location: &'a SshLocation,
}

impl SshSession<'_> {
    /// References, of the greeting or by a request.
    pub async fn references(&self, query: &ReferenceQuery) -> Result<References, GitError> {
        let (query, limits) = (query.clone(), self.source.repositories.limits);
        let mut memory = self.source.memory();
        let work = move |exchange: &mut Exchange| {
            let greeting = advertisement(&mut *exchange, &query, limits, &mut memory)?;
            let Advertisement {
                capabilities,
                references: sent,
            } = greeting;
            if let Some(references) = sent {
                exchange.end();
                return Ok(references);
            }
            exchange.send(references_request(capabilities, &query))?;
            Ok(references(&mut *exchange, &query, limits, &mut memory)?)
        };
        self.run(RequestKind::References, GREETING * 2, work).await
    }

    /// A pack of objects, with the memory that it is charged for, and what the server can do.
    pub async fn pack(&self, wanted: FetchRequest) -> Result<(Pack, ReadMemory, Capabilities), GitError> {
        let limits = self.source.repositories.limits;
        let mut memory = self.source.memory();
        let awaited = Awaited::lasting(self.source.http.total_timeout());
        let is_over = awaited.is_over();
        let work = move |exchange: &mut Exchange| {
            let greeting = advertisement(&mut *exchange, &ReferenceQuery::Head, limits, &mut memory)?;
            let capabilities = greeting.capabilities;
            exchange.send(fetch_request(capabilities, &wanted))?;
            let body = pack_body(&mut *exchange, capabilities)?;
            let pack = Pack::read(body, capabilities.format, limits, &mut memory, is_over)?;
            Ok((pack, memory, capabilities))
        };
        self.run(RequestKind::Pack, GREETING + limits.pack as u64 * 2, work)
            .await
    }

    async fn run<T: Send + 'static>(
        &self,
        kind: RequestKind,
        limit: u64,
        work: impl FnOnce(&mut Exchange) -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, GitError> {
        let http = self.source.http;
        self.check_backoff()?;
        let (started, _in_flight) = (Instant::now(), http.in_flight());
        let mut bytes = 0;
        let attempt = async {
            let mut connected = connect(self).await?;
            let read = run(&mut connected.channel, &http.threads(), limit, &mut bytes, work).await;
            read.map_err(|failure| git_error(self.source.shown(), failure))
        };
        let result = timeout(http.total_timeout(), Box::pin(attempt)).await;
        let result = result.unwrap_or_else(|_| {
            let text = "the server does not respond or sends too slowly";
            Err(self.failed(FetchErrorKind::Timeout(text.to_owned())))
        });
        let failure = result.as_ref().err().map(GitError::as_request);
        http.record(kind, failure.as_ref(), bytes, started.elapsed());
        self.record(result.as_ref().err());
        result
    }

    fn failed(&self, kind: FetchErrorKind) -> GitError {
        GitError::Fetch(FetchError {
            url: self.source.shown(),
            kind,
        })
    }
}

/// What the server writes besides its response is better than the end of it.
fn with_stderr(failure: ReadFailure, stderr: &[u8]) -> ReadFailure {
    match failure {
        ReadFailure::Wire(WireError::Malformed(_)) | ReadFailure::Pack(PackError::Damaged(_))
            if !stderr.trim_ascii().is_empty() =>
        {
            ReadFailure::Wire(WireError::server(stderr))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dying_server_writes_is_the_cause() {
        let cut = || ReadFailure::Pack(PackError::Damaged("it is too short"));
        let text = |stderr: &[u8]| git_error(String::new(), with_stderr(cut(), stderr)).to_string();
        assert!(text(b"fatal: out of memory\n").contains("the Git server responds: fatal: out of memory"));
        assert!(text(b"\n").contains("it is too short"));
    }
}
