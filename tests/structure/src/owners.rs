//! Types that change themselves and are too large, or have methods away from home.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::Numbers;
use crate::circles::{Module, circles};
use crate::sources::{File, Sources};

/// Most fields of a type with methods that change it.
const FIELDS_MAX: usize = 12;
/// Most methods of such a type.
const METHODS_MAX: usize = 60;

/// The parts of a type, by its name in its crate.
#[derive(Debug, Default)]
struct Owner {
    /// The file that defines it, and its fields.
    fields: Option<(String, Vec<String>)>,
    /// Its methods, with the file of each.
    methods: BTreeMap<String, String>,
    /// The methods of itself that are called in each file.
    calls: BTreeMap<String, BTreeSet<String>>,
    changes_itself: bool,
}

/// Counts fields and methods beyond the limits, methods away from home, files of one type that call
/// each other in a circle, and names of types that mean two things.
pub fn count(sources: &Sources, numbers: &mut Numbers) {
    let mut owners: BTreeMap<(&str, String), Owner> = BTreeMap::new();
    let mut defined: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for file in sources.files.iter().filter(|file| !file.is_test) {
        for item in &file.syntax.items {
            let name = match item {
                syn::Item::Struct(it) => {
                    let fields = it.fields.iter().enumerate();
                    let names = fields.map(|(at, field)| {
                        field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string)
                    });
                    let owner = owners.entry((&file.krate, it.ident.to_string())).or_default();
                    owner.fields = Some((file.path.clone(), names.collect()));
                    Some(&it.ident)
                }
                syn::Item::Enum(it) => Some(&it.ident),
                syn::Item::Trait(it) => Some(&it.ident),
                syn::Item::Impl(it) if it.trait_.is_none() => {
                    if let Some(name) = self_type(it) {
                        owners.entry((&file.krate, name)).or_default().add(file, it);
                    }
                    None
                }
                _ => None,
            };
            if let Some(name) = name {
                defined.entry((&file.krate, name.to_string())).or_default().insert(&file.path);
            }
        }
    }
    for ((krate, name), files) in defined.iter().filter(|(_, files)| files.len() > 1) {
        let files: Vec<&str> = files.iter().copied().collect();
        numbers.add(&format!("twice {krate}"), format!("{name} in {}", files.join(" and ")));
    }
    for ((krate, name), owner) in owners.iter().filter(|(_, owner)| owner.changes_itself) {
        owner.judge(krate, name, numbers);
    }
}

impl Owner {
    fn add(&mut self, file: &File, block: &syn::ItemImpl) {
        for item in &block.items {
            let syn::ImplItem::Fn(method) = item else { continue };
            self.methods.insert(method.sig.ident.to_string(), file.path.clone());
            self.changes_itself |= changes_itself(method);
            let mut calls = Calls::default();
            calls.visit_block(&method.block);
            self.calls.entry(file.path.clone()).or_default().extend(calls.0);
        }
    }

    fn judge(&self, krate: &str, name: &str, numbers: &mut Numbers) {
        if let Some((_, fields)) =
            self.fields.as_ref().filter(|(_, fields)| fields.len() > FIELDS_MAX)
        {
            for field in fields {
                numbers.add(&format!("fields {krate} {name}"), field.clone());
            }
        }
        if self.methods.len() > METHODS_MAX {
            for method in self.methods.keys() {
                numbers.add(&format!("methods {krate} {name}"), method.clone());
            }
        }
        if let Some((home, _)) = &self.fields {
            let folder = folder_of(home);
            let away =
                self.methods.iter().filter(|(_, file)| *file != home && !file.starts_with(&folder));
            for (method, file) in away {
                numbers.add(&format!("away {krate}"), format!("{name}::{method} in {file}"));
            }
        }
        let leads_to = |file: &String, called: &BTreeSet<String>| -> BTreeSet<Module> {
            let files = called.iter().filter_map(|method| self.methods.get(method));
            files.filter(|other| *other != file).map(|other| vec![other.clone()]).collect()
        };
        let edges = self
            .calls
            .iter()
            .map(|(file, called)| (vec![file.clone()], leads_to(file, called)))
            .collect();
        for circle in circles(&edges) {
            for file in circle {
                numbers.add(&format!("calls {krate} {name}"), file.concat());
            }
        }
    }
}

/// Methods of itself that a type calls.
#[derive(Debug, Default)]
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self")) {
            self.0.insert(call.method.to_string());
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if let [first, method] = parts.as_slice()
            && first == "Self"
        {
            self.0.insert(method.clone());
        }
        syn::visit::visit_path(self, path);
    }
}

/// True if a method takes `&mut self`.
fn changes_itself(method: &syn::ImplItemFn) -> bool {
    let receiver = method.sig.receiver().map(|receiver| &receiver.kind);
    matches!(receiver, Some(syn::ReceiverKind::Reference(_, _, Some(_))))
}

/// The name of the type that an inherent `impl` is of.
fn self_type(block: &syn::ItemImpl) -> Option<String> {
    let syn::Type::Path(path) = &*block.self_ty else { return None };
    path.path.segments.last().map(|part| part.ident.to_string())
}

/// The folder of the modules below a file.
fn folder_of(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let is_root = ["lib", "main", "mod"].iter().any(|name| stem.ends_with(&format!("/{name}")));
    let folder =
        if is_root { stem.rsplit_once('/').map_or("", |(folder, _)| folder) } else { stem };
    format!("{folder}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(files: &[(&str, String)]) -> BTreeMap<String, Vec<String>> {
        let files = files.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            krate: "k".to_owned(),
            text: text.clone(),
            syntax: syn::parse_file(text).expect("it is Rust"),
            is_test: false,
        });
        let mut numbers = Numbers::default();
        count(&Sources { files: files.collect(), ..Sources::default() }, &mut numbers);
        numbers.iter().map(|(measure, parts)| (measure.to_owned(), parts.to_vec())).collect()
    }

    #[test]
    fn a_type_that_changes_itself_has_few_fields_and_its_methods_at_home() {
        let fields =
            |count: usize| (0..count).map(|at| format!("f{at}: u8")).collect::<Vec<_>>().join(", ");
        let of = |count, method: &str| {
            let home = format!(
                "struct A {{ {} }} impl A {{ fn a(&mut self) {{ self.b() }} }}",
                fields(count)
            );
            numbers(&[("k/src/a.rs", home), ("k/src/b.rs", method.to_owned())])
        };
        assert_eq!(of(12, ""), BTreeMap::new());
        assert_eq!(of(13, "")["fields k A"].len(), 13);
        assert_eq!(of(1, "impl A { fn b(&self) {} }")["away k"], ["A::b in k/src/b.rs"]);
        assert_eq!(
            of(1, "impl A { fn b(&self) { self.a() } }")["calls k A"],
            ["k/src/a.rs", "k/src/b.rs"]
        );
        assert_eq!(of(1, "enum A {}")["twice k"], ["A in k/src/a.rs and k/src/b.rs"]);
    }
}
