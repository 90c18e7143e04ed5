//! The views of a topic as server-sent events.
//!
//! ```text
//! event: view     data: the newest view
//! event: server   data: whether the API server responds
//! event: beat     data: {} (the connection is alive)
//! ```
//!
//! A page that reads slowly skips views: only the newest one is kept, once for all pages.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::hub::Subscription;

/// The shortest time between two views: a person sees no more, and a large view costs something.
const PAUSE: Duration = Duration::from_millis(400);
/// A page reports a lost connection if it gets nothing for some times this long.
const BEAT: Duration = Duration::from_secs(5);
/// A stream ends after this time, and the page opens another one.
pub const LIFETIME: Duration = Duration::from_mins(30);

struct State {
    subscription: Subscription,
    /// When the next view may be sent.
    next_view: Instant,
    beats: Interval,
    end: Instant,
    is_first: bool,
}

/// The events of a subscription.
pub fn events(mut subscription: Subscription) -> impl Stream<Item = Result<Bytes, Infallible>> {
    if !subscription.views.borrow().is_empty() {
        // Another page has started the feed.
        subscription.views.mark_changed();
    }
    let now = Instant::now();
    let mut beats = interval_at(now + BEAT, BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = State {
        subscription,
        next_view: now,
        beats,
        end: now + LIFETIME,
        is_first: true,
    };
    stream::unfold(state, |mut state| async {
        let event = state.next().await?;
        Some((Ok(event), state))
    })
}

impl State {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_first {
            self.is_first = false;
            return Some(event("server", &self.subscription.server.borrow_and_update()));
        }
        let Self {
            subscription,
            next_view,
            beats,
            end,
            ..
        } = self;
        let Subscription { views, server, .. } = subscription;
        let changed = async {
            sleep_until(*next_view).await;
            views.changed().await
        };
        tokio::select! {
            () = sleep_until(*end) => None,
            changed = changed => {
                changed.ok()?;
                *next_view = Instant::now() + PAUSE;
                Some(event("view", &views.borrow_and_update()))
            }
            changed = server.changed() => {
                changed.ok()?;
                Some(event("server", &server.borrow_and_update()))
            }
            _ = beats.tick() => Some(event("beat", b"{}")),
        }
    }
}

/// JSON has no line breaks outside of its texts, and escapes those within.
fn event(name: &str, data: &[u8]) -> Bytes {
    [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"]
        .concat()
        .into()
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::ui::{
        hub::{Hub, fixture::Fixed},
        topic::Topic,
    };

    async fn texts(
        events: &mut (impl Stream<Item = Result<Bytes, Infallible>> + Unpin),
        number: usize,
    ) -> Vec<String> {
        let events = events
            .take(number)
            .map(|event| String::from_utf8(event.unwrap().to_vec()).unwrap());
        events.collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_begins_with_the_newest_view_and_skips_those_that_are_replaced_soon() {
        let source = Fixed::new("a\nb");
        let hub = Hub::new(source.clone());
        let mut first = Box::pin(events(hub.subscribe(Topic::HelmOps).unwrap()));
        let server = "event: server\ndata: {}\n\n".to_owned();
        let view = |text: &str| format!("event: view\ndata: \"{text}\"\n\n");
        assert_eq!(texts(&mut first, 2).await, [server.clone(), view("a\\nb")]);
        // The feed exists already.
        let mut second = Box::pin(events(hub.subscribe(Topic::HelmOps).unwrap()));
        assert_eq!(texts(&mut second, 2).await, [server, view("a\\nb")]);
        let start = Instant::now();
        for number in 0..100 {
            source.view.send_replace(number.to_string());
            tokio::task::yield_now().await;
        }
        assert_eq!(texts(&mut first, 1).await, [view("99")]);
        assert!(start.elapsed() >= PAUSE, "views are some time apart");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_beats_and_ends_after_its_lifetime() {
        let hub = Hub::new(Fixed::new(""));
        let start = Instant::now();
        let mut events = Box::pin(events(hub.subscribe(Topic::HelmOps).unwrap()));
        texts(&mut events, 2).await;
        assert_eq!(texts(&mut events, 1).await, ["event: beat\ndata: {}\n\n"]);
        assert_eq!(start.elapsed(), BEAT);
        while events.next().await.is_some() {}
        assert_eq!(start.elapsed(), LIFETIME);
    }
}
