//! The last arguments that were read: they often come again at once.

use std::sync::Arc;

use super::defects::defect;
use crate::Error;
use crate::jobspec::Jobspec;
use crate::pools::SlotShape;

/// Arguments that were read last.
#[derive(Debug, Clone, Default)]
pub(super) struct Memo {
    /// The shape charged last: pods of one kind often come in a row, and then share it.
    charged: Option<Arc<SlotShape>>,
    /// The text of a jobspec that was read last, and its jobspec: a planner asks several questions
    /// about one in a row.
    read: Option<(Box<str>, Arc<Jobspec>)>,
}

impl Memo {
    /// The jobspec of a text.
    pub(super) fn spec(&mut self, text: &str) -> Result<Arc<Jobspec>, Error> {
        if let Some((_, spec)) = self.read.as_ref().filter(|(read, _)| **read == *text) {
            return Ok(Arc::clone(spec));
        }
        let spec = Arc::new(Jobspec::parse(text)?);
        defect("jobspec read");
        self.read = Some((text.into(), Arc::clone(&spec)));
        Ok(spec)
    }

    /// The shape, shared with the last one if they are equal.
    pub(super) fn shape(&mut self, shape: SlotShape) -> Arc<SlotShape> {
        match &self.charged {
            Some(last) if **last == shape => Arc::clone(last),
            _ => {
                let shape = Arc::new(shape);
                self.charged = Some(Arc::clone(&shape));
                shape
            }
        }
    }

    /// Forgets the jobspec that was read last.
    pub(super) fn forget_spec(&mut self) {
        self.read = None;
    }
}
