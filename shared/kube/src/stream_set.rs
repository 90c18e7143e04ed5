//! Streams that start and end while all of them are polled.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
};

use futures::{
    Stream, StreamExt,
    future::{AbortHandle, Abortable},
    stream::{self, BoxStream, SelectAll},
};

/// Streams by key, of which each is started once for each number of its key.
pub struct StreamSet<K, T> {
    running: HashMap<K, (u64, AbortHandle)>,
    streams: SelectAll<BoxStream<'static, T>>,
}

impl<K: Eq + Hash, T: Send + 'static> StreamSet<K, T> {
    /// None.
    pub fn new() -> Self {
        let mut streams = SelectAll::new();
        // It keeps the selection from ending without a stream.
        streams.push(stream::pending().boxed());
        Self {
            running: HashMap::new(),
            streams,
        }
    }

    /// Ends the streams that are not wanted any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&K, u64) -> bool) {
        self.running.retain(|key, (number, abort)| {
            let is_wanted = is_wanted(key, *number);
            if !is_wanted {
                abort.abort();
            }
            is_wanted
        });
    }

    /// Starts a stream, unless there is one.
    pub fn start<S: Stream<Item = T> + Send + 'static>(
        &mut self,
        key: K,
        number: u64,
        stream: impl FnOnce() -> S,
    ) {
        if let Entry::Vacant(vacant) = self.running.entry(key) {
            let (abort, registration) = AbortHandle::new_pair();
            self.streams.push(Abortable::new(stream(), registration).boxed());
            vacant.insert((number, abort));
        }
    }

    /// The next item of any of them.
    pub async fn next(&mut self) -> Option<T> {
        self.streams.next().await
    }
}

impl<K: Eq + Hash, T: Send + 'static> Default for StreamSet<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streams_start_once_for_each_number_and_end() {
        let mut set = StreamSet::new();
        let item = |item: &'static str| move || stream::iter([item]).chain(stream::pending());
        set.start("a", 0, item("first"));
        set.start("a", 0, item("not again"));
        assert_eq!(set.next().await, Some("first"));
        set.retain(|_, number| number == 1);
        set.start("a", 1, item("second"));
        assert_eq!(set.next().await, Some("second"));
        let more = futures::poll!(Box::pin(set.next()));
        assert!(more.is_pending());
    }
}
