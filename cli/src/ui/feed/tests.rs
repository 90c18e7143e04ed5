//! A feed from API servers to views. Time passes only while nothing else can be done.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::*;
use crate::{
    state::fixture::{answering, recorded, unlisted},
    ui::{
        hub::{Hub, Subscription},
        tables::Contents,
    },
};

/// A management cluster with one HelmOp, which has a BundleDeployment on cluster `c1`.
fn management() -> Cluster {
    let metadata = json!({ "namespace": "shop", "name": "web" });
    let deployment = unlisted("c1").valid().cloned().unwrap();
    answering(move |uri| {
        let items = match uri.path().rsplit('/').next() {
            Some("helmops") => json!([{ "metadata": metadata, "spec": {} }]),
            Some("bundledeployments") => json!([deployment]),
            _ => json!([]),
        };
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        async move {
            if is_watch {
                pending::<()>().await;
            }
            json!({ "metadata": { "resourceVersion": "1" }, "items": items })
        }
    })
}

/// The first view that is complete and differs from the one before.
async fn next(subscription: &mut Subscription) -> Value {
    loop {
        subscription.views.changed().await.unwrap();
        let view: Value = serde_json::from_slice(&subscription.views.borrow_and_update()).unwrap();
        if view["isKnown"] == true && view["helmop"].is_object() {
            return view;
        }
    }
}

/// The clusters of a history, with the sources of its lines.
fn history(view: &Value) -> Vec<(&str, &str)> {
    let attempts = view["helmop"]["attempts"].as_array().unwrap().iter();
    let shown = attempts.map(|attempt| {
        let text = |field: &str| attempt[field].as_str().unwrap();
        (text("cluster"), text("from"))
    });
    shown.collect()
}

#[tokio::test(start_paused = true)]
async fn a_page_is_shown_before_the_records_and_has_them_when_the_cluster_answers() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let away = recorded("web", move || {
        let gate = Arc::clone(&opened);
        async move { drop(gate.acquire().await) }
    });
    let live = Live::new(management(), Contexts::connected([("c1", away)]));
    let mut running = JoinSet::new();
    let following = live.clone();
    running.spawn(async move { following.follow().await });
    let topic = Topic::parse("helmops/shop/web").unwrap();
    let mut page = Hub::new(live).subscribe(topic).unwrap();
    let started = Instant::now();
    let view = next(&mut page).await;
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(history(&view), [("shop/c1", "status")]);
    gate.add_permits(1);
    assert_eq!(history(&next(&mut page).await), [("shop/c1", "records")]);
}

#[tokio::test(start_paused = true)]
async fn records_are_read_after_changes_but_not_too_often() {
    let reads = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&reads);
    let cluster = recorded("web", move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    });
    let contexts = Contexts::connected([("c1", cluster)]);
    let deployments = Table::<BundleDeployment>::default();
    let revisions = watch::Sender::new(Revisions::default());
    let after = async |time: Duration| {
        sleep(time).await;
        reads.load(Ordering::SeqCst)
    };
    let changed = || deployments.set(Contents::of([unlisted("c1")]));
    let (soon, pause) = (Duration::from_secs(1), RECORDS_PAUSE);
    let watched = async {
        assert_eq!(after(RECORDS * 2).await, 0, "no deployment is known");
        changed();
        assert_eq!(after(soon).await, 1);
        changed();
        changed();
        assert_eq!(after(soon).await, 1, "two changes, too soon");
        assert_eq!(after(pause).await, 2, "both are one");
        assert_eq!(after(pause).await, 2, "no change");
        changed();
        assert_eq!(after(soon).await, 3, "a change after a while");
        assert_eq!(after(RECORDS).await, 3);
        assert_eq!(after(pause + soon).await, 4, "without a change, now and then");
        assert_eq!(revisions.borrow().by_cluster.len(), 1);
    };
    tokio::select! {
        () = follow_revisions(&deployments, &contexts, &revisions) => {}
        () = watched => return,
    }
    panic!("it does not end");
}
