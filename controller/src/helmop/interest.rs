//! Which charts HelmOps need from which repository, so that an index is read once for all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use helm_index::ChartFilter;
use helmops_core::admit::ValidHelmOp;
use helmops_fair::{ByteBudget, Charge, Share};
use helmops_fetch::normalized_index_url;
use helmops_model::chart::source::ChartSource;
use helmops_process::lock;

use crate::work::HelmOpKey;

/// Memory for the charts of all HelmOps, in bytes; one namespace may use three quarters of it. That is enough for ten thousand
/// HelmOps with different charts. The charts of further HelmOps are resolved too, but each with its own request.
const TOTAL: usize = 8 << 20;
/// Memory of a HelmOp besides its charts, in bytes: its key in the map, and its list.
const HELMOP_OVERHEAD: usize = 256;
/// Memory of a chart besides its name and URL, in bytes: an entry in the list of its HelmOp and one in the charts of its repository.
const CHART_OVERHEAD: usize = 160;

/// The charts of accepted HelmOps. They are updated at each reconciliation.
///
/// The charts of a repository are found without iterating over HelmOps, so the HelmOps of one tenant do not slow down the
/// resolutions of others. Repositories are identified by the normalized URL of their index.
#[derive(Debug)]
pub struct Interest {
    state: Mutex<State>,
    budget: ByteBudget,
}

#[derive(Debug, Default)]
struct State {
    helmops: HashMap<HelmOpKey, Vec<ChartRef>>,
    indexes: HashMap<Arc<str>, ChartUsers>,
}

/// The number of HelmOps by chart and namespace.
type ChartUsers = BTreeMap<(Arc<str>, Arc<str>), usize>;

/// A chart of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChartRef {
    index: Arc<str>,
    name: Arc<str>,
}

impl Default for Interest {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            budget: ByteBudget::new(TOTAL, Share::ThreeQuarters),
        }
    }
}

impl Interest {
    /// Records the charts of a HelmOp, in place of its earlier ones.
    pub fn record(&self, key: &HelmOpKey, valid: &ValidHelmOp<'_>) {
        self.replace(key, charts_of(valid));
    }

    /// Forgets a HelmOp that is deleted or not accepted.
    pub fn forget(&self, key: &HelmOpKey) {
        self.replace(key, Vec::new());
    }

    /// The charts of a repository that are needed by all HelmOps, or by those of one namespace.
    pub fn charts(&self, index: &str, namespace: Option<&str>) -> ChartFilter {
        let state = lock(&self.state);
        let users = state.indexes.get(index).into_iter().flat_map(BTreeMap::keys);
        let mut charts: Vec<_> = users
            .filter(|(_, user)| namespace.is_none_or(|namespace| **user == *namespace))
            .map(|(chart, _)| chart)
            .collect();
        // A chart of several namespaces has adjacent entries.
        charts.dedup();
        charts.into_iter().map(|chart| (**chart).to_owned()).collect()
    }

    fn replace(&self, key: &HelmOpKey, mut charts: Vec<ChartRef>) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let mut state = lock(&self.state);
        let state = &mut *state;
        let before = state.helmops.get(key).map(Vec::as_slice).unwrap_or_default();
        if before == charts {
            return;
        }
        let charge = |charts: &[ChartRef]| {
            [Charge {
                key: namespace,
                bytes: bytes(charts),
            }]
        };
        let before = charge(before);
        if self.budget.replace(&before, &charge(&charts)).is_err() {
            self.budget.release(&before);
            charts = Vec::new();
        }
        for chart in state.helmops.remove(key).iter().flatten() {
            remove(&mut state.indexes, chart, namespace);
        }
        if charts.is_empty() {
            return;
        }
        let namespace = Arc::from(namespace);
        for chart in &mut charts {
            insert(&mut state.indexes, chart, &namespace);
        }
        state.helmops.insert(key.clone(), charts);
    }
}

/// Memory of a HelmOp with these charts, in bytes.
fn bytes(charts: &[ChartRef]) -> usize {
    let sizes = charts
        .iter()
        .map(|chart| CHART_OVERHEAD + chart.index.len() + chart.name.len());
    let overhead = if charts.is_empty() { 0 } else { HELMOP_OVERHEAD };
    overhead + sizes.sum::<usize>()
}

/// Adds a chart. The strings of a chart that exists already are shared.
fn insert(indexes: &mut HashMap<Arc<str>, ChartUsers>, chart: &mut ChartRef, namespace: &Arc<str>) {
    if let Some((index, _)) = indexes.get_key_value(&chart.index) {
        chart.index = Arc::clone(index);
    }
    let users = indexes.entry(Arc::clone(&chart.index)).or_default();
    let key = (Arc::clone(&chart.name), Arc::clone(namespace));
    if let Some(((name, _), _)) = users.get_key_value(&key) {
        chart.name = Arc::clone(name);
    }
    *users.entry(key).or_default() += 1;
}

fn remove(indexes: &mut HashMap<Arc<str>, ChartUsers>, chart: &ChartRef, namespace: &str) {
    let Some(users) = indexes.get_mut(&chart.index) else {
        return;
    };
    let key = (Arc::clone(&chart.name), Arc::from(namespace));
    if let Some(count) = users.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            users.remove(&key);
        }
    }
    if users.is_empty() {
        indexes.remove(&chart.index);
    }
}

/// The charts of a HelmOp, sorted and without duplicates.
fn charts_of(valid: &ValidHelmOp<'_>) -> Vec<ChartRef> {
    let requests = std::iter::once(&valid.chart).chain(valid.targets.iter().flatten());
    // Most targets have the repository of the HelmOp; its URL is parsed once.
    let mut indexes: HashMap<&str, Option<Arc<str>>> = HashMap::new();
    let mut charts = BTreeSet::new();
    for request in requests {
        let ChartSource::Repository { repo, chart } = request.source() else {
            continue;
        };
        let index = indexes
            .entry(repo)
            .or_insert_with(|| normalized_index_url(repo).map(Arc::from));
        if let Some(index) = index {
            let (index, name) = (Arc::clone(index), Arc::from(chart));
            charts.insert(ChartRef { index, name });
        }
    }
    charts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use helmops_api::{HelmOp, limits};
    use serde_json::{Value, json};

    use super::*;

    const INDEX: &str = "https://h/stable/index.yaml";

    fn key(namespace: &str, name: &str) -> HelmOpKey {
        HelmOpKey::new(name).within(namespace)
    }

    fn record(interest: &Interest, key: &HelmOpKey, spec: &Value) {
        let object = json!({ "metadata": { "name": key.name, "namespace": key.namespace }, "spec": spec });
        let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
        interest.record(key, &ValidHelmOp::try_from(&helmop).unwrap());
    }

    fn charge(key: &str, bytes: usize) -> [Charge<'_>; 1] {
        [Charge { key, bytes }]
    }

    fn charts(interest: &Interest, namespace: Option<&str>) -> Vec<String> {
        interest.charts(INDEX, namespace).into_iter().collect()
    }

    #[test]
    fn spellings_of_a_url_are_the_same_repository() {
        let interest = Interest::default();
        let spellings = [
            "https://h/stable",
            "https://h/stable/",
            "https://h/stable//#x",
            "HTTPS://H:443/stable",
            "https://user:s3cr3t@h/stable",
        ];
        for (index, repo) in spellings.into_iter().enumerate() {
            let spec = json!({ "helm": { "repo": repo, "chart": format!("c{index}") } });
            record(&interest, &key("a", &index.to_string()), &spec);
        }
        assert_eq!(charts(&interest, None), ["c0", "c1", "c2", "c3", "c4"]);
        assert!(interest.charts("https://h/index.yaml", None).is_empty());
        assert!(!format!("{interest:?}").contains("s3cr3t"));
    }

    #[test]
    fn charts_of_targets_are_included_and_those_of_other_namespaces_can_be_excluded() {
        let interest = Interest::default();
        let spec = json!({
            "helm": { "repo": "https://h/stable", "chart": "web" },
            "targets": [
                { "helm": { "chart": "db" } },
                { "helm": { "repo": "https://other", "chart": "x" } }
            ]
        });
        record(&interest, &key("a", "1"), &spec);
        record(
            &interest,
            &key("b", "1"),
            &json!({ "helm": { "repo": "https://h/stable", "chart": "api" } }),
        );
        assert_eq!(charts(&interest, None), ["api", "db", "web"]);
        assert_eq!(charts(&interest, Some("a")), ["db", "web"]);
        assert!(charts(&interest, Some("c")).is_empty());
    }

    #[test]
    fn charts_without_users_are_removed() {
        let interest = Interest::default();
        let spec = |chart: &str| json!({ "helm": { "repo": "https://h/stable", "chart": chart } });
        record(&interest, &key("a", "1"), &spec("web"));
        record(&interest, &key("a", "2"), &spec("web"));
        record(&interest, &key("a", "1"), &spec("db"));
        assert_eq!(charts(&interest, None), ["db", "web"]);
        interest.forget(&key("a", "2"));
        assert_eq!(charts(&interest, None), ["db"]);
        interest.forget(&key("a", "1"));
        interest.forget(&key("a", "1"));
        let state = lock(&interest.state);
        assert!(state.helmops.is_empty() && state.indexes.is_empty());
        assert!(
            interest.budget.has_capacity(&charge("new", TOTAL / 4 * 3)),
            "no memory is charged"
        );
    }

    #[test]
    fn charts_of_other_repositories_do_not_slow_down_a_query() {
        let interest = Interest::default();
        let web = json!({ "helm": { "repo": "https://h/stable", "chart": "web" } });
        record(&interest, &key("a", "1"), &web);
        let targets: Vec<Value> = (1..limits::CHARTS)
            .map(|index| json!({ "helm": { "chart": format!("c{index}") } }))
            .collect();
        let spec = json!({ "helm": { "repo": "https://elsewhere", "chart": "x" }, "targets": targets });
        for name in 0..80 {
            record(&interest, &key("b", &name.to_string()), &spec);
        }
        let started = Instant::now();
        for _ in 0..1000 {
            assert_eq!(charts(&interest, None), ["web"]);
        }
        // Iterating over 40,000 targets a thousand times takes many seconds.
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn long_names_of_one_namespace_are_bounded_and_leave_memory_for_others() {
        let interest = Interest::default();
        let long = "x".repeat(2_000);
        let spec = |index: usize| json!({ "helm": { "repo": format!("https://h/{index}-{long}"), "chart": format!("{index}-{long}") } });
        for index in 0..3_000 {
            record(&interest, &key("a", &index.to_string()), &spec(index));
        }
        let text_bytes = |state: &State| -> usize {
            let charts = state.helmops.values().flatten();
            charts.map(|chart| chart.index.len() + chart.name.len()).sum()
        };
        let kept = text_bytes(&lock(&interest.state));
        assert!(kept > TOTAL / 2 && kept <= TOTAL / 4 * 3, "{kept}");
        record(
            &interest,
            &key("b", "1"),
            &json!({ "helm": { "repo": "https://h/stable", "chart": "web" } }),
        );
        assert_eq!(charts(&interest, None), ["web"]);
        // A HelmOp that fits grows beyond the limit.
        let targets: Vec<_> = (1..200)
            .map(|index| json!({ "helm": spec(index)["helm"] }))
            .collect();
        record(
            &interest,
            &key("a", "0"),
            &json!({ "helm": spec(0)["helm"], "targets": targets }),
        );
        assert!(!lock(&interest.state).helmops.contains_key(&key("a", "0")));
        for index in 0..3_000 {
            interest.forget(&key("a", &index.to_string()));
        }
        assert_eq!(lock(&interest.state).helmops.len(), 1);
        assert!(interest.budget.has_capacity(&charge("a", TOTAL / 2)));
    }

    #[test]
    fn ten_thousand_helmops_with_different_charts_fit() {
        let interest = Interest::default();
        for index in 0..10_000 {
            let chart = ChartRef {
                index: "https://charts.example.com/stable/index.yaml".into(),
                name: format!("chart-{index}").into(),
            };
            interest.replace(&key("a", &index.to_string()), vec![chart]);
        }
        let charts = interest.charts("https://charts.example.com/stable/index.yaml", None);
        assert_eq!(charts.len(), 10_000);
    }

    #[test]
    fn the_strings_of_a_chart_are_shared() {
        let interest = Interest::default();
        let spec = json!({ "helm": { "repo": "https://h/stable", "chart": "web" } });
        for name in ["1", "2"] {
            record(&interest, &key("a", name), &spec);
        }
        let state = lock(&interest.state);
        let [one, other] = [&state.helmops[&key("a", "1")], &state.helmops[&key("a", "2")]];
        assert!(Arc::ptr_eq(&one[0].name, &other[0].name) && Arc::ptr_eq(&one[0].index, &other[0].index));
    }
}
