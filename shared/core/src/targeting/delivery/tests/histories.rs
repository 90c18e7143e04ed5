//! Interruptions and changes by others: whatever happens, further rounds lead to the desired state.

use proptest::{collection::vec, prelude::*};

use super::model::{End, Inputs, Server, access_name, as_fleet_created, fleets_owner, is_labelled, secret};
use crate::targeting::{
    RolloutStep,
    copies::{CopyKind, Object, SourceRef},
};

const BUNDLES: [&str; 2] = ["web", "db"];
const SOURCES: [&str; 3] = ["access", "shared", "other"];

/// The desired state of two Bundles that share a downstream resource, before and after a change of everything.
fn inputs() -> [Inputs; 2] {
    let mut before = Inputs::new(&[
        ("web", 1, true, &["shared"]),
        ("db", 2, false, &["shared", "other"]),
    ]);
    let mut after = before.clone();
    after.set_bundle("web", 3, true, &["shared", "other"]);
    after.set_bundle("db", 0, true, &["shared"]);
    after.set_source("shared", "example.com/keys", 5);
    before.source_version = 0;
    [before, after]
}

/// Reconciles everything until nothing is left to do, and checks the result.
fn converge(server: &mut Server, inputs: &Inputs) {
    for round in 0.. {
        let before = server.log.len();
        for name in BUNDLES {
            server.collect_garbage();
            let end = server.reconcile(inputs, name, RolloutStep::Promote, usize::MAX);
            assert!(matches!(end, End::Done | End::Failed), "{name}: {end:?}");
            server.prune_unowned(name);
        }
        if server.log.len() == before {
            break;
        }
        assert!(round < 8, "it does not converge: {:#?}", &server.log[before..]);
    }
    assert_converged(server, inputs);
}

fn assert_converged(server: &Server, inputs: &Inputs) {
    let mut needed = Vec::new();
    for name in BUNDLES {
        let deployment = &server.deployments[name];
        let spec = &deployment.spec;
        assert!(!spec.waiting_for_values, "{name} waits for values");
        assert_eq!(spec.deployment_id, spec.staged_deployment_id);
        server.assert_values_of(deployment);
        if !spec.values_hash.is_empty() {
            needed.push(name.to_owned());
            let owners = server.owners(name);
            assert!(owners.is_empty() || owners == [name], "{owners:?}");
        }
        let access = access_name(inputs, name);
        if !access.is_empty() {
            assert_eq!(server.owners(&access), [name]);
            needed.push(access);
        }
        for source in &spec.options.downstream_resources {
            let mut expected: Vec<_> = BUNDLES
                .into_iter()
                .filter(|bundle| {
                    let resources = &server.deployments[*bundle].spec.options.downstream_resources;
                    resources.iter().any(|other| other.name == source.name)
                })
                .collect();
            expected.sort_unstable();
            let mut owners = server.owners(&source.name);
            owners.sort_unstable();
            assert_eq!(owners, expected, "owners of {}", source.name);
            let copy = &server.objects[&secret(&source.name)];
            let reference = &SourceRef {
                kind: CopyKind::Secret,
                name: source.name.clone(),
            };
            assert!(
                copy.has_content_of(&inputs.source(reference).unwrap()),
                "{}",
                source.name
            );
            needed.push(source.name.clone());
        }
    }
    for (copy, object) in &server.objects {
        let is_leftover = is_labelled(object) && !needed.contains(&copy.name.name);
        // An unowned copy for all Bundles of a namespace may be about to be owned by any of them.
        let is_shared = object.metadata().owner_references.is_none() && SOURCES.contains(&&*copy.name.name);
        assert!(!is_leftover || is_shared, "{} is left", copy.name);
    }
}

/// Every prefix of the writes of both Bundles, for a first deployment and for a change of everything.
#[test]
fn every_interruption_converges() {
    let [before, after] = inputs();
    let mut deployed = Server::default();
    converge(&mut deployed, &before);
    for (server, inputs) in [(Server::default(), &before), (deployed, &after)] {
        for name in BUNDLES {
            let mut writes = 0;
            loop {
                let mut interrupted = server.clone();
                let end = interrupted.reconcile(inputs, name, RolloutStep::Promote, writes);
                // The process starts again.
                interrupted.kept.clear();
                let done = end != End::Interrupted;
                converge(&mut interrupted, inputs);
                if done {
                    break;
                }
                writes += 1;
            }
            assert!(writes >= 2, "{writes}");
        }
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The controller reconciles a Bundle, and may end before it is done.
    Reconcile {
        bundle: usize,
        step: RolloutStep,
        writes: usize,
    },
    /// The process starts again.
    Restart,
    /// A user changes a Bundle.
    Bundle {
        bundle: usize,
        values: u32,
        has_access: bool,
        downstream: usize,
    },
    /// A user changes a source.
    Source {
        source: usize,
        is_other_type: bool,
        content: u32,
    },
    /// Another client changes an object.
    Edit(usize),
    /// Another client deletes an object.
    Delete(usize),
    /// A deployment is deleted.
    DeleteDeployment(usize),
    /// The garbage collector runs.
    CollectGarbage,
    /// The controller deletes the unowned copies of a Bundle without a deployment.
    Prune(usize),
    /// Another client creates an object with the name of a copy.
    Foreign(usize),
    /// Fleet's controller was active: it sets its owner on the values of a deployment, without our metadata.
    Fleet(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let bundle = || 0..BUNDLES.len();
    let step = prop_oneof![
        2 => Just(RolloutStep::Promote),
        2 => Just(RolloutStep::Stage),
        1 => Just(RolloutStep::Hold),
    ];
    let writes = prop_oneof![1 => 0_usize..6, 1 => Just(usize::MAX)];
    prop_oneof![
        8 => (bundle(), step, writes).prop_map(|(bundle, step, writes)| Event::Reconcile { bundle, step, writes }),
        1 => Just(Event::Restart),
        4 => (bundle(), 0_u32..4, any::<bool>(), 0_usize..4).prop_map(|(bundle, values, has_access, downstream)| {
            Event::Bundle { bundle, values, has_access, downstream }
        }),
        2 => (0..SOURCES.len(), any::<bool>(), 0_u32..3).prop_map(|(source, is_other_type, content)| {
            Event::Source { source, is_other_type, content }
        }),
        1 => (0_usize..6).prop_map(Event::Edit),
        1 => (0_usize..6).prop_map(Event::Delete),
        1 => bundle().prop_map(Event::DeleteDeployment),
        1 => Just(Event::CollectGarbage),
        1 => bundle().prop_map(Event::Prune),
        1 => (0..3_usize).prop_map(Event::Foreign),
        1 => bundle().prop_map(Event::Fleet),
    ]
}

fn apply(event: Event, server: &mut Server, inputs: &mut Inputs) {
    let nth = |server: &Server, index: usize| server.objects.keys().nth(index).cloned();
    match event {
        Event::Reconcile { bundle, step, writes } => {
            server.reconcile(inputs, BUNDLES[bundle], step, writes);
        }
        Event::Restart => server.kept.clear(),
        Event::Bundle {
            bundle,
            values,
            has_access,
            downstream,
        } => {
            let resources: [&[&str]; 4] = [&[], &["shared"], &["other"], &["shared", "other"]];
            inputs.set_bundle(BUNDLES[bundle], values, has_access, resources[downstream]);
        }
        Event::Source {
            source,
            is_other_type,
            content,
        } => {
            let type_ = if is_other_type {
                "example.com/keys"
            } else {
                "Opaque"
            };
            inputs.set_source(SOURCES[source], type_, content);
        }
        Event::Edit(index) => {
            if let Some(copy) = nth(server, index) {
                server.edit(&copy);
            }
        }
        Event::Delete(index) => {
            if let Some(copy) = nth(server, index) {
                server.remove(&copy);
            }
        }
        Event::DeleteDeployment(bundle) => {
            server.deployments.remove(BUNDLES[bundle]);
        }
        Event::CollectGarbage => server.collect_garbage(),
        Event::Prune(bundle) => server.prune_unowned(BUNDLES[bundle]),
        Event::Foreign(index) => {
            let name = ["web", "shared", "other"][index];
            if !server.objects.contains_key(&secret(name)) {
                server.add_foreign(name, None, "example.com/foreign", 9);
            }
        }
        Event::Fleet(bundle) => {
            let name = BUNDLES[bundle];
            let owner = server.deployments.get(name).map(fleets_owner);
            if let (Some(owner), Some(Object::Secret(values))) =
                (owner, server.objects.get_mut(&secret(name)))
                && !is_foreign(&Object::Secret(values.clone()))
            {
                values.metadata.owner_references = Some(vec![owner]);
                let mut object = Object::Secret(values.clone());
                as_fleet_created(&mut object);
                server.objects.insert(secret(name), object);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_history_converges(events in vec(event(), 0..40)) {
        let mut server = Server::default();
        let mut inputs = Inputs::new(&[("web", 1, false, &[]), ("db", 2, true, &["shared"])]);
        for event in events {
            let foreign: Vec<_> = server.objects.iter().filter(|(_, object)| is_foreign(object)).collect();
            let before: Vec<_> = foreign.into_iter().map(|(copy, object)| (copy.clone(), object.clone())).collect();
            let is_ours = matches!(event, Event::Reconcile { .. } | Event::Prune(_));
            apply(event, &mut server, &mut inputs);
            for (copy, object) in before.iter().filter(|_| is_ours) {
                prop_assert_eq!(server.objects.get(copy), Some(object), "an object of another client was changed");
            }
        }
        // Users remove what blocks the clusters.
        server.objects.retain(|_, object| !is_foreign(object));
        server.kept.clear();
        converge(&mut server, &inputs);
    }
}

fn is_foreign(object: &Object) -> bool {
    object.type_() == Some("example.com/foreign")
}
