use std::{cell::RefCell, fmt::Display, future::ready, pin::Pin, sync::atomic::AtomicUsize};

use futures::future::join_all;
use helmops_fair::Share;
use prometheus::Registry;
use tokio::time::sleep;

use super::*;

/// An error that is shared unless it is `own`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure(&'static str);

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl FetchFailure for Failure {
    fn is_shared(&self) -> bool {
        self.0 != "own"
    }
}

type Numbers = Cache<&'static str, u32, Failure>;

impl Numbers {
    /// Gets a response whose request needs no permit.
    async fn get_unlimited(
        &self,
        key: &&'static str,
        (namespace, since): (&str, Instant),
        accepts: impl Fn(&u32) -> bool,
        fetch: impl AsyncFnOnce(Option<Arc<u32>>) -> Result<Arc<u32>, Failure>,
    ) -> Result<Arc<u32>, Failure> {
        let fetch = async |(), cached| fetch(cached).await;
        let namespace = &Arc::from(namespace);
        self.get(key, Requester { namespace, since }, accepts, || ready(()), fetch)
            .await
    }
}

#[tokio::test]
async fn no_resolution_waits_for_the_permit_of_another() {
    let cache = cache(1 << 20);
    let since = Instant::now();
    let never = std::future::pending::<()>;
    let fetch = |number| async move |(), _| Ok(Arc::new(number));
    let namespace = &Arc::from("");
    let requester = Requester { namespace, since };
    let mut first = pin!(cache.get(&"a", requester, |_| true, never, fetch(1)));
    assert!(futures::poll!(&mut first).is_pending());
    let second = cache.get(&"a", requester, |_| true, || ready(()), fetch(2)).await;
    assert_eq!(second, Ok(Arc::new(2)));
    assert_eq!(
        first.await,
        Ok(Arc::new(2)),
        "it is served by the request of the other resolution"
    );
}

#[tokio::test]
async fn a_cancelled_request_is_taken_over_by_another_resolution() {
    let cache = cache(1 << 20);
    let since = Instant::now();
    let stuck = async |_| std::future::pending().await;
    let good = async |_| Ok(Arc::new(1));
    let mut second = pin!(cache.get_unlimited(&"a", ("", since), |_| true, good));
    {
        let mut first = pin!(cache.get_unlimited(&"a", ("", since), |_| true, stuck));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending(), "one request at a time");
    }
    assert_eq!(second.await, Ok(Arc::new(1)));
}

fn cache(idle: usize) -> Numbers {
    with(CacheSettings {
        idle,
        budget: ByteBudget::new(4 * idle, Share::Half),
        min_interval: Duration::ZERO,
    })
}

/// A response is a number, and is as many bytes large. A key has 100 bytes.
fn with(settings: CacheSettings) -> Numbers {
    let sizes = Sizes {
        key: |_: &&str| 100,
        value: |value: &u32| *value as usize,
    };
    Cache::new(settings, sizes, FetchMetrics::register(&Registry::new()).unwrap())
}

fn cached_bytes(cache: &Numbers) -> usize {
    usize::try_from(cache.fetches.cache_bytes.get()).unwrap()
}

/// Size of a number in a cache.
const fn cost(number: usize) -> usize {
    SLOT_BYTES + 100 + number
}

#[tokio::test]
async fn at_most_two_requests_serve_all_concurrent_resolutions() {
    let cache = cache(1 << 20);
    let requests = AtomicUsize::new(0);
    let resolutions = (0..100).map(async |_| {
        let fetch = async |_| {
            requests.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
            Ok(Arc::new(7))
        };
        cache
            .get_unlimited(&"a", ("", Instant::now()), |_| true, fetch)
            .await
    });
    let responses = join_all(resolutions).await;
    assert!(
        responses
            .iter()
            .all(|response| *response.as_ref().unwrap().as_ref() == 7)
    );
    let requests = requests.load(Ordering::Relaxed);
    assert!((1..=2).contains(&requests), "{requests}");
    assert_eq!(cache.fetches.coalesced.get(), 100 - requests as u64);
}

#[tokio::test]
async fn no_response_older_than_required_is_returned() {
    let cache = cache(1 << 20);
    let before = Instant::now();
    let get = async |since, number: u32| {
        let cached = std::cell::Cell::new(None);
        let fetch = async |value: Option<Arc<u32>>| {
            cached.set(value);
            Ok(Arc::new(number))
        };
        let response = cache
            .get_unlimited(&"a", ("", since), |_| true, fetch)
            .await
            .unwrap();
        (*response, cached.take().map(|cached| *cached))
    };
    assert_eq!(get(before, 1).await, (1, None));
    assert_eq!(get(before, 2).await, (1, None), "fresh enough");
    assert_eq!(
        get(Instant::now(), 3).await,
        (3, Some(1)),
        "the cached response only makes the request conditional"
    );
}

#[tokio::test]
async fn a_failure_is_shared_and_keeps_the_last_valid_response() {
    let cache = cache(1 << 20);
    let good = async |_| Ok(Arc::new(1));
    cache
        .get_unlimited(&"a", ("", Instant::now()), |_| true, good)
        .await
        .unwrap();
    let since = Instant::now();
    let bad = async |_| Err(Failure("down"));
    assert_eq!(
        cache.get_unlimited(&"a", ("", since), |_| true, bad).await,
        Err(Failure("down"))
    );
    assert_eq!(
        cache.get_unlimited(&"a", ("", since), |_| true, good).await,
        Err(Failure("down")),
        "shared"
    );
    let unchanged = async |cached: Option<Arc<u32>>| cached.ok_or(Failure("lost"));
    let response = cache
        .get_unlimited(&"a", ("", Instant::now()), |_| true, unchanged)
        .await;
    assert_eq!(response, Ok(Arc::new(1)));
}

#[tokio::test]
async fn a_response_without_the_required_content_is_fetched_again() {
    let cache = cache(1 << 20);
    let since = Instant::now();
    let fetch = |number| {
        async move |cached: Option<Arc<u32>>| {
            assert_eq!(cached, None, "a response that is not accepted is not passed on");
            Ok(Arc::new(number))
        }
    };
    cache
        .get_unlimited(&"a", ("", since), |_| true, fetch(1))
        .await
        .unwrap();
    let response = cache
        .get_unlimited(&"a", ("", since), |value| *value == 2, fetch(2))
        .await;
    assert_eq!(response, Ok(Arc::new(2)));
}

#[tokio::test]
async fn the_least_recently_used_response_is_evicted() {
    let cache = cache(3000);
    let put = async |key| {
        let fetch = async |cached: Option<Arc<u32>>| Ok(cached.unwrap_or_else(|| Arc::new(500)));
        cache
            .get_unlimited(&key, ("", Instant::now()), |_| true, fetch)
            .await
            .unwrap();
    };
    put("a").await;
    put("b").await;
    put("a").await;
    put("c").await;
    let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
    assert!(cached("a") && !cached("b") && cached("c"));
    assert_eq!(cached_bytes(&cache), 2 * cost(500));
    assert_eq!(cache.fetches.evictions.get(), 1);
}

#[tokio::test]
async fn a_failure_that_is_not_shared_applies_to_its_namespace_only() {
    let cache = cache(1 << 20);
    let since = Instant::now();
    let own = async |_| Err(Failure("own"));
    assert_eq!(
        cache.get_unlimited(&"a", ("one", since), |_| true, own).await,
        Err(Failure("own"))
    );
    let good = async |_| Ok(Arc::new(1));
    assert_eq!(
        cache.get_unlimited(&"a", ("one", since), |_| true, good).await,
        Err(Failure("own")),
        "shared"
    );
    assert_eq!(
        cache.get_unlimited(&"a", ("other", since), |_| true, good).await,
        Ok(Arc::new(1))
    );
    assert_eq!(
        cache.get_unlimited(&"a", ("one", since), |_| true, own).await,
        Ok(Arc::new(1)),
        "the response for the other namespace serves this one too"
    );
}

/// Resolutions every ten milliseconds for a second.
#[tokio::test(start_paused = true)]
async fn requests_of_one_key_are_spaced_and_serve_all_waiting_resolutions() {
    let cache = with(CacheSettings {
        min_interval: MIN_INTERVAL,
        ..cache(1 << 20).settings
    });
    let starts = RefCell::new(Vec::new());
    let start = time::Instant::now();
    let resolutions = (0..100_u64).map(async |number| {
        sleep(Duration::from_millis(10 * number)).await;
        let since = Instant::now();
        let fetch = async |_| {
            let mut starts = starts.borrow_mut();
            starts.push((time::Instant::now(), Instant::now()));
            Ok(Arc::new(u32::try_from(starts.len()).unwrap() - 1))
        };
        let response = cache.get_unlimited(&"a", ("", since), |_| true, fetch).await;
        (since, response.unwrap())
    });
    let responses = join_all(resolutions).await;
    let starts = starts.into_inner();
    assert!((10..=11).contains(&starts.len()), "{}", starts.len());
    assert_eq!(starts[0].0, start, "the first request does not wait");
    assert!(starts.windows(2).all(|two| two[1].0 - two[0].0 >= MIN_INTERVAL));
    for (since, number) in responses {
        assert!(
            starts[*number as usize].1 >= since,
            "no response is older than required"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolution_that_waits_for_the_interval_acquires_no_permit() {
    let cache = with(CacheSettings {
        min_interval: MIN_INTERVAL,
        ..cache(1 << 20).settings
    });
    let good = async |_| Ok(Arc::new(1));
    for _ in 0..2 {
        let requester = ("", Instant::now());
        cache
            .get_unlimited(&"a", requester, |_| true, good)
            .await
            .unwrap();
    }
    let acquire = || panic!("it is too soon");
    let requester = Requester {
        namespace: &Arc::from(""),
        since: Instant::now(),
    };
    let fetch = async |(), _| Ok(Arc::new(2));
    let soon = pin!(cache.get(&"a", requester, |_| true, || async { acquire() }, fetch));
    let soon = time::timeout(MIN_INTERVAL / 2, soon).await;
    assert!(soon.is_err());
}

#[tokio::test]
async fn a_namespace_above_its_share_is_evicted_first() {
    let cache = cache(4000);
    let put = async |key, namespace| {
        let fetch = async |cached: Option<Arc<u32>>| Ok(cached.unwrap_or_else(|| Arc::new(500)));
        let since = Instant::now();
        cache
            .get_unlimited(&key, (namespace, since), |_| true, fetch)
            .await
            .unwrap();
    };
    put("a", "modest").await;
    for key in ["b", "c", "d", "e", "f"] {
        put(key, "greedy").await;
    }
    let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
    assert!(cached("a") && cached("e") && cached("f") && !cached("b"));
}

/// Keeps responses in use until dropped, like a tenant whose server is slow for the second request.
async fn in_use<'c>(
    cache: &'c Numbers,
    namespace: &'c str,
    responses: &[(&'static str, u32)],
) -> Vec<Pin<Box<dyn Future<Output = ()> + 'c>>> {
    let mut held = Vec::new();
    for (key, number) in responses.iter().copied() {
        let good = async move |_| Ok(Arc::new(number));
        let requester = (namespace, Instant::now());
        cache
            .get_unlimited(&key, requester, |_| true, good)
            .await
            .unwrap();
        let mut slow: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let never = async |_| std::future::pending().await;
            let requester = (namespace, Instant::now());
            drop(cache.get_unlimited(&key, requester, |_| true, never).await);
        });
        assert!(futures::poll!(&mut slow).is_pending());
        held.push(slow);
    }
    held
}

/// How many requests two concurrent resolutions need.
async fn requests(cache: &Numbers, key: &'static str, namespace: &str, number: u32) -> usize {
    let requests = AtomicUsize::new(0);
    let fetch = async |_| {
        requests.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(Arc::new(number))
    };
    let since = Instant::now();
    let resolve = || cache.get_unlimited(&key, (namespace, since), |_| true, fetch);
    let (first, second) = tokio::join!(resolve(), resolve());
    assert_eq!((first.as_deref(), second.as_deref()), (Ok(&number), Ok(&number)));
    requests.into_inner()
}

#[tokio::test]
async fn responses_in_use_by_one_namespace_do_not_prevent_others_from_sharing() {
    let cache = with(CacheSettings {
        idle: 2 * cost(1000),
        budget: ByteBudget::new(7 * cost(1000), Share::Half),
        min_interval: Duration::ZERO,
    });
    assert_eq!(requests(&cache, "before", "modest", 1000).await, 1);
    let keys = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, 1000));
    let held = in_use(&cache, "greedy", &keys).await;
    assert_eq!(
        cached_bytes(&cache),
        4 * cost(1000),
        "one namespace gets half of what another one leaves"
    );
    assert_eq!(requests(&cache, "after", "modest", 1000).await, 1);
    let cached = |key: &'static str| lock(&cache.slots).contains_key(&key);
    assert!(
        cached("before") && cached("after"),
        "cached responses of others stay"
    );
    assert_eq!(
        requests(&cache, "more", "greedy", 1000).await,
        2,
        "not shared above the share of the namespace"
    );
    drop(held);
    assert_eq!(requests(&cache, "more", "greedy", 1000).await, 1);
}

#[tokio::test]
async fn caches_share_the_memory_for_responses_in_use() {
    let settings = CacheSettings {
        idle: cost(1000),
        budget: ByteBudget::new(4 * cost(1000), Share::Half),
        min_interval: Duration::ZERO,
    };
    let (one, other) = (with(settings.clone()), with(settings));
    let _held = [
        in_use(&one, "a", &[("a", 1000), ("b", 1000)]).await,
        in_use(&other, "b", &[("a", 1000), ("b", 1000)]).await,
    ];
    assert_eq!(requests(&one, "c", "c", 1000).await, 2, "all memory is in use");
}

#[tokio::test]
async fn an_unchanged_response_stays_charged_to_the_namespace_that_fetched_it() {
    let cache = with(CacheSettings {
        idle: 2 * cost(1000),
        budget: ByteBudget::new(8 * cost(1000), Share::Half),
        min_interval: Duration::ZERO,
    });
    assert_eq!(requests(&cache, "shared", "modest", 1000).await, 1);
    let _held = in_use(&cache, "greedy", &["a", "b", "c"].map(|key| (key, 1000))).await;
    let unchanged = async |cached: Option<Arc<u32>>| cached.ok_or(Failure("lost"));
    for namespace in ["greedy", "modest"] {
        let requester = (namespace, Instant::now());
        let response = cache
            .get_unlimited(&"shared", requester, |_| true, unchanged)
            .await;
        assert_eq!(response, Ok(Arc::new(1000)), "{namespace}");
    }
}

#[tokio::test]
async fn failures_are_charged_too() {
    let cache = cache(1 << 20);
    let bad = async |_| Err(Failure("0123456789"));
    let requester = ("", Instant::now());
    cache
        .get_unlimited(&"a", requester, |_| true, bad)
        .await
        .unwrap_err();
    assert_eq!(cached_bytes(&cache), cost(10));
}
