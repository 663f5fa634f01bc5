//! Modules that depend on each other in a circle.
//!
//! A module depends on another one if a path in it leads there: in a `use`, a type, an expression,
//! a pattern or the arguments of a macro. A name that a module only passes on with `use` counts as
//! where it comes from. A parent depends on a child as any other.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;

use crate::Numbers;
use crate::sources::{File, Sources};

/// How often a name may be passed on before it counts as unknown.
const PASSED_ON_MAX: usize = 8;

/// A module by its path in its crate; the root has none.
pub type Module = Vec<String>;

/// Counts the modules of each crate that are in a circle.
pub fn count(sources: &Sources, numbers: &mut Numbers) {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in sources.files.iter().filter(|file| !file.is_test) {
        crates.entry(&file.krate).or_default().push(file);
    }
    for (krate, files) in crates {
        for circle in circles(&dependencies(&files)) {
            let names: Vec<String> = circle.iter().map(name_of).collect();
            for name in &names {
                numbers.add(
                    &format!("circles {krate}"),
                    format!("{name} (with {} others)", names.len() - 1),
                );
            }
        }
    }
}

fn name_of(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

/// Returns the module that a file contains.
pub fn module_of(file: &File) -> Module {
    let path = file.path.strip_prefix(&format!("{}/", file.krate)).unwrap_or(&file.path);
    let path = path.strip_prefix("src/").unwrap_or(path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    match parts.split_last() {
        Some((last, parents)) if last == "mod" => parents.to_vec(),
        Some((last, [])) if ["lib", "main", "build"].contains(&last.as_str()) => Vec::new(),
        _ => parts,
    }
}

/// Each module with those that it depends on.
pub fn dependencies(files: &[&File]) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut known: BTreeMap<Module, Names> = BTreeMap::new();
    for file in files {
        known.entry(module_of(file)).or_default().visit_file(&file.syntax);
    }
    let mut found: BTreeMap<Module, BTreeSet<Module>> =
        known.keys().map(|module| (module.clone(), BTreeSet::new())).collect();
    for file in files {
        let module = module_of(file);
        let mut paths = known[&module].paths.clone();
        paths_of(file.syntax.to_token_stream(), &mut paths);
        let leads_to = paths.iter().filter_map(|path| target(&known, &module, path));
        let others: BTreeSet<Module> = leads_to.filter(|other| *other != module).collect();
        found.entry(module).or_default().extend(others);
    }
    found
}

/// The names in the `use` items of a module, and those that it defines.
#[derive(Debug, Default)]
struct Names {
    /// The paths that they name.
    paths: BTreeSet<Vec<String>>,
    /// The names that they make known here, and what these stand for.
    aliases: BTreeMap<String, Vec<String>>,
    /// Names that the module defines, apart from modules.
    own: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(it) => Some(&it.ident),
            syn::Item::Enum(it) => Some(&it.ident),
            syn::Item::Fn(it) => Some(&it.sig.ident),
            syn::Item::Trait(it) => Some(&it.ident),
            syn::Item::Type(it) => Some(&it.ident),
            syn::Item::Const(it) => Some(&it.ident),
            syn::Item::Static(it) => Some(&it.ident),
            _ => None,
        };
        self.own.extend(name.map(ToString::to_string));
        syn::visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add(&item.tree, Vec::new());
    }
}

impl Names {
    fn add(&mut self, tree: &syn::UseTree, mut path: Vec<String>) {
        match tree {
            syn::UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.add(&it.tree, path);
            }
            syn::UseTree::Group(it) => {
                it.items.iter().for_each(|tree| self.add(tree, path.clone()));
            }
            syn::UseTree::Name(it) => self.bind(it.ident.to_string(), path, &it.ident),
            syn::UseTree::Rename(it) => self.bind(it.rename.to_string(), path, &it.ident),
            syn::UseTree::Glob(_) => drop(self.paths.insert(path)),
        }
    }

    fn bind(&mut self, name: String, mut path: Vec<String>, last: &syn::Ident) {
        let mut name = name;
        if last == "self" {
            name = path.last().cloned().unwrap_or(name);
        } else {
            path.push(last.to_string());
        }
        self.paths.insert(path.clone());
        self.aliases.insert(name, path);
    }
}

/// Paths of at least two parts in a stream of tokens.
fn paths_of(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let (mut colons, mut in_use) = (0, false);
    let mut end = |path: &mut Vec<String>| {
        if path.len() > 1 {
            paths.insert(std::mem::take(path));
        }
        path.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons < 2 {
                    end(&mut path);
                }
                in_use |= ident == "use" && path.is_empty();
                if !in_use {
                    path.push(ident.to_string());
                }
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Punct(punct) => {
                in_use &= punct.as_char() != ';';
                end(&mut path);
                colons = 0;
            }
            TokenTree::Group(group) => {
                end(&mut path);
                colons = 0;
                // The braces of a `use` are read as a tree.
                if !in_use || group.delimiter() != Delimiter::Brace {
                    groups.push(group.stream());
                }
            }
            TokenTree::Literal(_) => {
                end(&mut path);
                colons = 0;
            }
        }
    }
    end(&mut path);
    for group in groups {
        paths_of(group, paths);
    }
}

/// The module that a path leads to, if it is one of this crate.
fn target(known: &BTreeMap<Module, Names>, from: &Module, path: &[String]) -> Option<Module> {
    let mut place = absolute(known, from, path)?;
    for _ in 0..PASSED_ON_MAX {
        let length =
            (0..=place.len()).rev().find(|length| known.contains_key(&place[..*length]))?;
        let module = place[..length].to_vec();
        let Some(name) = place.get(length) else { return Some(module) };
        let names = &known[&module];
        match names.aliases.get(name) {
            Some(alias) if !names.own.contains(name) => place = absolute(known, &module, alias)?,
            _ => return Some(module),
        }
    }
    None
}

/// A path from the root of the crate; `None` if it leads out of the crate, or is a local name.
fn absolute(
    known: &BTreeMap<Module, Names>,
    from: &Module,
    path: &[String],
) -> Option<Vec<String>> {
    let first = path.first()?;
    let mut base = from.clone();
    let rest = match first.as_str() {
        "crate" => {
            base.clear();
            &path[1..]
        }
        "self" => &path[1..],
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len().checked_sub(ups)?);
            &path[ups..]
        }
        name => {
            let mut child = from.clone();
            child.push(name.to_owned());
            if known.contains_key(&child) {
                path
            } else {
                // A module that a `use` has made known.
                let alias = known
                    .get(from)?
                    .aliases
                    .get(name)
                    .filter(|alias| alias.first() != Some(first))?;
                let mut place = absolute(known, from, alias)?;
                place.extend_from_slice(&path[1..]);
                return Some(place);
            }
        }
    };
    base.extend_from_slice(rest);
    Some(base)
}

/// The circles in a graph: sets of at least two modules of which each is reached from each.
pub fn circles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (module, reach(edges, module))).collect();
    let mut found: Vec<BTreeSet<Module>> = Vec::new();
    for (module, others) in &reached {
        if !others.contains(*module) || found.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let back = others
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|those| those.contains(module)));
        found.push(back.map(|other| (*other).clone()).collect());
    }
    found
}

fn reach<'a>(edges: &'a BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(module) = todo.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if seen.insert(next) {
                todo.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        let syntax = syn::parse_file(text).expect("it is Rust");
        File {
            path: format!("k/src/{path}"),
            krate: "k".to_owned(),
            text: text.to_owned(),
            syntax,
            is_test: false,
        }
    }

    fn circles_of(files: &[File]) -> Vec<Vec<String>> {
        let files: Vec<&File> = files.iter().collect();
        let found = circles(&dependencies(&files));
        found.iter().map(|circle| circle.iter().map(name_of).collect()).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let one_way = [
            file("lib.rs", "mod a; mod b;"),
            file("a.rs", "use crate::b::B; fn f(_: B) {}"),
            file("b.rs", "pub struct B;"),
        ];
        assert_eq!(circles_of(&one_way), Vec::<Vec<String>>::new());
        for back in [
            "use super::a::A;",
            "fn f() { crate::a::f(); }",
            "fn f() { println!(\"{}\", super::a::X); }",
            "use super::a; fn f() { a::f() }",
        ] {
            let files = [
                file("lib.rs", "mod a; mod b;"),
                file("a.rs", "use crate::b::B;"),
                file("b.rs", back),
            ];
            assert_eq!(circles_of(&files), [["a", "b"]], "{back}");
        }
    }

    #[test]
    fn a_parent_is_in_a_circle_with_a_child_that_uses_what_the_parent_defines() {
        let files = |root: &str| {
            [
                file("lib.rs", root),
                file("a.rs", "use super::Core; fn f(_: Core) {}"),
                file("b.rs", "pub struct Core;"),
            ]
        };
        assert_eq!(
            circles_of(&files("mod a; mod b; struct Core; fn g() { a::f(Core) }")),
            [["the root", "a"]]
        );
        // A name that the parent passes on is the child's that defines it.
        assert_eq!(
            circles_of(&files("mod a; mod b; pub use b::Core; pub use a::f;")),
            Vec::<Vec<String>>::new()
        );
    }
}
