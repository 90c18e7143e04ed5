//! Running a template.

mod call;

use std::ops::Range;

use super::{
    budget::{BYTE, MAX_TEXT, Meter, STEP},
    error::{TemplateError, line},
    format,
    heap::{Context, Heap},
    node::{Branch, Node, Pipe, Templates},
    value::Value,
};

/// How deep templates call one another.
const MAX_CALLS: usize = 20;

/// How deep blocks and parentheses nest, those of the templates around included: what fits into the stack of a thread.
/// The parser limits them within one template.
const MAX_DEPTH: usize = 150;

/// Runs the main template of a text.
pub fn run(
    text: &str,
    templates: &Templates,
    context: &Context,
    meter: Meter,
) -> Result<Rendered, TemplateError> {
    let whole = |message| TemplateError::new(text, 0..0, message);
    let heap = Heap::with(context, meter).map_err(whole)?;
    let root = context.root().clone();
    let mut run = Run {
        text,
        templates,
        heap,
        variables: vec![("$".to_owned(), root.clone())],
        calls: 0,
        depth: 0,
        out: String::new(),
        writes: Vec::new(),
    };
    match run.list(&root, &templates.main)? {
        Flow::On | Flow::Break | Flow::Continue => Ok(Rendered {
            text: run.out,
            writes: run.writes,
        }),
    }
}

/// A text as it is.
pub fn plain(text: &str, meter: &Meter) -> Result<Rendered, String> {
    meter.text_room(text.len())?;
    meter.each(text.len(), BYTE)?;
    Ok(Rendered {
        text: text.to_owned(),
        writes: vec![Write {
            end: text.len(),
            offset: 0,
            is_action: false,
        }],
    })
}

/// What a template renders to, and which of its pieces wrote what.
#[derive(Debug)]
pub struct Rendered {
    /// The text.
    pub text: String,
    writes: Vec<Write>,
}

/// The end of what a piece of a template wrote, and where that piece is.
#[derive(Debug)]
struct Write {
    end: usize,
    offset: usize,
    is_action: bool,
}

impl Rendered {
    /// Which byte of the template wrote a line, counted from 1: that of its first action, or of the text where it has none.
    pub fn source_of(&self, line: usize) -> Option<usize> {
        let mut lines = self.text.split_inclusive('\n');
        let start: usize = lines.by_ref().take(line.checked_sub(1)?).map(str::len).sum();
        let end = start + lines.next().map_or(0, str::len);
        let first = self.writes.partition_point(|write| write.end <= start);
        let mut on_line = Vec::new();
        for write in self.writes.iter().skip(first) {
            on_line.push(write);
            if write.end >= end {
                break;
            }
        }
        let action = on_line.iter().find(|write| write.is_action);
        action.or(on_line.first()).map(|write| write.offset)
    }
}

/// The line of a template that a byte of it is on, as its author wrote it.
pub fn line_at(template: &str, offset: usize) -> String {
    let (before, behind) = template.split_at_checked(offset).unwrap_or((template, ""));
    let before = before.rsplit('\n').next().unwrap_or_default();
    let behind = behind.split('\n').next().unwrap_or_default();
    line(&format!("{before}{behind}"))
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
    depth: usize,
    out: String,
    writes: Vec<Write>,
}

type Ran<T> = Result<T, TemplateError>;

/// What `range` goes through. A list never changes, a map may.
enum Steps {
    List(usize),
    Map(Vec<(String, Value)>),
    Numbers(i64, fn(i64) -> Value),
}

impl Steps {
    fn len(&self, heap: &Heap) -> usize {
        match self {
            Self::List(list) => heap.items(*list).len(),
            Self::Map(entries) => entries.len(),
            Self::Numbers(count, _) => usize::try_from(*count).unwrap_or_default(),
        }
    }

    /// Index and element.
    fn get(&self, heap: &Heap, place: usize) -> (Value, Value) {
        let number = i64::try_from(place).unwrap_or(i64::MAX);
        match self {
            Self::List(list) => {
                let element = heap.items(*list).get(place).cloned().unwrap_or(Value::Nil);
                (Value::Int(number), element)
            }
            Self::Map(entries) => match entries.get(place) {
                Some((key, value)) => (Value::str(key), value.clone()),
                None => (Value::Nil, Value::Nil),
            },
            Self::Numbers(_, make) => (Value::Nil, make(number)),
        }
    }
}

impl Run<'_> {
    fn list(&mut self, dot: &Value, nodes: &[Node]) -> Ran<Flow> {
        self.deeper(&(0..0))?;
        let mut flow = Flow::On;
        for node in nodes {
            flow = self.node(dot, node)?;
            if flow != Flow::On {
                break;
            }
        }
        self.depth -= 1;
        Ok(flow)
    }

    /// Enters a block or parentheses. An error ends the rendering, so that nobody leaves them then.
    fn deeper(&mut self, place: &Range<usize>) -> Ran<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("templates and the blocks within them nest more than {MAX_DEPTH} deep");
            return Err(self.error(place, message));
        }
        Ok(())
    }

    fn node(&mut self, dot: &Value, node: &Node) -> Ran<Flow> {
        match node {
            Node::Text(place) => {
                let text = self.text;
                self.write(place, text.get(place.clone()).unwrap_or_default(), false)?;
            }
            Node::Action(pipe) => {
                let value = self.pipe(dot, pipe)?;
                if let (Value::Str(text), true) = (&value, pipe.variables.is_empty()) {
                    self.write(&pipe.place, text, true)?;
                } else if pipe.variables.is_empty() {
                    let text = self.at(&pipe.place, |heap| format::print(heap, &value))?;
                    self.write(&pipe.place, &text, true)?;
                }
            }
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { place, name, pipe } => self.template(dot, place, name, pipe.as_ref())?,
            Node::Break => {
                self.at(&(0..0), |heap| heap.spend(1))?;
                return Ok(Flow::Break);
            }
            Node::Continue => {
                self.at(&(0..0), |heap| heap.spend(1))?;
                return Ok(Flow::Continue);
            }
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
        let count = steps.len(&self.heap);
        let mut flow = Flow::On;
        if count == 0 {
            flow = self.list(dot, branch.otherwise.as_deref().unwrap_or_default())?;
        }
        let body = self.variables.len();
        for place in 0..count {
            self.at(&branch.pipe.place, |heap| heap.spend(1))?;
            let (index, element) = steps.get(&self.heap, place);
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

    /// What `range` goes through.
    fn steps(&mut self, pipe: &Pipe, value: &Value) -> Ran<Steps> {
        match value {
            Value::List(list) => Ok(Steps::List(*list)),
            Value::Map(map) => Ok(Steps::Map(self.at(&pipe.place, |heap| heap.entries_of(*map))?)),
            Value::Nil => Ok(Steps::Numbers(0, Value::Int)),
            Value::Int(_) | Value::Int64(_) if pipe.variables.len() > 1 => Err(self.error(
                &pipe.place,
                "can't iterate over a number with more than one variable",
            )),
            Value::Int(count) => Ok(Steps::Numbers(*count, Value::Int)),
            Value::Int64(count) => Ok(Steps::Numbers(*count, Value::Int64)),
            Value::Bool(_) | Value::Float(_) | Value::Str(_) | Value::Version(_) => {
                let type_name = self.heap.type_of(value);
                Err(self.error(&pipe.place, format!("range can't iterate over a {type_name}")))
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
        self.at(place, |heap| {
            heap.spend(1)?;
            heap.read(name.len())
        })?;
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

    fn write(&mut self, place: &Range<usize>, text: &str, is_action: bool) -> Ran<()> {
        let length = self.out.len() + text.len();
        self.at(place, |heap| {
            if length > MAX_TEXT {
                return heap.meter.text_room(length);
            }
            heap.meter.each(text.len(), BYTE)?;
            heap.meter.work(STEP)?;
            heap.meter.make(size_of::<Write>())
        })?;
        self.out.push_str(text);
        self.writes.push(Write {
            end: length,
            offset: place.start,
            is_action,
        });
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
