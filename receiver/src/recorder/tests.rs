use std::sync::{Arc, Mutex};

use tokio::time::{advance, sleep};

use super::*;

/// When a write was done, of which Receiver, with which repositories.
type Write = (Instant, String, Vec<String>);

/// Records what is written and when; each write takes a while.
#[derive(Clone, Default)]
struct Written {
    writes: Arc<Mutex<Vec<Write>>>,
    takes: Duration,
    fails: bool,
    /// Panics with pushes to this repository.
    panics_at: &'static str,
}

impl Sink for Written {
    async fn record(
        &self,
        receiver: NamespacedName,
        announced: Vec<Announcement>,
    ) -> Result<(), RecordError> {
        sleep(self.takes).await;
        let repositories: Vec<_> = announced
            .into_iter()
            .map(|announcement| announcement.repository)
            .collect();
        assert!(!repositories.iter().any(|one| one == self.panics_at), "as wanted");
        self.writes
            .lock()
            .unwrap()
            .push((Instant::now(), receiver.name, repositories));
        if self.fails {
            Err(RecordError::Gone)
        } else {
            Ok(())
        }
    }
}

fn push(repository: &str) -> Vec<Announcement> {
    vec![Announcement {
        repository: repository.into(),
        tag: String::new(),
    }]
}

fn receiver(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

fn started(sink: &Written) -> (Recorder, JoinSet<()>) {
    let (recorder, task) = Recorder::new(sink.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(task);
    (recorder, tasks)
}

#[tokio::test(start_paused = true)]
async fn the_first_push_is_written_immediately_and_later_ones_together() {
    let sink = Written {
        takes: Duration::from_millis(10),
        ..Written::default()
    };
    let (recorder, mut tasks) = started(&sink);
    let start = Instant::now();
    recorder.record(receiver("a"), push("1")).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 10);
    let more = ["2", "3", "2"].map(|repository| recorder.record(receiver("a"), push(repository)));
    let other = recorder.record(receiver("b"), push("4"));
    let (results, other) = tokio::join!(futures::future::join_all(more), other);
    assert!(results.iter().all(Result::is_ok) && other.is_ok());
    let writes: Vec<_> = sink
        .writes
        .lock()
        .unwrap()
        .iter()
        .map(|(at, name, all)| ((*at - start).as_millis(), name.clone(), all.join(" ")))
        .collect();
    assert_eq!(
        writes,
        [
            (10, "a".into(), "1".into()),
            (20, "b".into(), "4".into()),
            (1_010, "a".into(), "2 3".into())
        ]
    );
    drop(recorder);
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_receiver_delays_no_other_and_its_requests_time_out() {
    let sink = Written {
        takes: Duration::from_mins(1),
        ..Written::default()
    };
    let (recorder, _tasks) = started(&sink);
    let start = Instant::now();
    let all = (0..3).map(|index| recorder.record(receiver(&index.to_string()), push("1")));
    let results = futures::future::join_all(all).await;
    assert_eq!(results, vec![Err(RecordError::Timeout); 3]);
    assert_eq!(start.elapsed(), DEADLINE);
}

/// What does not wait is recorded nevertheless: it is merged before the others are refused.
#[tokio::test(start_paused = true)]
async fn a_flood_to_one_receiver_leaves_room_for_others_and_none_of_its_pushes_is_lost() {
    const FLOOD: usize = 300;
    let sink = Written {
        takes: Duration::from_secs(1),
        ..Written::default()
    };
    let (recorder, _tasks) = started(&sink);
    // The first is being written.
    let first = recorder.record(receiver("a"), push("web"));
    let flood = async {
        advance(Duration::from_millis(1)).await;
        let all = (0..FLOOD).map(|index| {
            let recorder = recorder.clone();
            async move {
                // One after the other, so that the task sees each of them.
                for _ in 0..index {
                    tokio::task::yield_now().await;
                }
                recorder
                    .record(receiver("a"), push(&(index % 3).to_string()))
                    .await
            }
        });
        let mut all = futures::future::join_all(all).await;
        let late = all.split_off(MAX_WAITING - 1);
        (all, late)
    };
    let other = async {
        sleep(Duration::from_millis(500)).await;
        let start = Instant::now();
        recorder.record(receiver("b"), push("db")).await.unwrap();
        start.elapsed()
    };
    let (first, (waited, late), other) = tokio::join!(first, flood, other);
    assert!(first.is_ok() && waited.iter().all(Result::is_ok), "{waited:?}");
    assert_eq!(late, vec![Err(RecordError::Busy); FLOOD - MAX_WAITING + 1]);
    assert_eq!(other, sink.takes);
    let writes = sink.writes.lock().unwrap();
    let mut of_a = writes
        .iter()
        .filter(|write| write.1 == "a")
        .map(|write| write.2.clone());
    let (one, mut two) = (of_a.next().unwrap(), of_a.next().unwrap());
    two.sort();
    assert_eq!(
        (one, two),
        (vec!["web".into()], vec!["0".into(), "1".into(), "2".into()])
    );
}

/// The requests that the write in progress responds to hold connections, too. The next write needs none that waits for it.
#[tokio::test(start_paused = true)]
async fn pushes_that_no_request_waits_for_are_written() {
    let sink = Written {
        takes: Duration::from_millis(600),
        ..Written::default()
    };
    let (recorder, mut tasks) = started(&sink);
    recorder.record(receiver("a"), push("first")).await.unwrap();
    let wave = async |repository: &str| {
        let all = (0..MAX_WAITING).map(|_| recorder.record(receiver("a"), push(repository)));
        futures::future::join_all(all).await
    };
    let late = async {
        // While the first wave is being written.
        sleep(Duration::from_millis(700)).await;
        wave("late").await
    };
    let (waited, late) = tokio::join!(wave("early"), late);
    assert!(waited.iter().all(Result::is_ok), "{waited:?}");
    assert_eq!(late, vec![Err(RecordError::Busy); MAX_WAITING]);
    drop(recorder);
    tasks.join_next().await.unwrap().unwrap();
    let writes = sink.writes.lock().unwrap();
    let written: Vec<_> = writes.iter().flat_map(|write| write.2.clone()).collect();
    assert_eq!(written, ["first", "early", "late"]);
}

#[tokio::test(start_paused = true)]
async fn many_repositories_become_one_push_to_all_in_the_status() {
    let sink = Written::default();
    let (recorder, _tasks) = started(&sink);
    recorder.record(receiver("a"), push("first")).await.unwrap();
    let many = (0..10 * MAX_PUSHES).flat_map(|number| push(&number.to_string()));
    recorder.record(receiver("a"), many.collect()).await.unwrap();
    let announced = sink.writes.lock().unwrap()[1].2.len();
    assert_eq!(
        announced,
        MAX_PUSHES + 1,
        "one more than a status holds, so that it becomes one for all"
    );
}

/// As many as may wait: none is refused, and all of them cost one write.
#[tokio::test(start_paused = true)]
async fn a_burst_to_one_receiver_is_one_write() {
    let sink = Written::default();
    let (recorder, _tasks) = started(&sink);
    recorder.record(receiver("a"), push("first")).await.unwrap();
    let all = (0..MAX_WAITING).map(|_| recorder.record(receiver("a"), push("web")));
    let results = futures::future::join_all(all).await;
    assert!(results.iter().all(Result::is_ok));
    let writes: Vec<_> = sink
        .writes
        .lock()
        .unwrap()
        .iter()
        .map(|write| write.2.clone())
        .collect();
    assert_eq!(writes, [["first"], ["web"]]);
}

#[tokio::test(start_paused = true)]
async fn writes_of_all_receivers_are_limited_and_the_oldest_is_the_first() {
    let sink = Written::default();
    let (recorder, _tasks) = started(&sink);
    let burst = usize::try_from(WRITES.burst).unwrap();
    let record = |name: usize| {
        let recorder = recorder.clone();
        async move { recorder.record(receiver(&format!("{name:03}")), push("1")).await }
    };
    let start = Instant::now();
    let results = futures::future::join_all((0..burst).map(record)).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), Duration::ZERO);
    // The permits are used, so these wait for one after the other.
    let late = (burst..burst + 50).map(|name| async move {
        sleep(Duration::from_millis(u64::try_from(name - burst + 1).unwrap())).await;
        record(name).await
    });
    let results = futures::future::join_all(late).await;
    assert!(results.iter().all(Result::is_ok));
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_millis(1_100),
        "{took:?}"
    );
    let writes = sink.writes.lock().unwrap();
    let names = writes.iter().skip(burst).map(|write| &write.1);
    assert!(names.is_sorted(), "{writes:?}");
}

/// A status has one push for each repository, so tags must not take the room of another repository.
#[tokio::test(start_paused = true)]
async fn many_tags_of_a_repository_keep_no_other_repository_out() {
    let sink = Written::default();
    let (recorder, _tasks) = started(&sink);
    recorder.record(receiver("a"), push("first")).await.unwrap();
    let tags = (0..=MAX_PUSHES).map(|tag| Announcement {
        repository: "web".to_owned(),
        tag: tag.to_string(),
    });
    let announced: Vec<_> = tags.chain(push("db")).collect();
    let all = announced
        .into_iter()
        .map(|announcement| recorder.record(receiver("a"), vec![announcement]));
    let results = futures::future::join_all(all).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(sink.writes.lock().unwrap()[1].2, ["web", "db"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_each_request_and_pushes_are_recorded_before_the_end() {
    let sink = Written {
        fails: true,
        takes: Duration::from_millis(5),
        ..Written::default()
    };
    let (recorder, mut tasks) = started(&sink);
    assert_eq!(
        recorder.record(receiver("a"), push("1")).await,
        Err(RecordError::Gone)
    );
    let last = recorder.clone();
    let (result, ()) = tokio::join!(last.record(receiver("a"), push("2")), async { drop(recorder) });
    assert_eq!(result, Err(RecordError::Gone));
    drop(last);
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(sink.writes.lock().unwrap().len(), 2);
}

/// The response must not be that the push is recorded.
#[tokio::test(start_paused = true)]
async fn a_push_that_the_recorder_does_not_take_is_reported_as_lost() {
    let sink = Written::default();
    let (recorder, task) = Recorder::new(sink.clone());
    let mut full: Vec<_> = (0..QUEUE)
        .map(|_| Box::pin(recorder.record(receiver("a"), push("1"))))
        .collect();
    for waiting in &mut full {
        assert!(futures::poll!(waiting).is_pending());
    }
    assert_eq!(
        recorder.record(receiver("a"), push("lost")).await,
        Err(RecordError::Full)
    );
    drop(task);
    assert!(matches!(
        recorder.record(receiver("a"), push("lost")).await,
        Err(RecordError::Failed(_))
    ));
    assert!(sink.writes.lock().unwrap().is_empty());
}

/// Others write without a pause meanwhile.
#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_requests_of_its_write_and_blocks_nothing() {
    let sink = Written {
        takes: Duration::from_millis(600),
        panics_at: "evil",
        ..Written::default()
    };
    let (recorder, _tasks) = started(&sink);
    let others = async {
        let write = async |name| loop {
            recorder.record(receiver(name), push("web")).await.unwrap();
        };
        tokio::join!(write("b"), async {
            sleep(Duration::from_millis(500)).await;
            write("c").await
        })
    };
    let of_a = async {
        let first = recorder.record(receiver("a"), push("evil")).await;
        (first, recorder.record(receiver("a"), push("web")).await)
    };
    tokio::select! {
        (first, second) = of_a => {
            assert!(matches!(first, Err(RecordError::Failed(_))), "{first:?}");
            assert_eq!(second, Ok(()));
        }
        _ = others => {}
    }
}
