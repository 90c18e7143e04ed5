//! Pipelines, commands and the words in them.

use std::ops::Range;

use super::{
    super::{
        check::UnsupportedFunction,
        error::TemplateError,
        functions::{self, ResolveError},
        lex::{Kind, Token},
        literal,
        node::{Operand, Pipe, Term},
        number,
    },
    Parsed, Parser,
};

impl Parser<'_> {
    /// The name of a template.
    pub(super) fn name(&mut self, context: &str) -> Parsed<(String, Range<usize>)> {
        self.space();
        let token = self.next();
        if token.kind != Kind::Quoted {
            return Err(self.unexpected(&token, context));
        }
        let name = literal::unquote(self.text_of(&token)).map_err(|e| self.error(token.place.clone(), e))?;
        Ok((name, token.place))
    }

    pub(super) fn pipe(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        self.space();
        let start = self.peek().place.start;
        let (assigns, variables) = self.declarations(context)?;
        let mut commands = Vec::new();
        loop {
            self.space();
            let token = self.peek();
            match token.kind {
                kind if kind == end => {
                    self.at += 1;
                    let place = start..token.place.start;
                    self.check(&place, &commands, context)?;
                    return Ok(Pipe {
                        place,
                        assigns,
                        variables,
                        commands,
                    });
                }
                Kind::Word
                | Kind::Character
                | Kind::Dot
                | Kind::Field
                | Kind::Number
                | Kind::Quoted
                | Kind::Variable
                | Kind::Open => commands.push(self.command()?),
                _ => return Err(self.unexpected(&token, context)),
            }
        }
    }

    /// `$x :=`, `$x =`, and with `range` also `$i, $x :=`.
    fn declarations(&mut self, context: &str) -> Parsed<(bool, Vec<String>)> {
        let mut names = Vec::new();
        loop {
            let (start, token) = (self.at, self.peek());
            if token.kind != Kind::Variable {
                return Ok((false, names));
            }
            self.at += 1;
            self.space();
            let next = self.peek();
            if !matches!(next.kind, Kind::Assign | Kind::Declare | Kind::Comma) {
                self.at = start;
                return Ok((false, names));
            }
            self.at += 1;
            let name = self.text_of(&token).to_owned();
            self.variables.push(name.clone());
            names.push(name);
            self.space();
            if next.kind != Kind::Comma {
                return Ok((next.kind == Kind::Assign, names));
            }
            if context != "range" || names.len() > 1 {
                return Err(self.error(token.place, format!("too many declarations in {context}")));
            }
            if !matches!(self.peek().kind, Kind::Variable | Kind::Right | Kind::Close) {
                return Err(self.error(token.place, "range can only initialize variables"));
            }
        }
    }

    fn check(&self, place: &Range<usize>, commands: &[Vec<Operand>], context: &str) -> Parsed<()> {
        if commands.is_empty() {
            return Err(self.error(place.clone(), format!("missing value for {context}")));
        }
        for (stage, command) in commands.iter().enumerate().skip(1) {
            let is_value = command.first().is_some_and(|first| {
                first.fields.is_empty()
                    && matches!(
                        first.term,
                        Term::Bool(_) | Term::Dot | Term::Nil | Term::Int(_) | Term::Float(_) | Term::Str(_)
                    )
            });
            if is_value {
                let message = format!("non executable command in pipeline stage {}", stage + 1);
                return Err(self.error(place.clone(), message));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Vec<Operand>> {
        let mut operands = Vec::new();
        loop {
            self.space();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            let token = self.peek();
            match token.kind {
                Kind::Space => self.at += 1,
                Kind::Right | Kind::Close => break,
                Kind::Pipe => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        if operands.is_empty() {
            let place = self.peek().place;
            return Err(self.error(place, "empty command"));
        }
        Ok(operands)
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let start = self.peek().place.start;
        let Some((term, mut fields)) = self.term()? else {
            return Ok(None);
        };
        let is_literal = fields.is_empty()
            && matches!(
                term,
                Term::Bool(_) | Term::Str(_) | Term::Int(_) | Term::Float(_) | Term::Nil | Term::Dot
            );
        while self.peek().kind == Kind::Field {
            let token = self.next();
            if is_literal {
                return Err(self.error(start..token.place.end, "unexpected . after a value"));
            }
            fields.extend(field(self.text_of(&token)));
        }
        let end = self
            .tokens
            .get(self.at.wrapping_sub(1))
            .map_or(start, |token| token.place.end);
        Ok(Some(Operand {
            place: start..end,
            term,
            fields,
        }))
    }

    fn term(&mut self) -> Parsed<Option<(Term, Vec<String>)>> {
        let token = self.peek();
        let text = self.text_of(&token);
        let fail = |message: String| TemplateError::new(self.text, token.place.clone(), message);
        let term = match token.kind {
            Kind::Word => self.word(&token, text)?,
            Kind::Dot => Term::Dot,
            Kind::Field => {
                self.at += 1;
                return Ok(Some((Term::Dot, field(text).into_iter().collect())));
            }
            Kind::Variable => {
                let compared = self.variables.len().saturating_add(text.len());
                self.meter.each(compared, 4).map_err(fail)?;
                if !self.variables.iter().any(|known| known == text) {
                    return Err(fail(format!("undefined variable {text:?}")));
                }
                Term::Variable(text.to_owned())
            }
            Kind::Number => numeral(text).map_err(fail)?,
            Kind::Character => Term::Int(i64::from(u32::from(literal::character(text).map_err(fail)?))),
            Kind::Quoted => Term::Str(literal::unquote(text).map_err(fail)?.into()),
            Kind::Open => {
                self.deeper(&token.place)?;
                self.at += 1;
                let pipe = self.pipe("parenthesized pipeline", Kind::Close)?;
                self.depth -= 1;
                return Ok(Some((Term::Pipe(Box::new(pipe)), Vec::new())));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some((term, Vec::new())))
    }

    fn word(&mut self, token: &Token, word: &str) -> Parsed<Term> {
        match word {
            "true" | "false" => Ok(Term::Bool(word == "true")),
            "nil" => Ok(Term::Nil),
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template"
            | "with" => Err(self.error(token.place.clone(), format!("unexpected <{word}> in operand"))),
            name => {
                let function = match functions::resolve(name) {
                    Ok(function) => function,
                    Err(error) => {
                        self.refuse(token, name, error)?;
                        None
                    }
                };
                Ok(Term::Function(name.to_owned(), function))
            }
        }
    }

    /// Reports a function that cannot be used: as an error, or in the list if unsupported functions are collected.
    fn refuse(&mut self, token: &Token, name: &str, error: ResolveError) -> Parsed<()> {
        match (&mut self.unsupported, error) {
            (Some(unsupported), ResolveError::Unsupported(reason)) => {
                if unsupported.iter().all(|function| function.name != name) {
                    unsupported.push(UnsupportedFunction {
                        name: name.to_owned(),
                        offset: token.place.start,
                        reason,
                    });
                }
                Ok(())
            }
            (_, error) => Err(self.error(token.place.clone(), error.into_message())),
        }
    }
}

fn field(token: &str) -> Option<String> {
    token.strip_prefix('.').map(str::to_owned)
}

/// A number, of the type that it is written as.
fn numeral(text: &str) -> Result<Term, String> {
    if let Some(number) = number::parse_int(text) {
        return Ok(Term::Int(number));
    }
    let number = number::parse_float(&text.replace('_', ""))
        .ok_or_else(|| format!("illegal number syntax: {text:?}"))?;
    if text.contains(['.', 'e', 'E']) {
        Ok(Term::Float(number))
    } else {
        Err(format!("integer overflow: {text:?}"))
    }
}
