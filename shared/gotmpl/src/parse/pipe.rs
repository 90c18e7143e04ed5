//! Pipelines, commands and operands.

use std::ops::Range;

use go_formats::number;

use super::{
    super::{
        error::{TemplateError, TemplateErrorKind, UnsupportedFunction},
        functions::{self, ResolveError},
        lex::{Token, TokenKind},
        literal,
        node::{Operand, Pipe, Term},
    },
    ParseResult, Parser,
};

impl Parser<'_> {
    /// The name of a template.
    pub(super) fn name(&mut self, context: &str) -> ParseResult<(String, Range<usize>)> {
        self.space();
        let token = self.next();
        if token.kind != TokenKind::Quoted {
            return Err(self.unexpected(&token, context));
        }
        let name = literal::unquote(self.text_of(&token)).map_err(|e| self.error(token.span.clone(), e))?;
        Ok((name, token.span))
    }

    pub(super) fn pipe(&mut self, context: &str, end: TokenKind) -> ParseResult<Pipe> {
        self.space();
        let start = self.peek().span.start;
        let (assigns, variables) = self.declarations(context)?;
        let mut commands = Vec::new();
        loop {
            self.space();
            let token = self.peek();
            match token.kind {
                kind if kind == end => {
                    self.at += 1;
                    let span = start..token.span.start;
                    self.check(&span, &commands, context)?;
                    return Ok(Pipe {
                        span,
                        assigns,
                        variables,
                        commands,
                    });
                }
                TokenKind::Word
                | TokenKind::Character
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Number
                | TokenKind::Quoted
                | TokenKind::Variable
                | TokenKind::Open => commands.push(self.command()?),
                _ => return Err(self.unexpected(&token, context)),
            }
        }
    }

    /// `$x :=`, `$x =`, and with `range` also `$i, $x :=`.
    fn declarations(&mut self, context: &str) -> ParseResult<(bool, Vec<String>)> {
        let mut names = Vec::new();
        loop {
            let (start, token) = (self.at, self.peek());
            if token.kind != TokenKind::Variable {
                return Ok((false, names));
            }
            self.at += 1;
            self.space();
            let next = self.peek();
            if !matches!(
                next.kind,
                TokenKind::Assign | TokenKind::Declare | TokenKind::Comma
            ) {
                self.at = start;
                return Ok((false, names));
            }
            self.at += 1;
            let name = self.text_of(&token).to_owned();
            self.variables.push(name.clone());
            names.push(name);
            self.space();
            if next.kind != TokenKind::Comma {
                return Ok((next.kind == TokenKind::Assign, names));
            }
            if context != "range" || names.len() > 1 {
                return Err(self.error(token.span, format!("too many declarations in {context}")));
            }
            if !matches!(
                self.peek().kind,
                TokenKind::Variable | TokenKind::Right | TokenKind::Close
            ) {
                return Err(self.error(token.span, "range can only initialize variables"));
            }
        }
    }

    fn check(&self, span: &Range<usize>, commands: &[Vec<Operand>], context: &str) -> ParseResult<()> {
        if commands.is_empty() {
            return Err(self.error(span.clone(), format!("missing value for {context}")));
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
                return Err(self.error(span.clone(), message));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> ParseResult<Vec<Operand>> {
        let mut operands = Vec::new();
        loop {
            self.space();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            let token = self.peek();
            match token.kind {
                TokenKind::Space => self.at += 1,
                TokenKind::Right | TokenKind::Close => break,
                TokenKind::Pipe => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        if operands.is_empty() {
            let span = self.peek().span;
            return Err(self.error(span, "empty command"));
        }
        Ok(operands)
    }

    fn operand(&mut self) -> ParseResult<Option<Operand>> {
        let start = self.peek().span.start;
        let Some((term, mut fields)) = self.term()? else {
            return Ok(None);
        };
        let is_literal = fields.is_empty()
            && matches!(
                term,
                Term::Bool(_) | Term::Str(_) | Term::Int(_) | Term::Float(_) | Term::Nil | Term::Dot
            );
        while self.peek().kind == TokenKind::Field {
            let token = self.next();
            if is_literal {
                return Err(self.error(start..token.span.end, "unexpected . after a value"));
            }
            fields.extend(field(self.text_of(&token)));
        }
        let end = self
            .tokens
            .get(self.at.wrapping_sub(1))
            .map_or(start, |token| token.span.end);
        Ok(Some(Operand {
            span: start..end,
            term,
            fields,
        }))
    }

    fn term(&mut self) -> ParseResult<Option<(Term, Vec<String>)>> {
        let token = self.peek();
        let text = self.text_of(&token);
        let fail = |message: String| TemplateError::new(self.text, token.span.clone(), message);
        let term = match token.kind {
            TokenKind::Word => self.word(&token, text)?,
            TokenKind::Dot => Term::Dot,
            TokenKind::Field => {
                self.at += 1;
                return Ok(Some((Term::Dot, field(text).into_iter().collect())));
            }
            TokenKind::Variable => {
                let compared = self.variables.len().saturating_add(text.len());
                self.meter.charge_each(compared, 4).map_err(fail)?;
                if !self.variables.iter().any(|known| known == text) {
                    return Err(fail(format!("undefined variable {text:?}")));
                }
                Term::Variable(text.to_owned())
            }
            TokenKind::Number => numeral(text).map_err(fail)?,
            TokenKind::Character => Term::Int(i64::from(u32::from(literal::character(text).map_err(fail)?))),
            TokenKind::Quoted => Term::Str(literal::unquote(text).map_err(fail)?.into()),
            TokenKind::Open => {
                self.enter(&token.span)?;
                self.at += 1;
                let pipe = self.pipe("parenthesized pipeline", TokenKind::Close)?;
                self.depth -= 1;
                return Ok(Some((Term::Pipe(Box::new(pipe)), Vec::new())));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some((term, Vec::new())))
    }

    fn word(&mut self, token: &Token, word: &str) -> ParseResult<Term> {
        match word {
            "true" | "false" => Ok(Term::Bool(word == "true")),
            "nil" => Ok(Term::Nil),
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template"
            | "with" => Err(self.error(token.span.clone(), format!("unexpected <{word}> in operand"))),
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
    fn refuse(&mut self, token: &Token, name: &str, error: ResolveError) -> ParseResult<()> {
        let reason = match error {
            ResolveError::Unsupported(reason) => reason,
            ResolveError::Undefined => {
                return Err(self.error(token.span.clone(), format!("function {name:?} not defined")));
            }
        };
        let function = UnsupportedFunction {
            name: name.to_owned(),
            offset: token.span.start,
            reason,
        };
        let Some(unsupported) = &mut self.unsupported else {
            let kind = TemplateErrorKind::Unsupported(function);
            return Err(TemplateError::of_kind(self.text, token.span.clone(), kind));
        };
        if unsupported.iter().all(|known| known.name != name) {
            unsupported.push(function);
        }
        Ok(())
    }
}

fn field(token: &str) -> Option<String> {
    token.strip_prefix('.').map(str::to_owned)
}

/// A number: an integer or a float, depending on how it is written.
fn numeral(text: &str) -> Result<Term, String> {
    if let Some(number) = number::parse_int(text) {
        return Ok(Term::Int(number));
    }
    let number = number::parse_float(&text.replace('_', ""))
        .ok_or_else(|| format!("illegal number syntax: {text:?}"))?;
    if text.contains(['.', 'e', 'E', 'p', 'P']) {
        Ok(Term::Float(number))
    } else {
        Err(format!("integer overflow: {text:?}"))
    }
}
