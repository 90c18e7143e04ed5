//! Which charts of which repositories HelmOps want, so that an index is read once for all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use helmops_shared::{
    admit::ValidHelmOp,
    chart::{index::Wanted, source::ChartSource},
    runtime::lock,
};

use crate::{resolve, work::HelmOpKey};

/// The most charts that count of all HelmOps of a namespace: some MiB. Others are looked up too, but with a request of their
/// own. Admission limits those of one HelmOp.
const MAX_OF_NAMESPACE: usize = 20_000;

/// What accepted HelmOps want. Each says it anew whenever it is worked on.
///
/// A look-up finds all that is wanted of a repository without going through HelmOps, so what one tenant writes does not
/// slow down the look-ups of others. Repositories are compared by the URL of their index, whatever their spelling.
#[derive(Debug, Default)]
pub struct Interest {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    helmops: HashMap<HelmOpKey, Vec<Want>>,
    indexes: HashMap<Arc<str>, Charts>,
    /// How much there is of each namespace that has some.
    counts: HashMap<String, usize>,
}

/// By name, and by namespace how many HelmOps want it.
type Charts = BTreeMap<String, BTreeMap<String, usize>>;

/// A chart that a HelmOp wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Want {
    index: Arc<str>,
    chart: String,
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
    pub fn charts(&self, index: &str, namespace: Option<&str>) -> Wanted {
        let known = lock(&self.known);
        let Some(charts) = known.indexes.get(index) else {
            return Wanted::new();
        };
        let is_wanted =
            |by: &BTreeMap<String, usize>| namespace.is_none_or(|namespace| by.contains_key(namespace));
        charts
            .iter()
            .filter(|(_, by)| is_wanted(by))
            .map(|(chart, _)| chart.clone())
            .collect()
    }

    fn replace(&self, key: &HelmOpKey, mut wants: Vec<Want>) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let mut known = lock(&self.known);
        let known = &mut *known;
        let before = known.helmops.get(key).map(Vec::as_slice).unwrap_or_default();
        if before == wants {
            return;
        }
        let others = known.counts.get(namespace).copied().unwrap_or_default() - before.len();
        wants.truncate(MAX_OF_NAMESPACE.saturating_sub(others));
        match others + wants.len() {
            0 => known.counts.remove(namespace),
            count => known.counts.insert(namespace.to_owned(), count),
        };
        for want in &wants {
            let charts = known.indexes.entry(Arc::clone(&want.index)).or_default();
            let by = charts.entry(want.chart.clone()).or_default();
            *by.entry(namespace.to_owned()).or_default() += 1;
        }
        let before = if wants.is_empty() {
            known.helmops.remove(key)
        } else {
            known.helmops.insert(key.clone(), wants)
        };
        for want in before.iter().flatten() {
            remove(&mut known.indexes, want, namespace);
        }
    }
}

fn remove(indexes: &mut HashMap<Arc<str>, Charts>, want: &Want, namespace: &str) {
    let Some(charts) = indexes.get_mut(&want.index) else {
        return;
    };
    if let Some(by) = charts.get_mut(&want.chart) {
        if let Some(count) = by.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                by.remove(namespace);
            }
        }
        if by.is_empty() {
            charts.remove(&want.chart);
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
            let (index, chart) = (Arc::clone(index), chart.to_owned());
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
        assert!(known.helmops.is_empty() && known.indexes.is_empty() && known.counts.is_empty());
    }

    #[test]
    fn many_helmops_of_others_are_bounded_and_do_not_slow_a_look_up_down() {
        let interest = Interest::default();
        note(
            &interest,
            &key("a", "1"),
            &json!({ "helm": { "repo": "https://h/stable", "chart": "web" } }),
        );
        let targets: Vec<Value> = (1..limits::CHARTS)
            .map(|at| json!({ "helm": { "chart": format!("c{at}") } }))
            .collect();
        let spec = json!({ "helm": { "repo": "https://elsewhere", "chart": "x" }, "targets": targets });
        for name in 0..2 * MAX_OF_NAMESPACE / limits::CHARTS {
            note(&interest, &key("b", &name.to_string()), &spec);
        }
        assert_eq!(lock(&interest.known).counts["b"], MAX_OF_NAMESPACE);
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
}
