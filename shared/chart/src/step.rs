//! One step for a chart: it is the same as before, or it is packed, or files have to be fetched first.

use crate::{
    Assembly, ChartError, ChartPath, Content, FileTree, PackedChart, Strategy, assemble, assemble_manifests,
    pack,
};

/// The most steps that a chart takes: its files, and those of the charts that it includes and that include others, each after its
/// `.helmignore`, and the last step when all are there.
pub const MAX_STEPS: usize = 11;

/// What is packed.
#[derive(Clone, Debug)]
pub struct PackRequest<Id> {
    /// The folder of the chart.
    pub path: ChartPath,
    /// What is packed, and which version it has.
    pub strategy: Strategy,
    /// What the chart consisted of before; `None` if it is packed in any case.
    pub known: Option<Content<Id>>,
    /// Maximum size of the archive, in bytes.
    pub limit: usize,
}

/// What a step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<Id> {
    /// The chart is the same as before.
    Same,
    /// The chart is another one.
    Packed(Box<PackedChart<Id>>),
    /// These files have to be fetched first. Then others may be needed.
    Missing(Vec<Id>),
}

impl<Id> PackRequest<Id> {
    /// Takes a step below a folder of all. `charge` takes the memory for reading files, and for an archive of so many bytes; a chart that is the
    /// same needs none of it.
    ///
    /// # Errors
    /// If there is no chart, something in it is refused, or there is no memory.
    pub fn step<T: FileTree<Id = Id>>(
        self,
        tree: &mut T,
        root: Id,
        mut charge: impl FnMut(usize) -> Result<(), T::Error>,
    ) -> Result<Step<Id>, ChartError<T::Error>>
    where
        Id: Copy + Eq,
    {
        if let Some(known) = &self.known
            && known.is_same_in(tree, root, &self.path)?
        {
            return Ok(Step::Same);
        }
        charge(0).map_err(ChartError::Tree)?;
        let assembled = match self.strategy {
            Strategy::Manifests => assemble_manifests(tree, root, &self.path),
            Strategy::Revision | Strategy::ChartVersion => assemble(tree, root, &self.path),
        };
        match assembled? {
            Assembly::Missing(missing) => Ok(Step::Missing(missing)),
            Assembly::Complete(files) => {
                charge(self.limit).map_err(ChartError::Tree)?;
                let packed = pack(tree, *files, self.strategy, self.limit)?;
                Ok(Step::Packed(Box::new(packed)))
            }
        }
    }
}
