//! The filters and tests that expressions name.

use minijinja::machinery::{CodeGenerator, Instruction, parse, parse_expr};
use minijinja::{Error, ErrorKind};

use super::context::{self, ENVIRONMENT};

/// Returns a sentence for each undefined name in an expression or a template. Empty if it cannot be parsed.
pub(crate) fn unknown(source: &str, is_expression: bool) -> Vec<String> {
    let parsed = if is_expression { context::check(source) } else { context::check_template(source) };
    let Some(generator) = parsed.ok().and_then(|()| compiled(source, is_expression).ok()) else { return Vec::new() };
    let (instructions, blocks) = generator.finish();
    let mut unknown = Vec::new();
    for instructions in std::iter::once(&instructions).chain(blocks.values()) {
        for instruction in (0..).map_while(|at| instructions.get(at)) {
            let found = match instruction {
                Instruction::ApplyFilter(name, ..) => {
                    is_unknown("|", name).then(|| format!("there is no filter `{name}`"))
                }
                Instruction::PerformTest(name, ..) => {
                    is_unknown(" is ", name).then(|| format!("there is no test `{name}`"))
                }
                _ => None,
            };
            unknown.extend(found.filter(|found| !unknown.contains(found)));
        }
    }
    unknown
}

/// The instructions of a source that has passed the check.
fn compiled(source: &str, is_expression: bool) -> Result<CodeGenerator<'_>, Error> {
    let mut generator = CodeGenerator::new("<source>", source);
    if is_expression {
        generator.compile_expr(&parse_expr(source)?);
    } else {
        generator.compile_stmt(&parse(source, "<source>", ENVIRONMENT.syntax().clone())?);
    }
    Ok(generator)
}

/// Whether evaluating `none` with it says that it is not there, which is said before anything else.
fn is_unknown(operator: &str, name: &str) -> bool {
    let source = format!("none{operator}{name}");
    let evaluated = ENVIRONMENT.compile_expression(&source).and_then(|expression| expression.eval(()));
    evaluated.is_err_and(|error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest))
}
