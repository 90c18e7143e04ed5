//! Executes a parsed template.

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

/// How deep templates may call each other.
const MAX_CALLS: usize = 20;

/// How deep blocks and parentheses may nest, including those of the calling templates: what fits into the stack of a thread.
/// The parser limits them within one template.
const MAX_DEPTH: usize = 150;

/// Executes the main template of a text.
pub fn run(
    text: &str,
    templates: &Templates,
    context: &Context,
    meter: Meter,
) -> Result<Rendered, TemplateError> {
    let whole = |message| TemplateError::new(text, 0..0, message);
    let heap = Heap::with(context, meter).map_err(whole)?;
    let root = context.root().clone();
    let mut executor = Executor {
        text,
        templates,
        heap,
        variables: vec![("$".to_owned(), root.clone())],
        calls: 0,
        depth: 0,
        out: String::new(),
        segments: Vec::new(),
    };
    match executor.list(&root, &templates.main)? {
        Flow::Normal | Flow::Break | Flow::Continue => Ok(Rendered {
            text: executor.out,
            segments: executor.segments,
        }),
    }
}

/// The output of a template, and which piece of the template wrote which part.
#[derive(Debug)]
pub struct Rendered {
    /// The output.
    pub text: String,
    segments: Vec<Segment>,
}

/// The end of a part of the output, and the offset of the piece of the template that wrote it.
#[derive(Debug)]
struct Segment {
    end: usize,
    offset: usize,
    is_action: bool,
}

impl Rendered {
    /// The offset in the template of what wrote a line of the output (counted from 1): of the line's first action, or of its
    /// first text if it has no action. `None` if the output has no such line.
    ///
    /// ```
    /// use gotmpl::{Budget, Context, Delimiters, Template, line_at};
    ///
    /// let (text, budget) = ("{{ range 3 }}- {{ . }}\n{{ end }}b: {{ print \": \" }}", Budget::default());
    /// let rendered = Template::parse(text, Delimiters::GO, &budget).unwrap();
    /// let rendered = rendered.render(&Context::default(), &budget).unwrap();
    /// assert_eq!(rendered.text, "- 0\n- 1\n- 2\nb: : ");
    /// // A program that reads the output complains about line 4.
    /// let offset = rendered.source_of(4).unwrap();
    /// assert_eq!(&text[offset..][..5], "print");
    /// assert_eq!(line_at(text, offset), "{{ end }}b: {{ print \": \" }}");
    /// ```
    pub fn source_of(&self, line: usize) -> Option<usize> {
        let mut lines = self.text.split_inclusive('\n');
        let start: usize = lines.by_ref().take(line.checked_sub(1)?).map(str::len).sum();
        let end = start + lines.next().map_or(0, str::len);
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let mut on_line = Vec::new();
        for segment in self.segments.iter().skip(first) {
            on_line.push(segment);
            if segment.end >= end {
                break;
            }
        }
        let action = on_line.iter().find(|segment| segment.is_action);
        action.or(on_line.first()).map(|segment| segment.offset)
    }
}

/// The line of a template at an offset, with white space collapsed and cut to 80 bytes: for messages.
pub fn line_at(template: &str, offset: usize) -> String {
    let (before, after) = template.split_at_checked(offset).unwrap_or((template, ""));
    let before = before.rsplit('\n').next().unwrap_or_default();
    let after = after.split('\n').next().unwrap_or_default();
    line(&format!("{before}{after}"))
}

/// How execution continues after a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Normal,
    Break,
    Continue,
}

struct Executor<'t> {
    text: &'t str,
    templates: &'t Templates,
    heap: Heap,
    variables: Vec<(String, Value)>,
    calls: usize,
    depth: usize,
    out: String,
    segments: Vec<Segment>,
}

type ExecResult<T> = Result<T, TemplateError>;

/// What `range` iterates over. A list never changes; a map can, so its entries are copied.
enum Iteration {
    List(usize),
    Map(Vec<(String, Value)>),
    Numbers(i64, fn(i64) -> Value),
}

impl Iteration {
    fn len(&self, heap: &Heap) -> usize {
        match self {
            Self::List(list) => heap.items(*list).len(),
            Self::Map(entries) => entries.len(),
            Self::Numbers(count, _) => usize::try_from(*count).unwrap_or_default(),
        }
    }

    /// The index or key, and the element.
    fn get(&self, heap: &Heap, index: usize) -> (Value, Value) {
        let number = i64::try_from(index).unwrap_or(i64::MAX);
        match self {
            Self::List(list) => {
                let element = heap.items(*list).get(index).cloned().unwrap_or(Value::Nil);
                (Value::Int(number), element)
            }
            Self::Map(entries) => match entries.get(index) {
                Some((key, value)) => (Value::str(key), value.clone()),
                None => (Value::Nil, Value::Nil),
            },
            Self::Numbers(_, make) => (Value::Nil, make(number)),
        }
    }
}

impl Executor<'_> {
    fn list(&mut self, dot: &Value, nodes: &[Node]) -> ExecResult<Flow> {
        self.enter(&(0..0))?;
        let mut flow = Flow::Normal;
        for node in nodes {
            flow = self.node(dot, node)?;
            if flow != Flow::Normal {
                break;
            }
        }
        self.depth -= 1;
        Ok(flow)
    }

    /// Enters a block or parentheses. An error ends the rendering, so no caller leaves them after an error.
    fn enter(&mut self, span: &Range<usize>) -> ExecResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("templates and the blocks within them nest more than {MAX_DEPTH} deep");
            return Err(self.error(span, message));
        }
        Ok(())
    }

    fn node(&mut self, dot: &Value, node: &Node) -> ExecResult<Flow> {
        match node {
            Node::Text(span) => {
                let text = self.text;
                self.write(span, text.get(span.clone()).unwrap_or_default(), false)?;
            }
            Node::Action(pipe) => {
                let value = self.pipe(dot, pipe)?;
                if let (Value::Str(text), true) = (&value, pipe.variables.is_empty()) {
                    self.write(&pipe.span, text, true)?;
                } else if pipe.variables.is_empty() {
                    let text = self.at(&pipe.span, |heap| format::print(heap, &value))?;
                    self.write(&pipe.span, &text, true)?;
                }
            }
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { span, name, pipe } => self.template(dot, span, name, pipe.as_ref())?,
            Node::Break => {
                self.at(&(0..0), |heap| heap.charge_steps(1))?;
                return Ok(Flow::Break);
            }
            Node::Continue => {
                self.at(&(0..0), |heap| heap.charge_steps(1))?;
                return Ok(Flow::Continue);
            }
        }
        Ok(Flow::Normal)
    }

    fn branch(&mut self, dot: &Value, branch: &Branch, is_with: bool) -> ExecResult<Flow> {
        let outer_variables = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let flow = if self.heap.is_true(&value) {
            self.list(if is_with { &value } else { dot }, &branch.body)?
        } else {
            self.list(dot, branch.else_body.as_deref().unwrap_or_default())?
        };
        self.variables.truncate(outer_variables);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> ExecResult<Flow> {
        let outer_variables = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let iteration = self.iteration(&branch.pipe, &value)?;
        let count = iteration.len(&self.heap);
        let mut flow = Flow::Normal;
        if count == 0 {
            flow = self.list(dot, branch.else_body.as_deref().unwrap_or_default())?;
        }
        let body = self.variables.len();
        for index in 0..count {
            self.at(&branch.pipe.span, |heap| heap.charge_steps(1))?;
            let (key, element) = iteration.get(&self.heap, index);
            self.declare(&branch.pipe, outer_variables, key, &element)?;
            let item_flow = self.list(&element, &branch.body)?;
            self.variables.truncate(body);
            if item_flow == Flow::Break {
                break;
            }
        }
        self.variables.truncate(outer_variables);
        Ok(flow)
    }

    /// What `range` iterates over.
    fn iteration(&mut self, pipe: &Pipe, value: &Value) -> ExecResult<Iteration> {
        match value {
            Value::List(list) => Ok(Iteration::List(*list)),
            Value::Map(map) => Ok(Iteration::Map(self.at(&pipe.span, |heap| heap.entries_of(*map))?)),
            Value::Nil => Ok(Iteration::Numbers(0, Value::Int)),
            Value::Int(_) | Value::Int64(_) if pipe.variables.len() > 1 => Err(self.error(
                &pipe.span,
                "can't iterate over a number with more than one variable",
            )),
            Value::Int(count) => Ok(Iteration::Numbers(*count, Value::Int)),
            Value::Int64(count) => Ok(Iteration::Numbers(*count, Value::Int64)),
            Value::Bool(_) | Value::Float(_) | Value::Str(_) | Value::Version(_) => {
                let type_name = self.heap.type_of(value);
                Err(self.error(&pipe.span, format!("range can't iterate over a {type_name}")))
            }
        }
    }

    /// Sets the variables of a `range` for an iteration. `first` is the index of the first of them.
    fn declare(&mut self, pipe: &Pipe, first: usize, key: Value, element: &Value) -> ExecResult<()> {
        let values = match pipe.variables.len() {
            0 => return Ok(()),
            1 => vec![element.clone()],
            _ => vec![key, element.clone()],
        };
        for (offset, (name, value)) in pipe.variables.iter().zip(values).enumerate() {
            if pipe.assigns {
                self.assign(&pipe.span, name, value)?;
            } else if let Some((_, variable)) = self.variables.get_mut(first + offset) {
                *variable = value;
            }
        }
        Ok(())
    }

    fn template(
        &mut self,
        dot: &Value,
        span: &Range<usize>,
        name: &str,
        pipe: Option<&Pipe>,
    ) -> ExecResult<()> {
        let value = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Nil,
        };
        self.at(span, |heap| {
            heap.charge_steps(1)?;
            heap.charge_read(name.len())
        })?;
        let Some(body) = self.templates.named.get(name) else {
            return Err(self.error(span, format!("template {name:?} not defined")));
        };
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(self.error(
                span,
                format!("templates call one another more than {MAX_CALLS} deep"),
            ));
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        self.list(&value, body)?;
        self.variables = variables;
        self.calls -= 1;
        Ok(())
    }

    fn write(&mut self, span: &Range<usize>, text: &str, is_action: bool) -> ExecResult<()> {
        let length = self.out.len() + text.len();
        self.at(span, |heap| {
            if length > MAX_TEXT {
                return heap.meter.check_text(length);
            }
            heap.meter.charge_each(text.len(), BYTE)?;
            heap.meter.charge(STEP)?;
            heap.meter.allocate(size_of::<Segment>())
        })?;
        self.out.push_str(text);
        self.segments.push(Segment {
            end: length,
            offset: span.start,
            is_action,
        });
        Ok(())
    }

    /// Runs `what`, and adds the position in the template to its error.
    fn at<T>(
        &mut self,
        span: &Range<usize>,
        what: impl FnOnce(&mut Heap) -> Result<T, String>,
    ) -> ExecResult<T> {
        what(&mut self.heap).map_err(|message| self.error(span, message))
    }

    fn error(&self, span: &Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, span.clone(), message)
    }
}
