//! The values that templates work with, and their types in Go.

use std::rc::Rc;

use masterminds_semver::Version;

/// A value. Lists and maps are in the [`Heap`](super::heap::Heap); copies of a value refer to the same list or map.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Go's `nil`, or no value at all.
    #[default]
    Nil,
    /// `bool`
    Bool(bool),
    /// `int`, the type of numbers in a template.
    Int(i64),
    /// `int64`, the type of the results of arithmetic.
    Int64(i64),
    /// `float64`, the type of every number in JSON.
    Float(f64),
    /// `string`
    Str(Rc<str>),
    /// `*semver.Version`, the result of the function `semver`.
    Version(Rc<Version>),
    /// A slice: its index in the heap.
    List(usize),
    /// A map: its index in the heap.
    Map(usize),
}

/// The type of the elements of a list or map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elements {
    /// `interface {}`
    #[default]
    Any,
    /// `string`
    Strings,
    /// `int`
    Ints,
    /// `[]interface {}`
    Lists,
}

impl Elements {
    pub const fn list_type(self) -> &'static str {
        match self {
            Self::Any => "[]interface {}",
            Self::Strings => "[]string",
            Self::Ints => "[]int",
            Self::Lists => "[][]interface {}",
        }
    }

    pub const fn map_type(self) -> &'static str {
        match self {
            Self::Strings => "map[string]string",
            Self::Any | Self::Ints | Self::Lists => "map[string]interface {}",
        }
    }
}

impl Value {
    pub fn str(text: &str) -> Self {
        Self::Str(text.into())
    }

    /// The number, if it is an integer of any type.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) | Self::Int64(number) => Some(*number),
            Self::Nil
            | Self::Bool(_)
            | Self::Float(_)
            | Self::Str(_)
            | Self::Version(_)
            | Self::List(_)
            | Self::Map(_) => None,
        }
    }

    /// Go's name for the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::Version(_) => "ptr",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
