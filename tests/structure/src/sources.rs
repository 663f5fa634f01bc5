//! The files of the project.

use std::io;
use std::path::Path;

/// Folders without files of the project's own.
const LEFT_OUT: [&str; 6] = [".git", "target", "node_modules", "vendor", "bin", "corpus"];
/// Parts of paths that only tests have.
const OF_TESTS: [&str; 6] = ["tests", "scenarios", "sabotage", "benches", "fuzz", "examples"];
/// A file that is generated.
const GENERATED: &str = "bindings.rs";
/// Folder of the root package's sources.
const ROOT_SOURCES: &str = "scheduler";

/// A file with Rust code.
pub struct File {
    /// Its path from the project's root.
    pub path: String,
    /// The folder of its crate, or "scheduler" for the root package.
    pub krate: String,
    /// The text of the file.
    pub text: String,
    /// The syntax tree, without items that are compiled for tests only.
    pub syntax: syn::File,
    /// True if the file belongs to tests only.
    pub is_test: bool,
}

/// All files of the project that are counted.
#[derive(Default)]
pub struct Sources {
    /// Files with Rust code, by their paths.
    pub files: Vec<File>,
    /// Documents and C headers: their path and text.
    pub documents: Vec<(String, String)>,
}

impl Sources {
    /// Reads all files below a folder, in the order of their paths. Fails with the path of a file
    /// that cannot be parsed.
    pub fn read(root: &Path) -> io::Result<Sources> {
        let mut sources = Sources::default();
        read_folder(root, "", &mut sources)?;
        sources.files.sort_by(|a, b| a.path.cmp(&b.path));
        sources.documents.sort();
        let crates: Vec<String> =
            sources.files.iter().map(|file| first_part(&file.path).to_owned()).collect();
        for (file, first) in sources.files.iter_mut().zip(crates) {
            let is_crate = root.join(&first).join("Cargo.toml").exists();
            file.krate = if is_crate { first } else { ROOT_SOURCES.to_owned() };
        }
        Ok(sources)
    }
}

fn read_folder(folder: &Path, path: &str, sources: &mut Sources) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        if entry.file_type()?.is_dir() {
            if !LEFT_OUT.contains(&name.as_str()) {
                read_folder(&entry.path(), &path, sources)?;
            }
            continue;
        }
        let extension = Path::new(&name).extension().and_then(|it| it.to_str());
        match extension {
            Some("rs") if name != GENERATED => sources.files.push(read_file(&entry.path(), path)?),
            Some("md" | "h") => {
                sources.documents.push((path, std::fs::read_to_string(entry.path())?));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_file(file: &Path, path: String) -> io::Result<File> {
    let text = std::fs::read_to_string(file)?;
    let mut syntax =
        syn::parse_file(&text).map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    syntax.items.retain(|item| !is_for_tests(item));
    let stem = path.strip_suffix(".rs").unwrap_or(&path);
    let is_test = stem.split('/').any(|part| OF_TESTS.contains(&part))
        || stem.ends_with("_test")
        || stem.ends_with("_tests");
    Ok(File { is_test, krate: String::new(), path, text, syntax })
}

fn first_part(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// True if the item is compiled for tests only.
fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let is_test = |list: &syn::MetaList| {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        };
        matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && is_test(list))
    })
}
