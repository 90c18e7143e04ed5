//! HelmOps of several files that wait for each other.

use std::collections::BTreeMap;

use helmops_core::admit::cycle::{Named, named};

use super::{
    locate::locate,
    problem::{Severity, rule},
    review::{Checked, Decoded},
    schema::Finding,
};

/// HelmOps that a message names.
const MAX_NAMES: usize = 10;

/// A dependency of a HelmOp: where it is, and the index of the other one.
struct Dependency {
    path: String,
    name: String,
    other: usize,
}

/// A finding for each cycle, by the index of one of its HelmOps. One that depends on itself is found by admission.
pub fn find(objects: &[&Checked]) -> BTreeMap<usize, Finding> {
    let mut names = BTreeMap::new();
    for (index, object) in objects.iter().enumerate() {
        if let Decoded::HelmOp(_) = &object.decoded {
            let (namespace, name) = &object.name;
            names.entry((&**namespace, &**name)).or_insert(index);
        }
    }
    let dependencies: Vec<Vec<Dependency>> = objects
        .iter()
        .enumerate()
        .map(|(index, object)| match &object.decoded {
            Decoded::HelmOp(helmop) => named(helmop, &object.name.0)
                .filter_map(
                    |Named {
                         path,
                         namespace,
                         name,
                         ..
                     }| {
                        let other = *names.get(&(namespace, name))?;
                        let name = name.to_owned();
                        (other != index).then_some(Dependency { path, name, other })
                    },
                )
                .collect(),
            _ => Vec::new(),
        })
        .collect();
    let mut search = Search {
        dependencies: &dependencies,
        states: vec![State::New; objects.len()],
        cycles: BTreeMap::new(),
    };
    (0..objects.len()).for_each(|index| search.from(index));
    let of_cycle = |(first, cycle): (usize, Cycle)| {
        let entry = dependencies.get(first)?.get(cycle.entry)?;
        Some((first, finding(objects.get(first)?, entry, &cycle, objects)))
    };
    search.cycles.into_iter().filter_map(of_cycle).collect()
}

fn finding(object: &Checked, entry: &Dependency, cycle: &Cycle, objects: &[&Checked]) -> Finding {
    let first = cycle.first.iter().filter_map(|index| objects.get(*index));
    let mut names: Vec<_> = first.map(|object| &*object.name.1).collect();
    if cycle.length > names.len() {
        names.push("…");
    }
    names.push(&object.name.1);
    let located = locate(
        &object.object.source,
        &object.object.place,
        &entry.path,
        &entry.name,
    );
    Finding {
        severity: Severity::Error,
        rule: rule::DEPENDENCY_CYCLE,
        path: entry.path.clone(),
        span: located.span,
        alias: located.alias,
        message: format!(
            "these HelmOps wait for each other, so none of them is ever deployed: {}",
            names.join(" → ")
        ),
        fix: "remove one of the dependencies".to_owned(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// On the path of the search, at this index.
    Open(usize),
    Done,
}

/// HelmOps that wait for each other.
struct Cycle {
    /// The dependency of the first one.
    entry: usize,
    /// At most [`MAX_NAMES`] of them.
    first: Vec<usize>,
    /// How many they are.
    length: usize,
}

/// A depth-first search without recursion: files can have any number of HelmOps.
struct Search<'d> {
    dependencies: &'d [Vec<Dependency>],
    states: Vec<State>,
    /// One for each HelmOp at which the search has come back.
    cycles: BTreeMap<usize, Cycle>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) {
        if self.states.get(start) != Some(&State::New) {
            return;
        }
        self.set(start, State::Open(0));
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let (node, at) = (*node, *next);
            *next += 1;
            let Some(dependency) = self.dependencies.get(node).and_then(|all| all.get(at)) else {
                self.set(node, State::Done);
                path.pop();
                continue;
            };
            let other = dependency.other;
            match self.states.get(other).copied() {
                Some(State::New) => {
                    self.set(other, State::Open(path.len()));
                    path.push((other, 0));
                }
                Some(State::Open(index)) => {
                    let cycle = path.get(index..).unwrap_or_default();
                    self.cycles.entry(other).or_insert_with(|| Cycle {
                        // The next dependency is one further.
                        entry: cycle.first().map_or(0, |(_, next)| next - 1),
                        first: cycle.iter().take(MAX_NAMES).map(|(node, _)| *node).collect(),
                        length: cycle.len(),
                    });
                }
                _ => {}
            }
        }
    }

    fn set(&mut self, node: usize, state: State) {
        if let Some(own) = self.states.get_mut(node) {
            *own = state;
        }
    }
}
