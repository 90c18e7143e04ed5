//! What is wanted of a repository by all HelmOps together, so that its index is read once for all of them.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{Guarded, HelmOp},
    chart::request::or_inherited,
};
use kube::runtime::reflector::Store;

/// The charts that HelmOps name beside a repository.
pub fn charts(helmops: &Store<Guarded<HelmOp>>, repo: &str) -> BTreeSet<String> {
    let mut charts = BTreeSet::new();
    for object in helmops.state() {
        if let Guarded::Good(helmop) = &*object {
            add(&mut charts, helmop, repo);
        }
    }
    charts
}

fn add(charts: &mut BTreeSet<String>, helmop: &HelmOp, repo: &str) {
    let bundle = &helmop.spec.bundle;
    let Some(main) = &bundle.options.helm else {
        return;
    };
    let targets = bundle
        .targets
        .iter()
        .filter_map(|target| target.options.helm.as_ref());
    for helm in targets.chain([main]) {
        let chart = or_inherited(&helm.chart, &main.chart);
        if or_inherited(&helm.repo, &main.repo) == repo && !charts.contains(chart) {
            charts.insert(chart.to_owned());
        }
    }
}
