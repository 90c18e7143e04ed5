//! Executes pipelines and their commands.

use std::{ops::Range, rc::Rc};

use super::{
    super::{
        functions::{self, Function},
        node::{Operand, Pipe, Term},
        value::Value,
    },
    ExecResult, Executor,
};

impl Executor<'_> {
    pub(super) fn pipe(&mut self, dot: &Value, pipe: &Pipe) -> ExecResult<Value> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?);
        }
        let value = value.unwrap_or(Value::Nil);
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(&pipe.span, name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    pub(super) fn assign(&mut self, span: &Range<usize>, name: &str, value: Value) -> ExecResult<()> {
        self.look_up(span, name)?;
        let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
        match known {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => Err(self.error(span, format!("undefined variable: {name}"))),
        }
    }

    /// Charges for the search for a variable.
    fn look_up(&mut self, span: &Range<usize>, name: &str) -> ExecResult<()> {
        let compared = self.variables.len().saturating_add(name.len());
        self.at(span, |heap| heap.meter.charge_each(compared, 4))
    }

    /// Runs a command. `last` is the result of the previous command, and becomes its last argument.
    fn command(&mut self, dot: &Value, command: &[Operand], last: Option<Value>) -> ExecResult<Value> {
        let Some((first, others)) = command.split_first() else {
            return Ok(Value::Nil);
        };
        if let (Term::Function(name, function), true) = (&first.term, first.fields.is_empty()) {
            return self.call(dot, first, (name, function.as_ref()), others, last);
        }
        if !others.is_empty() || last.is_some() {
            return self.method(dot, first, others, last);
        }
        if matches!(first.term, Term::Nil) {
            return Err(self.error(&first.span, "nil is not a command"));
        }
        self.operand(dot, first)
    }

    /// Calls the method at the end of an operand.
    fn method(
        &mut self,
        dot: &Value,
        operand: &Operand,
        others: &[Operand],
        last: Option<Value>,
    ) -> ExecResult<Value> {
        let what = self.text.get(operand.span.clone()).unwrap_or_default();
        let Some((name, fields)) = operand.fields.split_last() else {
            let message = format!("can't give argument to non-function {what}");
            return Err(self.error(&operand.span, message));
        };
        let Value::Version(version) = self.walk(dot, operand, fields)? else {
            return Err(self.error(&operand.span, format!("{what} is not a method but has arguments")));
        };
        let args = self.arguments(dot, others, last)?;
        self.at(&operand.span, |heap| {
            functions::method(heap, &version, name, &args)
        })
    }

    fn operand(&mut self, dot: &Value, operand: &Operand) -> ExecResult<Value> {
        self.walk(dot, operand, &operand.fields)
    }

    /// The value of an operand's term, followed through its fields.
    fn walk(&mut self, dot: &Value, operand: &Operand, fields: &[String]) -> ExecResult<Value> {
        self.at(&operand.span, |heap| heap.charge_steps(1))?;
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Nil => Value::Nil,
            Term::Bool(value) => Value::Bool(*value),
            Term::Int(number) => Value::Int(*number),
            Term::Float(number) => Value::Float(*number),
            Term::Str(text) => Value::Str(Rc::clone(text)),
            Term::Variable(name) => {
                self.look_up(&operand.span, name)?;
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                match known {
                    Some((_, value)) => value.clone(),
                    None => return Err(self.error(&operand.span, format!("undefined variable: {name}"))),
                }
            }
            Term::Function(name, function) => {
                self.call(dot, operand, (name, function.as_ref()), &[], None)?
            }
            Term::Pipe(pipe) => {
                self.enter(&pipe.span)?;
                let value = self.pipe(dot, pipe)?;
                self.depth -= 1;
                value
            }
        };
        for field in fields {
            value = self.field(&operand.span, &value, field)?;
        }
        Ok(value)
    }

    fn field(&mut self, span: &Range<usize>, value: &Value, field: &str) -> ExecResult<Value> {
        self.at(span, |heap| {
            heap.charge_steps(1)?;
            heap.charge_read(field.len())
        })?;
        match value {
            Value::Map(map) => match self.heap.get(*map, field) {
                Some(value) => Ok(value.clone()),
                None => Err(self.error(span, format!("map has no entry for key {field:?}"))),
            },
            Value::Version(version) => {
                let version = Rc::clone(version);
                self.at(span, |heap| functions::method(heap, &version, field, &[]))
            }
            Value::Nil => Err(self.error(span, format!("nil data; no entry for key {field:?}"))),
            other => {
                let message = format!(
                    "can't evaluate field {field} in type {}",
                    self.heap.type_of(other)
                );
                Err(self.error(span, message))
            }
        }
    }

    fn call(
        &mut self,
        dot: &Value,
        operand: &Operand,
        (name, function): (&str, Option<&Function>),
        operands: &[Operand],
        last: Option<Value>,
    ) -> ExecResult<Value> {
        let count = operands.len() + usize::from(last.is_some());
        self.at(&operand.span, |heap| {
            heap.charge_steps(1)?;
            functions::check_count(name, function, count)
        })?;
        let Some(function) = function else {
            return self.logic(dot, name == "or", operands, last);
        };
        let args = self.arguments(dot, operands, last)?;
        self.at(&operand.span, |heap| functions::call(name, function, heap, args))
    }

    fn arguments(
        &mut self,
        dot: &Value,
        operands: &[Operand],
        last: Option<Value>,
    ) -> ExecResult<Vec<Value>> {
        let mut args = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            args.push(self.operand(dot, operand)?);
        }
        args.extend(last);
        Ok(args)
    }

    /// `and` and `or` evaluate only the arguments that they need.
    fn logic(
        &mut self,
        dot: &Value,
        is_or: bool,
        operands: &[Operand],
        last: Option<Value>,
    ) -> ExecResult<Value> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.operand(dot, operand)?;
            if self.heap.is_true(&value) == is_or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }
}
