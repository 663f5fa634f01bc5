//! Guards that pass over an impossible state in silence: `let Some(it) = ... else { return };`, the
//! same with `continue`. And lookups that do: `if let Some(it) = jobs.all.get_mut(...) { ... }`
//! without an `else`, where a reference of the core's own leads to no job or pod.

use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::Numbers;
use crate::sources::Sources;

/// Counts such guards by crate, and such lookups.
pub fn count(sources: &Sources, numbers: &mut Numbers) {
    for file in sources.files.iter().filter(|file| !file.is_test) {
        let mut guards = Guards::default();
        guards.visit_file(&file.syntax);
        for line in guards.lines {
            numbers.add(&format!("guards {}", file.krate), format!("{}:{line}", file.path));
        }
        for line in guards.lookups {
            numbers.add(&format!("lookups {}", file.krate), format!("{}:{line}", file.path));
        }
    }
}

/// The lines of the guards, and of the lookups without an `else`.
#[derive(Debug, Default)]
struct Guards {
    lines: Vec<usize>,
    lookups: Vec<usize>,
}

impl<'ast> Visit<'ast> for Guards {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        let otherwise = local.init.as_ref().and_then(|init| init.diverge.as_ref());
        if otherwise.is_some_and(|(_, block)| says_nothing(block)) {
            self.lines.push(local.span().start().line);
        }
        syn::visit::visit_local(self, local);
    }

    fn visit_expr_if(&mut self, it: &'ast syn::ExprIf) {
        if let (syn::Expr::Let(condition), None) = (&*it.cond, &it.else_branch)
            && looks_up_in_silence(&condition.expr)
        {
            self.lookups.push(it.span().start().line);
        }
        syn::visit::visit_expr_if(self, it);
    }
}

/// True if an expression is a lookup in one of the core's tables of jobs and pods that reports no
/// contradiction.
fn looks_up_in_silence(it: &syn::Expr) -> bool {
    let syn::Expr::MethodCall(call) = it else { return false };
    let syn::Expr::Field(table) = &*call.receiver else { return false };
    let syn::Member::Named(name) = &table.member else { return false };
    ["get", "get_mut"].iter().any(|method| call.method == method)
        && ["all", "members"].iter().any(|table| name == table)
}

/// True if a block does nothing but leave.
fn says_nothing(block: &syn::Expr) -> bool {
    let syn::Expr::Block(block) = block else { return false };
    let [syn::Stmt::Expr(only, _)] = block.block.stmts.as_slice() else { return false };
    match only {
        syn::Expr::Return(it) => it.expr.as_deref().is_none_or(is_ok_of_nothing),
        syn::Expr::Continue(_) => true,
        _ => false,
    }
}

/// True if an expression is `Ok(())`.
fn is_ok_of_nothing(value: &syn::Expr) -> bool {
    let syn::Expr::Call(call) = value else { return false };
    let is_nothing = |it: &syn::Expr| matches!(it, syn::Expr::Tuple(it) if it.elems.is_empty());
    let is_ok = matches!(&*call.func, syn::Expr::Path(it) if it.path.is_ident("Ok"));
    is_ok && call.args.iter().all(is_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_that_say_nothing_are_found() {
        let text = "fn f() {\n let Some(a) = b else { return };\n for c in d {\n let Ok(e) = c else { continue; };\n }\n\
            let Some(g) = h else { return log() };\n let Some(i) = j else { return None };\n\
            let Some(k) = l else { return Ok(()) };\n let Some(m) = n else { return Ok(o) };\n }";
        let mut guards = Guards::default();
        guards.visit_file(&syn::parse_file(text).expect("it is Rust"));
        assert_eq!(guards.lines, [2, 4, 8]);
    }

    #[test]
    fn lookups_that_say_nothing_are_found() {
        let text = "fn f() {\n if let Some(a) = self.jobs.all.get_mut(&id) { a.b(); }\n\
            if let Some(a) = self.jobs.members.get(uid) { a.b(); } else { log(); }\n\
            if let Some(a) = others.get(uid) { a.b(); }\n\
            if let Some(a) = jobs.members.get(uid) { a.b(); }\n }";
        let mut guards = Guards::default();
        guards.visit_file(&syn::parse_file(text).expect("it is Rust"));
        assert_eq!(guards.lookups, [2, 5]);
    }
}
