//! Running a template.

mod call;

use std::ops::Range;

use serde_json::Value as Json;

use super::{
    error::TemplateError,
    format,
    heap::Heap,
    node::{Branch, Node, Pipe, Templates},
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
            Value::Int(_) | Value::Int64(_) if pipe.variables.len() > 1 => Err(self.error(
                &pipe.place,
                "can't iterate over a number with more than one variable",
            )),
            Value::Int(count) => Ok((0..*count)
                .map(|number| (Value::Nil, Value::Int(number)))
                .collect()),
            Value::Int64(count) => Ok((0..*count)
                .map(|number| (Value::Nil, Value::Int64(number)))
                .collect()),
            Value::Bool(_) | Value::Float(_) | Value::Str(_) | Value::Version(_) => {
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
            return Err(self.error(
                place,
                format!("templates call one another more than {MAX_CALLS} deep"),
            ));
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        self.list(&value, body)?;
        self.variables = variables;
        self.calls -= 1;
        Ok(())
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
