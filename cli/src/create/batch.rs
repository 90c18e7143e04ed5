//! The HelmOps of one command: those that are created, and those that are refused.

use std::collections::BTreeSet;

use super::{
    draft::Draft,
    note::{Gap, Loss, Note, Position},
    together,
};
use crate::failure::Failure;

/// The HelmOps of one command.
#[derive(Debug, Default)]
pub struct Batch {
    /// The kind of the objects that they are converted from.
    pub kind: &'static str,
    /// Those that are created.
    pub drafts: Vec<Draft>,
    /// For each object that is not converted, why.
    pub refused: Vec<Vec<Note>>,
    /// What the user has to know about the input as a whole.
    pub notes: Vec<Note>,
    /// What was left out of the input.
    pub left_out: LeftOut,
}

/// What a folder has beside objects that can be converted.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Documents that are no YAML, such as templates of other tools.
    pub not_yaml: Vec<Position>,
    /// The number of such objects that are incomplete, which are patches of kustomize.
    pub patches: usize,
    /// Those that are patches of none of the objects.
    pub unmatched: Vec<Position>,
    /// The number of other objects.
    pub others: usize,
}

impl Batch {
    /// A HelmOp alone.
    pub fn of(draft: Draft) -> Self {
        Self {
            drafts: vec![draft],
            ..Self::default()
        }
    }

    /// How many HelmOps there would be without refusals.
    pub fn len(&self) -> usize {
        self.drafts.len() + self.refused.len()
    }

    /// Sorts out what must not be created, alone or together with the others.
    pub fn settle(&mut self, accepted: &[Loss]) {
        self.drafts.iter_mut().for_each(Draft::settle);
        together::check_names(&mut self.drafts);
        let (mut kept, mut names, mut objects) = (Vec::new(), BTreeSet::new(), Vec::new());
        for mut draft in self.drafts.drain(..) {
            let mut refusals = draft.refusals(accepted);
            if refusals.is_empty() {
                refusals = together::share_objects(&mut draft, &mut objects);
            }
            if refusals.is_empty() {
                kept.push(draft);
            } else {
                names.insert(draft.name().to_owned());
                self.refused.push(refusals);
            }
        }
        together::check_dependencies(&mut kept, &names, self.kind);
        self.drafts = kept;
    }

    /// How the command ends if everything else has succeeded.
    ///
    /// # Errors
    /// If an object was refused.
    pub fn outcome(&self) -> Result<(), Failure> {
        let (refused, all, kind) = (self.refused.len(), self.len(), self.kind);
        if refused == 0 {
            return Ok(());
        }
        let mut gaps = self.refused.iter().flatten().map(|note| note.gap);
        let (message, hint) = if all > 1 {
            let message = format!("{refused} of {all} {kind}s are not converted");
            (
                message,
                "the lines that start with \"refused\" say why, and what to do",
            )
        } else if gaps.all(|gap| matches!(gap, Gap::Chart | Gap::Version | Gap::Unpublished)) {
            let hint = "set what is missing with flags, such as --repo, --chart and --version";
            (format!("the {kind} is not converted"), hint)
        } else {
            let hint = "do what the line that starts with \"refused\" says";
            (format!("the {kind} is not converted"), hint)
        };
        Err(Failure::negative(message).with_hint(hint))
    }
}
