//! Templates in values.
//!
//! Only admission reports them. The controller does not refuse a stored HelmOp for its templates: they are not rendered for a cluster
//! without labels, and every other cluster reports its own error.

use helmops_api::{HelmOpSpec, HelmOptions};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path},
};

use crate::targeting::values::{self, ProblemKind, TemplateProblem};

/// The fix for text that is not meant as a template.
const LITERAL: &str =
    "if it is not a template, set helm.disablePreProcess: true, or write ${\"${\"} for a literal ${";

/// The problems in the templates of the spec and of its targets, with paths from `spec`.
pub fn problems(spec: &HelmOpSpec) -> Vec<TemplateProblem> {
    let bundle = &spec.bundle;
    let budget = values::check_budget();
    let mut problems = Vec::new();
    let mut check = |path: &str, helm: &HelmOptions| {
        problems.extend(
            values::check(helm, &budget)
                .into_iter()
                .map(|problem| TemplateProblem {
                    path: format!("{path}.{}", problem.path),
                    ..problem
                }),
        );
    };
    let is_literal = |helm: &Option<HelmOptions>| helm.as_ref().is_some_and(|helm| helm.disable_pre_process);
    // A target can disable templates, and cannot enable them again.
    let targets = &bundle.targets;
    if is_literal(&bundle.options.helm)
        || !targets.is_empty() && targets.iter().all(|target| is_literal(&target.options.helm))
    {
        return problems;
    }
    if let Some(helm) = &bundle.options.helm {
        check("spec", helm);
    }
    for (index, target) in targets.iter().enumerate() {
        if let Some(helm) = target
            .options
            .helm
            .as_ref()
            .filter(|helm| !helm.disable_pre_process)
        {
            check(&format!("spec.targets[{index}]"), helm);
        }
    }
    problems
}

/// Adds an error for each template that cannot be parsed.
pub fn add_errors(errors: &mut FieldErrors, problems: &[TemplateProblem]) {
    for problem in problems
        .iter()
        .filter(|problem| problem.kind == ProblemKind::Invalid)
    {
        let detail = format!("not a template: {}; {LITERAL}", problem.message);
        errors.invalid(
            &Path::root(&problem.path),
            Reason::InvalidValues,
            &problem.piece,
            detail,
        );
    }
}

/// A warning for each function that helmops does not support. Fleet's bundle controller, if it is the one that renders, has them.
pub fn warnings(problems: &[TemplateProblem]) -> impl Iterator<Item = String> {
    let unsupported = problems
        .iter()
        .filter(|problem| problem.kind == ProblemKind::UnsupportedFunction);
    unsupported.map(|problem| {
        format!(
            "{}: function {:?} is an error if helmops replaces Fleet's bundle controller: {}",
            problem.path, problem.piece, problem.message
        )
    })
}
