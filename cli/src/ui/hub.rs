//! One feed for all pages that show the same: how many pages are open changes nothing for the API server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bounded_text::is_control;
use bytes::Bytes;
use futures::future::BoxFuture;
use helmops_process::lock;
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::{AbortHandle, JoinSet},
};

use super::topic::Topic;

/// Number of streams at a time. A browser opens six to one server, and those of hidden pages are closed.
const MAX_STREAMS: usize = 16;

/// Computes the views of a topic, until it is dropped.
pub trait Source: Send + Sync + 'static {
    /// Publishes the first view, and each one that differs.
    fn follow(&self, topic: Topic, views: Publisher) -> BoxFuture<'static, ()>;

    /// Whether the API server responds, as a view.
    fn server(&self) -> watch::Receiver<Bytes>;
}

/// Where a feed writes its views.
#[derive(Clone, Debug)]
pub struct Publisher(Arc<watch::Sender<Bytes>>);

impl Publisher {
    /// Publishes a view, if it differs from the one before.
    pub fn publish(&self, view: &impl Serialize) {
        let json = json(view);
        self.0.send_if_modified(|before| {
            let differs = *before != json;
            if differs {
                *before = json;
            }
            differs
        });
    }
}

/// A view as JSON. No text in it changes the direction of others in the page.
pub fn json(view: &impl Serialize) -> Bytes {
    // Views have no maps with other keys than texts, so they can be encoded.
    let json = serde_json::to_string(view).unwrap_or_default();
    // Of control characters these are all: JSON has escapes for the others, which do nothing in a page.
    json.replace(is_control, "").into()
}

/// The feeds that are followed.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    source: Box<dyn Source>,
    streams: Arc<Semaphore>,
    feeds: Mutex<Feeds>,
}

#[derive(Default)]
struct Feeds {
    open: HashMap<Topic, Feed>,
    tasks: JoinSet<()>,
}

struct Feed {
    views: Arc<watch::Sender<Bytes>>,
    subscribers: usize,
    task: AbortHandle,
}

/// Too many pages are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl Hub {
    /// A hub without feeds.
    pub fn new(source: impl Source) -> Self {
        Self(Arc::new(Inner {
            source: Box::new(source),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            feeds: Mutex::default(),
        }))
    }

    /// Follows a topic. The first subscriber starts its feed, and the last one ends it.
    ///
    /// # Errors
    /// If there are too many subscribers.
    pub fn subscribe(&self, topic: Topic) -> Result<Subscription, Busy> {
        let Ok(permit) = Arc::clone(&self.0.streams).try_acquire_owned() else {
            return Err(Busy);
        };
        let mut feeds = lock(&self.0.feeds);
        // Without this the set would grow with every feed.
        while feeds.tasks.try_join_next().is_some() {}
        let Feeds { open, tasks } = &mut *feeds;
        let feed = open.entry(topic.clone()).or_insert_with(|| {
            let views = Arc::new(watch::Sender::new(Bytes::new()));
            let followed = self.0.source.follow(topic.clone(), Publisher(Arc::clone(&views)));
            Feed {
                views,
                subscribers: 0,
                task: tasks.spawn(followed),
            }
        });
        feed.subscribers += 1;
        Ok(Subscription {
            views: feed.views.subscribe(),
            server: self.0.source.server(),
            topic,
            hub: self.clone(),
            _permit: permit,
        })
    }

    fn unsubscribe(&self, topic: &Topic) {
        let mut feeds = lock(&self.0.feeds);
        let Some(feed) = feeds.open.get_mut(topic) else {
            return;
        };
        feed.subscribers -= 1;
        if feed.subscribers == 0 {
            feed.task.abort();
            feeds.open.remove(topic);
        }
    }
}

/// The views of a topic, for one page.
pub struct Subscription {
    /// The newest view; empty before the first one.
    pub views: watch::Receiver<Bytes>,
    /// Whether the API server responds.
    pub server: watch::Receiver<Bytes>,
    topic: Topic,
    hub: Hub,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.unsubscribe(&self.topic);
    }
}

#[cfg(test)]
pub mod fixture {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A source whose views are numbers, or what a test publishes.
    #[derive(Clone)]
    pub struct Fixed {
        /// How many feeds were started.
        pub started: Arc<AtomicUsize>,
        /// How many of them run.
        pub running: Arc<AtomicUsize>,
        /// What the feeds publish.
        pub view: Arc<watch::Sender<String>>,
        server: Arc<watch::Sender<Bytes>>,
    }

    struct Running(Arc<AtomicUsize>);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Fixed {
        pub fn new(view: &str) -> Self {
            Self {
                started: Arc::default(),
                running: Arc::default(),
                view: Arc::new(watch::Sender::new(view.to_owned())),
                server: Arc::new(watch::Sender::new(Bytes::from_static(b"{}"))),
            }
        }
    }

    impl Source for Fixed {
        fn follow(&self, _: Topic, views: Publisher) -> BoxFuture<'static, ()> {
            self.started.fetch_add(1, Ordering::SeqCst);
            self.running.fetch_add(1, Ordering::SeqCst);
            let running = Running(Arc::clone(&self.running));
            let mut view = self.view.subscribe();
            Box::pin(async move {
                let _running = running;
                loop {
                    let text = view.borrow_and_update().clone();
                    views.publish(&text);
                    if view.changed().await.is_err() {
                        return;
                    }
                }
            })
        }

        fn server(&self) -> watch::Receiver<Bytes> {
            self.server.subscribe()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use tokio::task::yield_now;

    use super::{fixture::Fixed, *};

    #[test]
    fn no_text_changes_the_direction_of_a_page() {
        let view = ["\u{202e}txt.exe\u{2066}\u{200f}", "\u{9b}2J \n"];
        assert_eq!(&*json(&view), br#"["txt.exe","2J \n"]"#);
    }

    #[tokio::test]
    async fn pages_that_show_the_same_share_a_feed_and_the_last_one_ends_it() {
        let source = Fixed::new("first");
        let hub = Hub::new(source.clone());
        let count = || {
            (
                source.started.load(Ordering::SeqCst),
                source.running.load(Ordering::SeqCst),
            )
        };
        let mut one = hub.subscribe(Topic::HelmOps).unwrap();
        let two = hub.subscribe(Topic::HelmOps).unwrap();
        let other = hub.subscribe(Topic::Clusters).unwrap();
        one.views.changed().await.unwrap();
        assert_eq!(&**one.views.borrow_and_update(), br#""first""#);
        assert_eq!(count(), (2, 2));
        drop((two, other));
        yield_now().await;
        assert_eq!(count(), (2, 1));
        source.view.send("second".to_owned()).unwrap();
        one.views.changed().await.unwrap();
        assert_eq!(&**one.views.borrow(), br#""second""#);
        drop(one);
        yield_now().await;
        assert_eq!(count(), (2, 0));
        let _again = hub.subscribe(Topic::HelmOps).unwrap();
        assert_eq!(count(), (3, 1));
    }

    #[tokio::test]
    async fn the_number_of_streams_is_limited() {
        let hub = Hub::new(Fixed::new(""));
        let mut open: Vec<_> = (0..MAX_STREAMS)
            .map(|_| hub.subscribe(Topic::HelmOps).unwrap())
            .collect();
        assert_eq!(hub.subscribe(Topic::Clusters).err(), Some(Busy));
        open.pop();
        assert!(hub.subscribe(Topic::Clusters).is_ok());
    }

    #[test]
    fn an_equal_view_is_not_published_again() {
        let sender = Arc::new(watch::Sender::new(Bytes::new()));
        let mut views = sender.subscribe();
        let publisher = Publisher(sender);
        publisher.publish(&1);
        assert!(views.has_changed().unwrap());
        views.mark_unchanged();
        publisher.publish(&1);
        assert!(!views.has_changed().unwrap());
        publisher.publish(&2);
        assert!(views.has_changed().unwrap());
    }
}
