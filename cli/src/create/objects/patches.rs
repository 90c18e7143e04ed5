//! Objects that are only a part of another one, as patches of kustomize are: nothing here merges them.

use std::{collections::BTreeMap, mem};

use super::{
    documents::Document,
    input::{Input, may_share_namespace},
};

/// How much of an object there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It says which chart it deploys.
    Whole,
    /// A field is missing without which the API server rejects it. So it is a patch, or a mistake.
    Partial,
    /// It says nothing about which chart it deploys: so it is a patch.
    Patch,
}

/// Sorts patches out of the objects of a folder.
///
/// A [`Extent::Partial`] one is a patch if a whole one of its name may be in its namespace: kustomize finds the object of a patch by its
/// name. Otherwise it is converted, and the field that it lacks is its error. In a file that was named, and in what kustomize prints, there
/// are no patches.
pub fn sort_out(input: &mut Input) {
    if !input.is_folder {
        return;
    }
    let (is_own, extent) = (input.conversion.is_own, input.conversion.extent);
    let mut whole: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for document in &input.documents {
        if is_own(document) && extent(document) == Extent::Whole {
            let text = |pointer| document.text(pointer).to_owned();
            let namespaces = whole.entry(text("/metadata/name")).or_default();
            namespaces.push(text("/metadata/namespace"));
        }
    }
    let has_whole = |document: &Document| {
        let namespaces = whole.get(document.text("/metadata/name")).into_iter().flatten();
        let own = document.text("/metadata/namespace");
        namespaces
            .into_iter()
            .any(|other| may_share_namespace(own, other))
    };
    let is_patch = |document: &Document| {
        is_own(document)
            && match extent(document) {
                Extent::Whole => false,
                Extent::Partial => has_whole(document),
                Extent::Patch => true,
            }
    };
    (input.patches, input.documents) = mem::take(&mut input.documents)
        .into_iter()
        .partition(|document| is_patch(document));
}
