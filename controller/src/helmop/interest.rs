//! Which charts of which repositories HelmOps want, so that an index is read once for all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use helmops_shared::{
    admit::ValidHelmOp,
    chart::{index::ChartFilter, source::ChartSource},
    runtime::lock,
};

use crate::{
    resolve,
    shares::{Charge, Shares},
    work::HelmOpKey,
};

/// What all HelmOps may want, in bytes; one namespace has three quarters of it. That is enough for ten thousand HelmOps with
/// charts of their own. The charts of others are looked up too, but with a request of their own.
const TOTAL: usize = 8 << 20;
/// What a HelmOp takes besides its charts: its name in the map, and its list.
const ENTRY: usize = 256;
/// What a chart takes besides its name and its URL: a place in the list of its HelmOp and one in the charts of its repository.
const WANT: usize = 160;

/// What accepted HelmOps want. Each says it anew whenever it is worked on.
///
/// A look-up finds all that is wanted of a repository without going through HelmOps, so what one tenant writes does not
/// slow down the look-ups of others. Repositories are compared by the URL of their index, whatever their spelling.
#[derive(Debug)]
pub struct Interest {
    known: Mutex<Known>,
    budget: Shares,
}

#[derive(Debug, Default)]
struct Known {
    helmops: HashMap<HelmOpKey, Vec<Want>>,
    indexes: HashMap<Arc<str>, Charts>,
}

/// By chart and namespace, how many HelmOps want it.
type Charts = BTreeMap<(Arc<str>, Arc<str>), usize>;

/// A chart that a HelmOp wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Want {
    index: Arc<str>,
    chart: Arc<str>,
}

impl Default for Interest {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            budget: Shares::new(TOTAL),
        }
    }
}

impl Interest {
    /// Notes what a HelmOp wants, in place of what it wanted before.
    pub fn note(&self, key: &HelmOpKey, valid: &ValidHelmOp<'_>) {
        self.replace(key, wants(valid));
    }

    /// Forgets a HelmOp that is gone or not accepted.
    pub fn forget(&self, key: &HelmOpKey) {
        self.replace(key, Vec::new());
    }

    /// The charts that are wanted of a repository, by all or by the HelmOps of one namespace.
    pub fn charts(&self, index: &str, namespace: Option<&str>) -> ChartFilter {
        let known = lock(&self.known);
        let charts = known.indexes.get(index).into_iter().flat_map(BTreeMap::keys);
        let mut wanted: Vec<_> = charts
            .filter(|(_, by)| namespace.is_none_or(|namespace| **by == *namespace))
            .map(|(chart, _)| chart)
            .collect();
        // Those of several namespaces are neighbours.
        wanted.dedup();
        wanted.into_iter().map(|chart| (**chart).to_owned()).collect()
    }

    fn replace(&self, key: &HelmOpKey, mut wants: Vec<Want>) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let mut known = lock(&self.known);
        let known = &mut *known;
        let before = known.helmops.get(key).map(Vec::as_slice).unwrap_or_default();
        if before == wants {
            return;
        }
        let charge = |wants: &[Want]| {
            [Charge {
                namespace,
                bytes: bytes(wants),
            }]
        };
        let before = charge(before);
        if self.budget.replace(&before, &charge(&wants)).is_err() {
            self.budget.release(&before);
            wants = Vec::new();
        }
        for want in known.helmops.remove(key).iter().flatten() {
            remove(&mut known.indexes, want, namespace);
        }
        if wants.is_empty() {
            return;
        }
        let namespace = Arc::from(namespace);
        for want in &mut wants {
            insert(&mut known.indexes, want, &namespace);
        }
        known.helmops.insert(key.clone(), wants);
    }
}

/// What a HelmOp with these charts takes.
fn bytes(wants: &[Want]) -> usize {
    let texts = wants
        .iter()
        .map(|want| WANT + want.index.len() + want.chart.len());
    let entry = if wants.is_empty() { 0 } else { ENTRY };
    entry + texts.sum::<usize>()
}

/// Notes a chart. The texts of one that is wanted already are in memory once.
fn insert(indexes: &mut HashMap<Arc<str>, Charts>, want: &mut Want, namespace: &Arc<str>) {
    if let Some((index, _)) = indexes.get_key_value(&want.index) {
        want.index = Arc::clone(index);
    }
    let charts = indexes.entry(Arc::clone(&want.index)).or_default();
    let key = (Arc::clone(&want.chart), Arc::clone(namespace));
    if let Some(((chart, _), _)) = charts.get_key_value(&key) {
        want.chart = Arc::clone(chart);
    }
    *charts.entry(key).or_default() += 1;
}

fn remove(indexes: &mut HashMap<Arc<str>, Charts>, want: &Want, namespace: &str) {
    let Some(charts) = indexes.get_mut(&want.index) else {
        return;
    };
    let key = (Arc::clone(&want.chart), Arc::from(namespace));
    if let Some(count) = charts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            charts.remove(&key);
        }
    }
    if charts.is_empty() {
        indexes.remove(&want.index);
    }
}

/// What a HelmOp wants, in order and each once.
fn wants(valid: &ValidHelmOp<'_>) -> Vec<Want> {
    let requests = std::iter::once(&valid.chart).chain(valid.targets.iter().flatten());
    // Most targets have the repository of the HelmOp; its URL is read once.
    let mut indexes: HashMap<&str, Option<Arc<str>>> = HashMap::new();
    let mut wants = BTreeSet::new();
    for request in requests {
        let ChartSource::Repository { repo, chart } = request.source() else {
            continue;
        };
        let index = indexes
            .entry(repo)
            .or_insert_with(|| resolve::index_of(repo).map(Arc::from));
        if let Some(index) = index {
            let (index, chart) = (Arc::clone(index), Arc::from(chart));
            wants.insert(Want { index, chart });
        }
    }
    wants.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use helmops_shared::api::{HelmOp, limits};
    use serde_json::{Value, json};

    use super::*;

    const INDEX: &str = "https://h/stable/index.yaml";

    fn key(namespace: &str, name: &str) -> HelmOpKey {
        HelmOpKey::new(name).within(namespace)
    }

    fn note(interest: &Interest, key: &HelmOpKey, spec: &Value) {
        let object = json!({ "metadata": { "name": key.name, "namespace": key.namespace }, "spec": spec });
        let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
        interest.note(key, &ValidHelmOp::try_from(&helmop).unwrap());
    }

    fn charge(namespace: &str, bytes: usize) -> [Charge<'_>; 1] {
        [Charge { namespace, bytes }]
    }

    fn wanted(interest: &Interest, namespace: Option<&str>) -> Vec<String> {
        interest.charts(INDEX, namespace).into_iter().collect()
    }

    #[test]
    fn one_repository_in_many_spellings() {
        let interest = Interest::default();
        let spellings = [
            "https://h/stable",
            "https://h/stable/",
            "https://h/stable//#x",
            "HTTPS://H:443/stable",
            "https://user:geheim@h/stable",
        ];
        for (at, repo) in spellings.into_iter().enumerate() {
            let spec = json!({ "helm": { "repo": repo, "chart": format!("c{at}") } });
            note(&interest, &key("a", &at.to_string()), &spec);
        }
        assert_eq!(wanted(&interest, None), ["c0", "c1", "c2", "c3", "c4"]);
        assert!(interest.charts("https://h/index.yaml", None).is_empty());
        assert!(!format!("{interest:?}").contains("geheim"));
    }

    #[test]
    fn what_targets_want_counts_and_what_others_want_can_be_left_out() {
        let interest = Interest::default();
        let spec = json!({
            "helm": { "repo": "https://h/stable", "chart": "web" },
            "targets": [
                { "helm": { "chart": "db" } },
                { "helm": { "repo": "https://other", "chart": "x" } }
            ]
        });
        note(&interest, &key("a", "1"), &spec);
        note(
            &interest,
            &key("b", "1"),
            &json!({ "helm": { "repo": "https://h/stable", "chart": "api" } }),
        );
        assert_eq!(wanted(&interest, None), ["api", "db", "web"]);
        assert_eq!(wanted(&interest, Some("a")), ["db", "web"]);
        assert!(wanted(&interest, Some("c")).is_empty());
    }

    #[test]
    fn what_is_wanted_no_more_goes() {
        let interest = Interest::default();
        let spec = |chart: &str| json!({ "helm": { "repo": "https://h/stable", "chart": chart } });
        note(&interest, &key("a", "1"), &spec("web"));
        note(&interest, &key("a", "2"), &spec("web"));
        note(&interest, &key("a", "1"), &spec("db"));
        assert_eq!(wanted(&interest, None), ["db", "web"]);
        interest.forget(&key("a", "2"));
        assert_eq!(wanted(&interest, None), ["db"]);
        interest.forget(&key("a", "1"));
        interest.forget(&key("a", "1"));
        let known = lock(&interest.known);
        assert!(known.helmops.is_empty() && known.indexes.is_empty());
        assert!(
            interest.budget.has_room(&charge("new", TOTAL / 4 * 3)),
            "nothing is charged"
        );
    }

    #[test]
    fn what_others_want_does_not_slow_a_look_up_down() {
        let interest = Interest::default();
        let web = json!({ "helm": { "repo": "https://h/stable", "chart": "web" } });
        note(&interest, &key("a", "1"), &web);
        let targets: Vec<Value> = (1..limits::CHARTS)
            .map(|at| json!({ "helm": { "chart": format!("c{at}") } }))
            .collect();
        let spec = json!({ "helm": { "repo": "https://elsewhere", "chart": "x" }, "targets": targets });
        for name in 0..80 {
            note(&interest, &key("b", &name.to_string()), &spec);
        }
        let started = Instant::now();
        for _ in 0..1000 {
            assert_eq!(wanted(&interest, None), ["web"]);
        }
        // Going through 40,000 targets a thousand times takes many seconds.
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn long_names_of_one_namespace_are_bounded_and_leave_room_for_others() {
        let interest = Interest::default();
        let long = "x".repeat(2_000);
        let spec = |at: usize| json!({ "helm": { "repo": format!("https://h/{at}-{long}"), "chart": format!("{at}-{long}") } });
        for at in 0..3_000 {
            note(&interest, &key("a", &at.to_string()), &spec(at));
        }
        let texts = |known: &Known| -> usize {
            let wants = known.helmops.values().flatten();
            wants.map(|want| want.index.len() + want.chart.len()).sum()
        };
        let kept = texts(&lock(&interest.known));
        assert!(kept > TOTAL / 2 && kept <= TOTAL / 4 * 3, "{kept}");
        note(
            &interest,
            &key("b", "1"),
            &json!({ "helm": { "repo": "https://h/stable", "chart": "web" } }),
        );
        assert_eq!(wanted(&interest, None), ["web"]);
        // One that had room and asks for more than there is.
        let targets: Vec<_> = (1..200).map(|at| json!({ "helm": spec(at)["helm"] })).collect();
        note(
            &interest,
            &key("a", "0"),
            &json!({ "helm": spec(0)["helm"], "targets": targets }),
        );
        assert!(!lock(&interest.known).helmops.contains_key(&key("a", "0")));
        for at in 0..3_000 {
            interest.forget(&key("a", &at.to_string()));
        }
        assert_eq!(lock(&interest.known).helmops.len(), 1);
        assert!(interest.budget.has_room(&charge("a", TOTAL / 2)));
    }

    #[test]
    fn ten_thousand_helmops_with_charts_of_their_own_are_noted() {
        let interest = Interest::default();
        for at in 0..10_000 {
            let want = Want {
                index: "https://charts.example.com/stable/index.yaml".into(),
                chart: format!("chart-{at}").into(),
            };
            interest.replace(&key("a", &at.to_string()), vec![want]);
        }
        let charts = interest.charts("https://charts.example.com/stable/index.yaml", None);
        assert_eq!(charts.len(), 10_000);
    }

    #[test]
    fn a_chart_of_many_helmops_is_in_memory_once() {
        let interest = Interest::default();
        let spec = json!({ "helm": { "repo": "https://h/stable", "chart": "web" } });
        for name in ["1", "2"] {
            note(&interest, &key("a", name), &spec);
        }
        let known = lock(&interest.known);
        let [one, other] = [&known.helmops[&key("a", "1")], &known.helmops[&key("a", "2")]];
        assert!(Arc::ptr_eq(&one[0].chart, &other[0].chart) && Arc::ptr_eq(&one[0].index, &other[0].index));
    }
}
