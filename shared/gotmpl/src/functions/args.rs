//! The arguments of functions, and conversions to the types that they expect.

use std::rc::Rc;

use go_formats::number;

use super::super::{
    format,
    heap::Heap,
    value::{Elements, Value},
};

type Body = fn(&mut Call<'_>) -> Result<Value, String>;

/// A function and its number of arguments.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub min_args: usize,
    pub max_args: Option<usize>,
    pub run: Body,
}

/// A function with a fixed number of arguments.
pub const fn exactly(count: usize, run: Body) -> Function {
    Function {
        min_args: count,
        max_args: Some(count),
        run,
    }
}

/// A function with at least `min_args` arguments.
pub const fn at_least(min_args: usize, run: Body) -> Function {
    Function {
        min_args,
        max_args: None,
        run,
    }
}

/// The arguments of a function.
pub struct Call<'h> {
    pub heap: &'h mut Heap,
    pub args: Vec<Value>,
}

impl Call<'_> {
    /// An argument of any type.
    pub fn any(&self, index: usize) -> Value {
        self.args.get(index).cloned().unwrap_or(Value::Nil)
    }

    /// A `string`.
    pub fn text(&self, index: usize) -> Result<Rc<str>, String> {
        match self.args.get(index) {
            Some(Value::Str(text)) => Ok(Rc::clone(text)),
            other => Err(self.type_error(other, "string")),
        }
    }

    /// An `int`, the type of a number in a template.
    pub fn int(&self, index: usize) -> Result<i64, String> {
        match self.args.get(index) {
            Some(Value::Int(number)) => Ok(*number),
            other => Err(self.type_error(other, "int")),
        }
    }

    /// A number of elements or characters: an `int`; 0 for a negative one.
    pub fn count(&self, index: usize) -> Result<usize, String> {
        Ok(usize::try_from(self.int(index)?).unwrap_or_default())
    }

    /// A `bool`.
    pub fn flag(&self, index: usize) -> Result<bool, String> {
        match self.args.get(index) {
            Some(Value::Bool(value)) => Ok(*value),
            other => Err(self.type_error(other, "bool")),
        }
    }

    /// A `map[string]interface{}`: its index in the heap. `nil` is an empty one.
    pub fn map(&mut self, index: usize) -> Result<usize, String> {
        match self.args.get(index) {
            Some(Value::Map(map)) if self.heap.map_elements(*map) == Elements::Any => Ok(*map),
            Some(Value::Nil) => self.heap.empty_map(),
            other => Err(self.type_error(other, Elements::Any.map_type())),
        }
    }

    /// The elements of a list of any type.
    pub fn list(&self, index: usize, verb: &str) -> Result<Vec<Value>, String> {
        match self.args.get(index) {
            Some(Value::List(list)) => self.heap.items_of(*list),
            Some(other) => Err(format!("Cannot {verb} type {}", other.kind())),
            None => Err(format!("Cannot {verb} nothing")),
        }
    }

    /// An argument as `toString` prints it.
    pub fn display(&mut self, index: usize) -> Result<String, String> {
        let value = self.any(index);
        format::display(self.heap, &value)
    }

    /// The arguments from index `start`.
    pub fn rest(&self, start: usize) -> Vec<Value> {
        self.args.get(start..).unwrap_or_default().to_vec()
    }

    fn type_error(&self, value: Option<&Value>, expected: &str) -> String {
        match value {
            None | Some(Value::Nil) => format!("invalid value; expected {expected}"),
            Some(other) => {
                let got = self.heap.type_of(other);
                format!("wrong type for value; expected {expected}; got {got}")
            }
        }
    }
}

/// Whether `default`, `empty` and similar functions treat a value as missing.
pub fn is_empty(heap: &Heap, value: &Value) -> bool {
    !heap.is_true(value)
}

/// Converts any value to an `int64`; 0 if it is not a number.
pub fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number,
        Value::Bool(value) => i64::from(*value),
        // Out of range, the result is the smallest number, as Go gives on amd64.
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        Value::Float(number) if (-9.3e18..9.2e18).contains(number) => *number as i64,
        Value::Float(_) => i64::MIN,
        Value::Str(text) => number::parse_int(without_zero_decimals(text)).unwrap_or_default(),
        Value::Nil | Value::Version(_) | Value::List(_) | Value::Map(_) => 0,
    }
}

/// Converts any value to a `float64`; 0 if it is not a number.
pub fn to_float(value: &Value) -> f64 {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "so does Go")]
        Value::Int(number) | Value::Int64(number) => *number as f64,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Float(number) => *number,
        Value::Str(text) => number::parse_float(text).unwrap_or_default(),
        Value::Nil | Value::Version(_) | Value::List(_) | Value::Map(_) => 0.0,
    }
}

/// `1.00` is 1.
fn without_zero_decimals(text: &str) -> &str {
    match text.trim_end_matches('0').strip_suffix('.') {
        Some(whole) if text.ends_with('0') => whole,
        _ => text,
    }
}
