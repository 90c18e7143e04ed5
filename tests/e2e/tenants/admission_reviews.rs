//! Requests to the webhook whose bodies never end.

use anyhow::Result;
use bytes::Bytes;
use futures::{StreamExt, stream};
use helmops_bed::probe;
use reqwest::StatusCode;
use tokio::task::JoinSet;

use crate::attack::{Attack, run};
use crate::environment::Mode;

const REQUESTS: usize = 40;
/// Slightly less than the webhook reads of one request.
const CHUNKS: usize = 110;
const CHUNK: usize = 64 << 10;
/// The responses to a body that does not arrive in time, or that the webhook has no memory for.
const REFUSALS: [StatusCode; 2] = [StatusCode::REQUEST_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];

#[test]
fn reviews_that_never_end() {
    run(Mode::BesideFleet, "40 unfinished reviews", unfinished_reviews);
}

async fn unfinished_reviews(attack: &mut Attack<'_>) -> Result<()> {
    let url = format!("{}/validate", attack.env.webhook.url);
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        // A client for each request, so that each has a connection of its own.
        let client = probe::client(Some(&attack.env.webhook.ca))?;
        let chunks = stream::iter(std::iter::repeat_n(Bytes::from(vec![b' '; CHUNK]), CHUNKS));
        let body = chunks.chain(stream::pending()).map(Ok::<_, std::io::Error>);
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .body(reqwest::Body::wrap_stream(body));
        // It is refused or its connection is closed; until then it uses memory.
        requests.spawn(async move { request.send().await.map(|response| response.status()) });
    }
    let outcomes = attack.neighbour_works_during(requests.join_all()).await;
    let refused = outcomes
        .iter()
        .flatten()
        .filter(|status| REFUSALS.contains(status));
    attack.check(
        refused.count() > 0,
        format!("no request was refused: {outcomes:?}"),
    );
    let not_read = outcomes.iter().find(|outcome| match outcome {
        Ok(status) => !REFUSALS.contains(status),
        Err(error) => error.is_connect(),
    });
    attack.check(not_read.is_none(), format!("a body was not read: {not_read:?}"));
    Ok(())
}
