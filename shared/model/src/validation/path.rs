//! Paths of fields in an object.

use std::fmt;

/// The path of a field, such as `spec.targets[2].clusterName`.
///
/// It is a chain of borrowed steps, so that no text is built for a valid object.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub const fn root(field: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Field(field),
        }
    }

    /// A field of the struct at this path.
    #[must_use]
    pub const fn field(&'a self, field: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Field(field),
        }
    }

    /// An item of the list at this path.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// The entry of the map at this path.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Key(key),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field(field) if self.parent.is_some() => write!(f, ".{field}"),
            Step::Field(field) => f.write_str(field),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_form_of_the_api_server() {
        let spec = Path::root("spec");
        let labels = spec.field("labels");
        assert_eq!(labels.key("a/b").to_string(), "spec.labels[a/b]");
        let targets = spec.field("targets");
        let target = targets.index(2);
        assert_eq!(
            target.field("clusterName").to_string(),
            "spec.targets[2].clusterName"
        );
    }
}
