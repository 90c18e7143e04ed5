//! Running a template.

use std::ops::Range;

use serde_json::Value as Json;

use super::{
    error::TemplateError,
    format, functions,
    heap::Heap,
    node::{Branch, Node, Operand, Pipe, Templates, Term},
    value::Value,
};

/// How deep templates call one another.
const MAX_CALLS: usize = 20;

/// Runs the main template of a text.
pub fn run(text: &str, templates: &Templates, context: &Json) -> Result<String, TemplateError> {
    let mut heap = Heap::default();
    let whole = |message| TemplateError::new(text, 0..0, message);
    let root = heap.import(context).map_err(whole)?;
    let mut run = Run {
        text,
        templates,
        heap,
        variables: vec![("$".to_owned(), root.clone())],
        calls: 0,
        out: String::with_capacity(text.len()),
    };
    match run.list(&root, &templates.main)? {
        Flow::On | Flow::Break | Flow::Continue => Ok(run.out),
    }
}

/// What comes after a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Run<'t> {
    text: &'t str,
    templates: &'t Templates,
    heap: Heap,
    variables: Vec<(String, Value)>,
    calls: usize,
    out: String,
}

type Ran<T> = Result<T, TemplateError>;

impl Run<'_> {
    fn list(&mut self, dot: &Value, nodes: &[Node]) -> Ran<Flow> {
        for node in nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, dot: &Value, node: &Node) -> Ran<Flow> {
        match node {
            Node::Text(place) => {
                let text = self.text.get(place.clone()).unwrap_or_default();
                self.write(place, text)?;
            }
            Node::Action(pipe) => {
                let value = self.pipe(dot, pipe)?;
                if pipe.variables.is_empty() {
                    let text = self.at(&pipe.place, |heap| format::print(heap, &value))?;
                    self.write(&pipe.place, &text)?;
                }
            }
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { place, name, pipe } => self.template(dot, place, name, pipe.as_ref())?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn branch(&mut self, dot: &Value, branch: &Branch, is_with: bool) -> Ran<Flow> {
        let seen = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let flow = if self.heap.is_true(&value) {
            self.list(if is_with { &value } else { dot }, &branch.then)?
        } else {
            self.list(dot, branch.otherwise.as_deref().unwrap_or_default())?
        };
        self.variables.truncate(seen);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Ran<Flow> {
        let seen = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let steps = self.steps(&branch.pipe, &value)?;
        let mut flow = Flow::On;
        if steps.is_empty() {
            flow = self.list(dot, branch.otherwise.as_deref().unwrap_or_default())?;
        }
        let body = self.variables.len();
        for (index, element) in steps {
            self.declare(&branch.pipe, seen, index, &element)?;
            let step = self.list(&element, &branch.then)?;
            self.variables.truncate(body);
            if step == Flow::Break {
                break;
            }
        }
        self.variables.truncate(seen);
        Ok(flow)
    }

    /// What `range` goes through: index and element.
    fn steps(&mut self, pipe: &Pipe, value: &Value) -> Ran<Vec<(Value, Value)>> {
        let count = match value {
            Value::List(list) => self.heap.items(*list).len(),
            Value::Map(map) => self.heap.len(*map),
            other => usize::try_from(other.integer().unwrap_or_default()).unwrap_or_default(),
        };
        self.at(&pipe.place, |heap| heap.spend(count))?;
        match value {
            Value::List(list) => {
                let items = self.heap.items(*list).iter().cloned();
                Ok((0..).map(Value::Int).zip(items).collect())
            }
            Value::Map(map) => {
                let entries = self.heap.entries(*map);
                Ok(entries
                    .map(|(key, value)| (Value::str(key), value.clone()))
                    .collect())
            }
            Value::Nil => Ok(Vec::new()),
            Value::Int(_) | Value::Int64(_) if pipe.variables.len() > 1 => {
                Err(self.error(&pipe.place, "can't iterate over a number with more than one variable"))
            }
            Value::Int(count) => Ok((0..*count).map(|number| (Value::Nil, Value::Int(number))).collect()),
            Value::Int64(count) => Ok((0..*count)
                .map(|number| (Value::Nil, Value::Int64(number)))
                .collect()),
            Value::Bool(_) | Value::Float(_) | Value::Str(_) => {
                let shown = self.at(&pipe.place, |heap| format::display(heap, value))?;
                Err(self.error(&pipe.place, format!("range can't iterate over {shown}")))
            }
        }
    }

    /// Gives the variables of a `range` their values for a step. `first` is the place of the first of them.
    fn declare(&mut self, pipe: &Pipe, first: usize, index: Value, element: &Value) -> Ran<()> {
        let values = match pipe.variables.len() {
            0 => return Ok(()),
            1 => vec![element.clone()],
            _ => vec![index, element.clone()],
        };
        for (offset, (name, value)) in pipe.variables.iter().zip(values).enumerate() {
            if pipe.assigns {
                self.assign(&pipe.place, name, value)?;
            } else if let Some((_, variable)) = self.variables.get_mut(first + offset) {
                *variable = value;
            }
        }
        Ok(())
    }

    fn template(&mut self, dot: &Value, place: &Range<usize>, name: &str, pipe: Option<&Pipe>) -> Ran<()> {
        let value = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Nil,
        };
        let Some(body) = self.templates.named.get(name) else {
            return Err(self.error(place, format!("template {name:?} not defined")));
        };
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(self.error(place, format!("templates call one another more than {MAX_CALLS} deep")));
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        self.list(&value, body)?;
        self.variables = variables;
        self.calls -= 1;
        Ok(())
    }

    fn pipe(&mut self, dot: &Value, pipe: &Pipe) -> Ran<Value> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?);
        }
        let value = value.unwrap_or(Value::Nil);
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(&pipe.place, name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn assign(&mut self, place: &Range<usize>, name: &str, value: Value) -> Ran<()> {
        let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
        match known {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => Err(self.error(place, format!("undefined variable: {name}"))),
        }
    }

    /// Runs a command; `last` is what the command before it gave, its last argument.
    fn command(&mut self, dot: &Value, command: &[Operand], last: Option<Value>) -> Ran<Value> {
        let Some((first, others)) = command.split_first() else {
            return Ok(Value::Nil);
        };
        if let (Term::Function(name), true) = (&first.term, first.fields.is_empty()) {
            return self.call(dot, first, name, others, last);
        }
        if !others.is_empty() || last.is_some() {
            let what = self.text.get(first.place.clone()).unwrap_or_default();
            let message = if first.fields.is_empty() {
                format!("can't give argument to non-function {what}")
            } else {
                format!("{what} is not a method but has arguments")
            };
            return Err(self.error(&first.place, message));
        }
        if matches!(first.term, Term::Nil) {
            return Err(self.error(&first.place, "nil is not a command"));
        }
        self.operand(dot, first)
    }

    fn operand(&mut self, dot: &Value, operand: &Operand) -> Ran<Value> {
        self.at(&operand.place, |heap| heap.spend(1))?;
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Nil => Value::Nil,
            Term::Bool(value) => Value::Bool(*value),
            Term::Int(number) => Value::Int(*number),
            Term::Float(number) => Value::Float(*number),
            Term::Str(text) => Value::Str(text.clone()),
            Term::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                match known {
                    Some((_, value)) => value.clone(),
                    None => return Err(self.error(&operand.place, format!("undefined variable: {name}"))),
                }
            }
            Term::Function(name) => self.call(dot, operand, name, &[], None)?,
            Term::Pipe(pipe) => self.pipe(dot, pipe)?,
        };
        for field in &operand.fields {
            value = self.field(&operand.place, &value, field)?;
        }
        Ok(value)
    }

    fn field(&self, place: &Range<usize>, value: &Value, field: &str) -> Ran<Value> {
        match value {
            Value::Map(map) => match self.heap.get(*map, field) {
                Some(value) => Ok(value.clone()),
                None => Err(self.error(place, format!("map has no entry for key {field:?}"))),
            },
            Value::Nil => Err(self.error(place, format!("nil data; no entry for key {field:?}"))),
            other => {
                let message = format!("can't evaluate field {field} in type {}", self.heap.type_of(other));
                Err(self.error(place, message))
            }
        }
    }

    fn call(
        &mut self,
        dot: &Value,
        function: &Operand,
        name: &str,
        operands: &[Operand],
        last: Option<Value>,
    ) -> Ran<Value> {
        let count = operands.len() + usize::from(last.is_some());
        self.at(&function.place, |heap| {
            heap.spend(1)?;
            functions::check_count(name, count)
        })?;
        if matches!(name, "and" | "or") {
            return self.logic(dot, name == "or", operands, last);
        }
        let mut args = Vec::with_capacity(count);
        for operand in operands {
            args.push(self.operand(dot, operand)?);
        }
        args.extend(last);
        self.at(&function.place, |heap| functions::call(name, heap, args))
    }

    /// `and` and `or` look at no more arguments than they need.
    fn logic(&mut self, dot: &Value, is_or: bool, operands: &[Operand], last: Option<Value>) -> Ran<Value> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.operand(dot, operand)?;
            if self.heap.is_true(&value) == is_or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn write(&mut self, place: &Range<usize>, text: &str) -> Ran<()> {
        let length = self.out.len() + text.len();
        self.at(place, |heap| {
            heap.spend(1)?;
            if length > super::heap::MAX_TEXT {
                return heap.spend_text(length);
            }
            Ok(())
        })?;
        self.out.push_str(text);
        Ok(())
    }

    /// Does something that can fail at a place of the text.
    fn at<T>(&mut self, place: &Range<usize>, what: impl FnOnce(&mut Heap) -> Result<T, String>) -> Ran<T> {
        what(&mut self.heap).map_err(|message| self.error(place, message))
    }

    fn error(&self, place: &Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, place.clone(), message)
    }
}
