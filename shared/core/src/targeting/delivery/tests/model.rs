//! A model of what a delivery depends on: Bundles of one namespace, their sources, and the namespace of one cluster in the API
//! server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gotmpl::Budget;
use helmops_api::{Bundle, BundleDeployment, Cluster, Decoded, NamespacedName, labels};
use k8s_openapi::{
    ByteString,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::{Value, json};

use crate::targeting::{
    Blocked, RolloutStep, Target,
    copies::{Copy, CopyKind, CopyRef, CopyRole, Object, ObservedCopy, SourceRef, referenced_sources},
    criteria::Member,
    delivery::{
        Action, BundleDelivery, CachedDeployment, ClusterState, CopyWrite, Plan, Read, Sources, leftovers,
        release,
    },
    deployment::access_secret,
    identity::values_hash,
    targets,
};

/// The namespace of the cluster.
pub const NAMESPACE: &str = "cluster-c1";
/// The field manager of this controller.
const MANAGER: &str = "helmops-controller";

/// What users write.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The specs of the Bundles.
    pub bundles: BTreeMap<&'static str, Value>,
    /// The sources in the namespace of the Bundles: their type and content.
    pub sources: BTreeMap<&'static str, (&'static str, u32)>,
    /// Increases with each change of a source.
    pub source_version: u32,
}

impl Inputs {
    /// Bundles with values, an access Secret and downstream resources.
    pub fn new(bundles: &[(&'static str, u32, bool, &[&str])]) -> Self {
        let mut inputs = Self {
            bundles: BTreeMap::new(),
            sources: [
                ("access", ("Opaque", 1)),
                ("shared", ("Opaque", 1)),
                ("other", ("Opaque", 1)),
            ]
            .into(),
            source_version: 1,
        };
        for (name, values, has_access, downstream) in bundles {
            inputs.set_bundle(name, *values, *has_access, downstream);
        }
        inputs
    }

    /// Sets the spec of a Bundle. `values` 0 is none.
    pub fn set_bundle(&mut self, name: &'static str, values: u32, has_access: bool, downstream: &[&str]) {
        let values = if values == 0 {
            json!({})
        } else {
            json!({ "number": values })
        };
        let downstream: Vec<_> = downstream
            .iter()
            .map(|name| json!({ "kind": "Secret", "name": name }))
            .collect();
        let spec = json!({
            "helm": { "chart": "web", "values": values },
            "helmOpOptions": { "helmOpSecretName": if has_access { "access" } else { "" } },
            "downstreamResources": downstream,
            "targets": [{ "clusterName": "c1" }],
        });
        self.bundles.insert(name, spec);
    }

    /// Changes a source.
    pub fn set_source(&mut self, name: &'static str, type_: &'static str, content: u32) {
        self.sources.insert(name, (type_, content));
        self.source_version += 1;
    }

    pub fn bundle(&self, name: &str) -> Bundle {
        let object =
            json!({ "metadata": { "name": name, "namespace": "fleet" }, "spec": self.bundles[name] });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// The content of a source, as it is in the namespace of the Bundles.
    pub fn source(&self, source: &SourceRef) -> Result<Object, Blocked> {
        let (type_, content) = self
            .sources
            .get(&*source.name)
            .ok_or_else(|| Blocked::until_change(format!("{source} does not exist")))?;
        // Only a change of this source gives it a new version; that all get one is more than enough.
        let version = format!("{}-{type_}-{content}", self.source_version);
        let secret = json!({
            "metadata": { "name": source.name, "namespace": "fleet", "resourceVersion": version },
            "type": type_, "data": data(*content),
        });
        Ok(Object::Secret(serde_json::from_value(secret).unwrap()))
    }
}

fn data(content: u32) -> Value {
    json!({ "key": ByteString(content.to_string().into_bytes()) })
}

/// Why a write of the model fails.
#[derive(Debug)]
pub struct WriteFailed {
    /// The copy whose observed state was stale.
    pub stale: Option<CopyRef>,
}

/// How a reconciliation ended.
#[derive(Debug, PartialEq)]
pub enum End {
    /// Everything was done.
    Done,
    /// The process ended before the next write.
    Interrupted,
    /// It is retried.
    Failed,
    /// Nothing was planned.
    Blocked(Blocked),
}

/// The namespace of the cluster in the API server, and what the controller has in memory.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub deployments: BTreeMap<String, BundleDeployment>,
    pub objects: BTreeMap<CopyRef, Object>,
    /// What the cache has recorded of objects that were left unchanged.
    pub kept: BTreeMap<CopyRef, ObservedCopy>,
    /// All executed actions.
    pub log: Vec<Action>,
    /// The values that belong to an ID.
    pub values_of: BTreeMap<String, String>,
    version: u64,
}

impl Server {
    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Reconciles a Bundle as the controller does. The process ends before the write after `writes` others.
    pub fn reconcile(&mut self, inputs: &Inputs, name: &str, step: RolloutStep, mut writes: usize) -> End {
        let mut stale = BTreeSet::new();
        for _ in 0..4 {
            let plan = match self.plan(inputs, name, step, &stale) {
                Ok(plan) => plan,
                Err(blocked) => return End::Blocked(blocked),
            };
            let mut failed = None;
            for action in &plan.actions {
                if writes == 0 {
                    return End::Interrupted;
                }
                writes -= usize::from(!matches!(action, Action::KeepCopy { .. }));
                if let Err(error) = self.execute(action) {
                    failed = Some(error);
                    break;
                }
            }
            match failed {
                Some(WriteFailed { stale: Some(copy) }) if stale.is_empty() => {
                    stale.insert(copy);
                }
                Some(_) => return End::Failed,
                None if plan.has_new_owner => {}
                None => return End::Done,
            }
        }
        panic!("it does not end");
    }

    /// The plan for a Bundle, with everything read that it requires.
    pub fn plan(
        &mut self,
        inputs: &Inputs,
        name: &str,
        step: RolloutStep,
        stale: &BTreeSet<CopyRef>,
    ) -> Result<Plan, Blocked> {
        let existing = self.deployments.get(name).cloned();
        let server = self.clone();
        let (plan, id, values) = with_target(inputs, name, existing.as_ref(), |delivery, target| {
            let step = match (step, &existing) {
                (RolloutStep::Hold, None) => RolloutStep::Wait,
                (step, _) => step,
            };
            let mut observed = server.cached();
            observed.stale.clone_from(stale);
            if let Some(blocked) = delivery.blocked(target, &observed) {
                return (Err(blocked), String::new(), String::new());
            }
            let reads = delivery.reads(target, step, &observed);
            server.read(&reads, &mut observed);
            let desired = target.desired.as_ref().unwrap();
            let plan = delivery.plan(target, step, &observed);
            (plan, desired.id.clone(), desired.values.to_string())
        });
        self.values_of.insert(id, values);
        plan
    }

    /// The state in the caches.
    pub fn cached(&self) -> ClusterState {
        let deployments = self.deployments.values().cloned();
        let deployments: Vec<CachedDeployment> = deployments
            .map(|deployment| Decoded::Valid(deployment.into()).into())
            .collect();
        let mut copies: BTreeMap<_, _> = self
            .objects
            .iter()
            .filter_map(|(reference, object)| {
                Some((
                    reference.clone(),
                    Arc::new(ObservedCopy::of(object.metadata(), MANAGER)?),
                ))
            })
            .collect();
        let kept = self.kept.iter();
        copies.extend(kept.map(|(copy, observed)| (copy.clone(), Arc::new(observed.clone()))));
        ClusterState::cached(deployments, copies, Arc::default())
    }

    /// Reads from the API server.
    pub fn read(&self, reads: &[Read], state: &mut ClusterState) {
        for read in reads {
            match read {
                Read::Object(copy) => state.add_object(copy.clone(), self.objects.get(copy).cloned()),
                Read::Metadata(copy) => {
                    let metadata = self.objects.get(copy).map(|object| object.metadata().clone());
                    state.add_metadata(copy.clone(), metadata);
                }
                Read::Deployment(name) => assert!(!self.deployments.contains_key(&name.name)),
            }
        }
    }

    /// Executes an action, and checks what must be true at any time.
    pub fn execute(&mut self, action: &Action) -> Result<(), WriteFailed> {
        let before = self.clone();
        match action {
            Action::CreateCopy(CopyWrite { copy, owners }) => {
                let reference = CopyRef::of(copy.object.kind(), copy.object.metadata());
                if self.objects.contains_key(&reference) {
                    return Err(WriteFailed {
                        stale: Some(reference),
                    });
                }
                self.put(copy, owners);
            }
            Action::ApplyCopy(CopyWrite { copy, owners }) => {
                let reference = CopyRef::of(copy.object.kind(), copy.object.metadata());
                let found = self.objects.get(&reference);
                if found.is_some_and(|found| !found.can_become(&copy.object)) {
                    return Err(WriteFailed {
                        stale: Some(reference),
                    });
                }
                self.put(copy, owners);
            }
            Action::KeepCopy { copy, metadata } => {
                let reference = CopyRef::of(copy.object.kind(), metadata);
                let observed = ObservedCopy::unchanged(copy, metadata).unwrap();
                self.kept.insert(reference, observed);
            }
            Action::SetOwners {
                copy,
                version,
                owners,
            } => {
                let next = self.next();
                let found = self.objects.get_mut(copy).ok_or(WriteFailed { stale: None })?;
                let metadata = metadata_mut(found);
                if metadata.resource_version != version.resource_version {
                    return Err(WriteFailed { stale: None });
                }
                metadata.resource_version = Some(next);
                metadata.owner_references = Some(owners.clone());
                self.kept.remove(copy);
            }
            Action::DeleteCopy { copy, version } => {
                if let Some(found) = self.objects.get(copy) {
                    if found.metadata().resource_version != version.resource_version {
                        return Err(WriteFailed { stale: None });
                    }
                    self.remove(copy);
                }
            }
            Action::CreateDeployment(deployment) => {
                if self.deployments.contains_key(name_of(deployment)) {
                    return Err(WriteFailed { stale: None });
                }
                self.assert_copies_of(deployment);
                self.assert_values_of(deployment);
                let (uid, version) = (format!("uid-{}", self.next()), self.next());
                let mut stored = (**deployment).clone();
                stored.metadata.uid = Some(uid);
                stored.metadata.resource_version = Some(version);
                self.deployments.insert(name_of(deployment).to_owned(), stored);
            }
            Action::ReplaceDeployment(deployment) => {
                let found = self.deployments.get(name_of(deployment));
                let version = found.and_then(|found| found.metadata.resource_version.clone());
                if version.is_none() || version != deployment.metadata.resource_version {
                    return Err(WriteFailed { stale: None });
                }
                self.assert_copies_of(deployment);
                let mut stored = (**deployment).clone();
                stored.metadata.resource_version = Some(self.next());
                self.deployments.insert(name_of(deployment).to_owned(), stored);
            }
        }
        self.assert_values_kept(&before);
        self.log.push(action.clone());
        Ok(())
    }

    fn put(&mut self, copy: &Copy, owners: &[OwnerReference]) {
        if let Object::Secret(secret) = &copy.object
            && copy.role == CopyRole::Values
        {
            let values = Copy::values_of(secret).unwrap();
            let [id, staged_id] = values.ids.unwrap();
            for (id, written) in [(id, values.values), (staged_id, values.staged)] {
                let expected = self.values_of.get(&id).map_or("", String::as_str);
                let is_empty = values_hash(written.as_bytes(), expected.as_bytes()).is_empty();
                assert!(
                    is_empty || written == expected,
                    "the values of another ID are written for {id}"
                );
            }
        }
        let reference = CopyRef::of(copy.object.kind(), copy.object.metadata());
        let (uid, version) = (format!("uid-{}", self.next()), self.next());
        let existing = self.objects.get(&reference).map(Object::metadata);
        let uid = existing.and_then(|existing| existing.uid.clone()).unwrap_or(uid);
        let mut object = copy.object.clone();
        let fields = managed_fields(&object, MANAGER);
        let metadata = metadata_mut(&mut object);
        metadata.uid = Some(uid);
        metadata.resource_version = Some(version);
        metadata.owner_references = (!owners.is_empty()).then(|| owners.to_vec());
        metadata.managed_fields = serde_json::from_value(fields).unwrap();
        self.kept.remove(&reference);
        self.objects.insert(reference, object);
    }

    /// Removes an object. No watch shows the deletion of one that is not labelled.
    pub fn remove(&mut self, copy: &CopyRef) {
        self.objects.remove(copy);
        self.kept.remove(copy);
    }

    /// Adds an object of another client.
    pub fn add_foreign(
        &mut self,
        name: &str,
        owner: Option<OwnerReference>,
        type_: &str,
        content: u32,
    ) -> CopyRef {
        let version = self.next();
        let secret = json!({
            "metadata": { "name": name, "namespace": NAMESPACE, "uid": version, "resourceVersion": version },
            "type": type_, "data": data(content),
        });
        let mut object = Object::Secret(serde_json::from_value(secret).unwrap());
        metadata_mut(&mut object).owner_references = owner.map(|owner| vec![owner]);
        let reference = CopyRef::of(CopyKind::Secret, object.metadata());
        self.objects.insert(reference.clone(), object);
        reference
    }

    /// Another client changes a key of an object.
    pub fn edit(&mut self, copy: &CopyRef) {
        let version = self.next();
        let Some(Object::Secret(secret)) = self.objects.get_mut(copy) else {
            return;
        };
        let data = secret.data.get_or_insert_default();
        data.insert("extra".to_owned(), ByteString(version.clone().into_bytes()));
        let mut fields = serde_json::to_value(&secret.metadata.managed_fields).unwrap();
        let edited = json!({ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": { "f:extra": {} } } });
        match fields.as_array_mut() {
            Some(fields) => fields.push(edited),
            None => fields = json!([edited]),
        }
        secret.metadata.managed_fields = serde_json::from_value(fields).unwrap();
        secret.metadata.resource_version = Some(version);
        if ObservedCopy::of(&secret.metadata, MANAGER).is_some() {
            self.kept.remove(copy);
        }
    }

    /// Deletes the objects of which no owner exists, and removes owners that do not exist, as the garbage collector does.
    pub fn collect_garbage(&mut self) {
        let uids: BTreeSet<_> = self
            .deployments
            .values()
            .filter_map(|one| one.metadata.uid.clone())
            .collect();
        let is_garbage = |object: &Object| {
            let owners = object.metadata().owner_references.iter().flatten();
            let mut owners = owners.peekable();
            owners.peek().is_some() && owners.all(|owner| !uids.contains(&owner.uid))
        };
        let garbage: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| is_garbage(object))
            .collect();
        let garbage: Vec<_> = garbage.into_iter().map(|(copy, _)| copy.clone()).collect();
        for copy in garbage {
            self.remove(&copy);
        }
        for object in self.objects.values_mut() {
            let owners = &mut metadata_mut(object).owner_references;
            if let Some(owners) = owners {
                owners.retain(|owner| uids.contains(&owner.uid));
            }
            // The API server has no empty list of owners.
            owners.take_if(|owners| owners.is_empty());
        }
    }

    /// Deletes the unowned copies of a Bundle without a deployment, as the controller does.
    pub fn prune_unowned(&mut self, bundle: &str) {
        let unowned = self.cached().copies.into_iter();
        let unowned = unowned.filter(|(_, copy)| copy.is_unowned_of("fleet", bundle));
        let unowned = unowned.map(|(copy, _)| copy).collect();
        for copy in leftovers(unowned, |_| self.deployments.contains_key(bundle)) {
            let metadata = self.objects[&copy].metadata().clone();
            if let Some(action) = release(&copy, &metadata, None) {
                self.execute(&action).unwrap();
            }
        }
    }

    /// All copies that a deployment needs before it is written exist.
    fn assert_copies_of(&self, deployment: &BundleDeployment) {
        let downstream = referenced_sources(deployment);
        let mut names: Vec<_> = downstream.iter().map(|source| &*source.name).collect();
        let options = deployment.spec.helm_chart_options.as_ref().unwrap();
        names.extend(Some(&*options.secret_name).filter(|name| !name.is_empty()));
        for name in names {
            assert!(
                self.objects.contains_key(&secret(name)),
                "{name} does not exist yet"
            );
        }
    }

    /// The Secret of a deployment has its values.
    pub fn assert_values_of(&self, deployment: &BundleDeployment) {
        let hash = &deployment.spec.values_hash;
        let stored = self.values(name_of(deployment));
        let stored = stored.map(|[values, staged]| values_hash(values.as_bytes(), staged.as_bytes()));
        assert!(
            hash.is_empty() || stored.as_ref() == Some(hash),
            "{stored:?} instead of {hash}"
        );
    }

    /// An action does not remove the values of a deployment that exists.
    fn assert_values_kept(&self, before: &Self) {
        for (name, deployment) in &self.deployments {
            let id = &deployment.spec.deployment_id;
            let values = self
                .values_of
                .get(id)
                .filter(|values| !values_hash(values.as_bytes(), b"").is_empty());
            let has_values = |server: &Self| {
                values.is_some()
                    && server
                        .values(name)
                        .is_some_and(|stored| stored.contains(values.unwrap()))
            };
            assert!(
                !has_values(before) || has_values(self),
                "the values of {name} are lost"
            );
        }
    }

    /// The content of the Secret with values.
    fn values(&self, name: &str) -> Option<[String; 2]> {
        let Object::Secret(secret) = self.objects.get(&secret(name))? else {
            return None;
        };
        Copy::values_of(secret).map(|values| [values.values, values.staged])
    }

    /// The copies in the namespace, by name.
    pub fn copies(&self) -> Vec<&str> {
        let copies = self
            .objects
            .values()
            .filter(|object| ObservedCopy::of(object.metadata(), MANAGER).is_some());
        copies
            .map(|object| object.metadata().name.as_deref().unwrap())
            .collect()
    }

    /// Names of the owners of a copy.
    pub fn owners(&self, name: &str) -> Vec<&str> {
        let owners = self.objects[&secret(name)]
            .metadata()
            .owner_references
            .iter()
            .flatten();
        owners.map(|owner| &*owner.name).collect()
    }
}

/// Calls `f` with the target of a Bundle.
pub fn with_target<R>(
    inputs: &Inputs,
    name: &str,
    existing: Option<&BundleDeployment>,
    f: impl FnOnce(&BundleDelivery<'_>, &Target<'_>) -> R,
) -> R {
    let bundle = inputs.bundle(name);
    let cluster =
        json!({ "metadata": { "name": "c1", "namespace": "fleet" }, "status": { "namespace": NAMESPACE } });
    let cluster: Cluster = serde_json::from_str(&cluster.to_string()).unwrap();
    let existing: Vec<_> = existing.into_iter().collect();
    let budget = Budget::default();
    let targets = targets(&bundle, [Member::new(&cluster, [])], &existing, false, &budget).unwrap();
    let sources: Sources = BundleDelivery::required_sources(&bundle, &targets)
        .into_iter()
        .map(|source| (source.clone(), inputs.source(&source)))
        .collect();
    f(&BundleDelivery::new(&bundle, &sources), &targets[0])
}

/// The name of the copy of the access Secret of a Bundle.
pub fn access_name(inputs: &Inputs, bundle: &str) -> String {
    access_secret(&inputs.bundle(bundle)).unwrap_or_default()
}

/// A reference to a Secret in the namespace of the cluster.
pub fn secret(name: &str) -> CopyRef {
    CopyRef {
        kind: CopyKind::Secret,
        name: NamespacedName::new(NAMESPACE, name),
    }
}

/// The owner reference that Fleet's controller sets.
pub fn fleets_owner(deployment: &BundleDeployment) -> OwnerReference {
    let owner = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "controller": true,
        "name": name_of(deployment), "uid": deployment.metadata.uid,
    });
    serde_json::from_value(owner).unwrap()
}

/// Makes an object what Fleet's controller would have created.
pub fn as_fleet_created(object: &mut Object) {
    let metadata = metadata_mut(object);
    metadata.labels = None;
    metadata.annotations = None;
    metadata.managed_fields = None;
}

fn name_of(deployment: &BundleDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap()
}

fn metadata_mut(object: &mut Object) -> &mut ObjectMeta {
    match object {
        Object::Secret(secret) => &mut secret.metadata,
        Object::ConfigMap(map) => &mut map.metadata,
    }
}

fn managed_fields(object: &Object, manager: &str) -> Value {
    let Object::Secret(secret) = object else {
        return json!([]);
    };
    let keys = secret.data.iter().flatten();
    let keys: serde_json::Map<_, _> = keys.map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
    json!([{ "manager": manager, "operation": "Apply", "fieldsV1": { "f:data": keys } }])
}

/// Whether an object is labelled as a copy of this controller.
pub fn is_labelled(object: &Object) -> bool {
    labels::of(object.metadata(), labels::COPY_TYPE).is_some()
}
