//! From observed and desired objects of an account to writes.

use std::{collections::BTreeMap, sync::Arc};

use helmops_api::NamespacedName;

use super::account::{AccountObject, ObjectId, ObservedObject};

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create an object that does not exist.
    Create(AccountObject),
    /// Give an object the desired content.
    Apply(AccountObject),
    /// Delete an object with this UID.
    Delete(ObjectId, Option<String>),
}

/// The writes for the account of a Cluster, in order. `observed` has the objects with the names of the desired ones, and all objects
/// that name the Cluster; the desired ones are empty if the Cluster does not exist.
///
/// An object that names another Cluster is deleted before it is created again: tokens of that Cluster's agent end with its account.
pub fn plan(
    cluster: &NamespacedName,
    desired: Vec<AccountObject>,
    observed: &BTreeMap<ObjectId, Arc<ObservedObject>>,
) -> Vec<Write> {
    let ids: Vec<_> = desired.iter().map(AccountObject::id).collect();
    let is_surplus = |(id, found): &(&ObjectId, &Arc<ObservedObject>)| {
        !ids.contains(id) && found.cluster.as_ref() == Some(cluster)
    };
    // In reverse order of their creation: permissions end before the account.
    let surplus = observed.iter().rev().filter(is_surplus);
    let deletions = surplus.map(|(id, found)| Write::Delete(id.clone(), found.uid.clone()));
    let mut writes: Vec<_> = deletions.collect();
    for object in desired {
        let id = object.id();
        let Some(found) = observed.get(&id) else {
            writes.push(Write::Create(object));
            continue;
        };
        let same = object.observed();
        let is_of_other = found.cluster.as_ref().is_some_and(|other| other != cluster);
        if is_of_other || same.role != found.role {
            writes.push(Write::Delete(id, found.uid.clone()));
            writes.push(Write::Create(object));
        } else if same.content != found.content {
            writes.push(Write::Apply(object));
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::account::{Kind, account};

    fn cluster() -> NamespacedName {
        NamespacedName::new("fleet", "a")
    }

    fn desired(namespace: &str) -> Vec<AccountObject> {
        account(&cluster(), "u", namespace)
    }

    /// The objects of an account as they exist after their creation.
    fn existing(objects: &[AccountObject]) -> BTreeMap<ObjectId, Arc<ObservedObject>> {
        let observed = objects.iter().map(|object| {
            let uid = Some("u-0".to_owned());
            let observed = ObservedObject {
                uid,
                ..object.observed()
            };
            (object.id(), Arc::new(observed))
        });
        observed.collect()
    }

    fn names(writes: &[Write]) -> Vec<String> {
        let name = |write: &Write| match write {
            Write::Create(object) => format!("create {}", object.id()),
            Write::Apply(object) => format!("apply {}", object.id()),
            Write::Delete(id, uid) => format!("delete {id} {}", uid.as_deref().unwrap_or_default()),
        };
        writes.iter().map(name).collect()
    }

    fn change(
        observed: &mut BTreeMap<ObjectId, Arc<ObservedObject>>,
        kind: Kind,
        change: fn(&mut ObservedObject),
    ) {
        let (_, one) = observed.iter_mut().find(|(id, _)| id.kind == kind).unwrap();
        change(Arc::make_mut(one));
    }

    #[test]
    fn a_new_account_is_created_and_an_existing_one_is_left_alone() {
        let objects = desired("cluster-a");
        let writes = plan(&cluster(), objects.clone(), &BTreeMap::new());
        assert_eq!(writes.len(), 5);
        assert!(writes.iter().all(|write| matches!(write, Write::Create(_))));
        assert_eq!(plan(&cluster(), objects.clone(), &existing(&objects)), []);
    }

    #[test]
    fn changes_are_reverted_and_missing_objects_are_restored() {
        let objects = desired("cluster-a");
        let mut observed = existing(&objects);
        change(&mut observed, Kind::Role, |found| found.content += 1);
        observed.remove(&objects[0].id());
        let writes = plan(&cluster(), objects, &observed);
        assert_eq!(names(&writes)[0], "create ServiceAccount cluster-a/helmops-agent");
        assert!(
            names(&writes)[1].starts_with("apply Role fleet/helmops-agent-a-"),
            "{writes:?}"
        );
        assert_eq!(writes.len(), 2);
    }

    /// The API server rejects a change of the role of a RoleBinding.
    #[test]
    fn a_binding_to_another_role_is_replaced() {
        let objects = desired("cluster-a");
        let mut observed = existing(&objects);
        change(&mut observed, Kind::RoleBinding, |found| found.role += 1);
        let writes = names(&plan(&cluster(), objects, &observed));
        let expected = [
            "delete RoleBinding cluster-a/helmops-agent u-0",
            "create RoleBinding cluster-a/helmops-agent",
        ];
        assert_eq!(writes, expected);
    }

    /// The tokens of the agent of the other cluster must not be valid for the new owner of the namespace.
    #[test]
    fn the_account_of_another_cluster_is_replaced() {
        let objects = desired("cluster-a");
        let mut observed = existing(&objects);
        change(&mut observed, Kind::ServiceAccount, |found| {
            found.cluster = Some(NamespacedName::new("fleet", "b"));
        });
        let writes = names(&plan(&cluster(), objects, &observed));
        assert_eq!(
            writes,
            [
                "delete ServiceAccount cluster-a/helmops-agent u-0",
                "create ServiceAccount cluster-a/helmops-agent"
            ]
        );
    }

    #[test]
    fn the_account_in_an_earlier_namespace_is_deleted() {
        let mut observed = existing(&desired("cluster-old"));
        let writes = names(&plan(&cluster(), desired("cluster-new"), &observed));
        assert_eq!(
            writes[..2],
            [
                "delete RoleBinding cluster-old/helmops-agent u-0",
                "delete ServiceAccount cluster-old/helmops-agent u-0"
            ]
        );
        // The Role is beside the Cluster. Its RoleBinding and the ClusterRoleBinding have another subject now.
        assert_eq!(writes.len(), 6, "{writes:?}");
        change(&mut observed, Kind::ServiceAccount, |found| {
            found.cluster = Some(NamespacedName::new("fleet", "b"));
        });
        let writes = names(&plan(&cluster(), desired("cluster-new"), &observed));
        assert_eq!(writes[0], "delete RoleBinding cluster-old/helmops-agent u-0");
        assert!(
            !writes[1].starts_with("delete"),
            "the account of another cluster stays"
        );
    }

    #[test]
    fn nothing_remains_of_a_deleted_cluster() {
        let observed = existing(&desired("cluster-a"));
        let writes = plan(&cluster(), Vec::new(), &observed);
        assert_eq!(writes.len(), 5);
        assert!(
            writes
                .iter()
                .all(|write| matches!(write, Write::Delete(_, Some(_))))
        );
    }
}
