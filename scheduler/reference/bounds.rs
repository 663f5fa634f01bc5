//! docs/bounds.md: the limit of each queue, retry, buffer and search, with its value in the code.
//!
//! `bounds.md` beside this file has the rows. A value in braces names a constant by its file, or
//! several with `*` and `/` between them: `{kube/fenced.rs ATTEMPTS_MAX}`. A constant that ends in
//! `_MAX` and is in no row is listed at the end of the page, with its doc comment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::source;
use super::{code, section};

const ROWS: &str = include_str!("bounds.md");
const HEAD: &str = "<!-- Made from the code by `make reference`. Do not edit. -->
# Bounds

Every queue, retry, buffer, text and search has a bound. The values are those of the constants in
the code; settings have their names ([settings.md](settings.md)). The row of a bound is in
`scheduler/reference/bounds.md`.

";
/// Folders with constants. The engine of the resource graph has bounds of its own
/// (fluxion-compatibility.md).
const FOLDERS: [&str; 10] = [
    "api/src",
    "core/src",
    "flux-lists/src",
    "machine/src",
    "planner/src",
    "scheduler/kube",
    "scheduler/serve",
    "tls/src",
    "webhook/src",
    "workload/src",
];

#[test]
fn the_bounds_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let constants = Constants::read(root);
    let mut named = BTreeSet::new();
    let mut page = HEAD.to_owned();
    for line in ROWS.lines() {
        let _ = writeln!(page, "{}", filled(line, &constants, &mut named));
    }
    let others = constants.0.iter().filter(|((_, name), constant)| {
        name.ends_with("_MAX")
            && !constant.doc.is_empty()
            && !named
                .iter()
                .any(|(file, other): &(String, String)| other == name && constant.file == *file)
    });
    let rows = others.map(|((file, name), constant)| {
        let value = constants.shown(file, name);
        vec![code(name), value, constant.doc.clone(), code(file)]
    });
    section(&mut page, "Further limits", "", &["constant", "limit", "", "in"], rows);
    let path = root.join("docs/bounds.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/bounds.md differs from the code: run `make reference`");
}

/// A line of the rows with its values filled in, and with the files of these as one more column.
fn filled(line: &str, constants: &Constants, named: &mut BTreeSet<(String, String)>) -> String {
    if !line.starts_with('|') {
        return line.to_owned();
    }
    if line.starts_with("|---") {
        return format!("{line}---|");
    }
    if line == "| bound | limit | at the limit |" {
        return format!("{line} in |");
    }
    let (mut text, mut files) = (String::new(), BTreeSet::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}').unwrap_or_else(|| panic!("no brace: {line}"));
        let (value, of) = constants.evaluated(inside);
        files.extend(of.iter().map(|(file, _)| code(file)));
        named.extend(of);
        let _ = write!(text, "{before}{value}");
        rest = after;
    }
    let files: Vec<String> = files.into_iter().collect();
    format!("{text}{rest} {} |", files.join(", "))
}

/// A constant, or the default of a setting, as the source has it.
struct Constant {
    file: String,
    type_: String,
    value: String,
    doc: String,
}

/// All constants of the folders, by file and name.
struct Constants(BTreeMap<(String, String), Constant>);

/// A value with its unit.
#[derive(Clone, Copy)]
enum Value {
    Count(u128),
    Bytes(u128),
    Millis(u128),
    /// The first pause, and the longest.
    Pauses(u128, u128),
}

impl Constants {
    fn read(root: &Path) -> Self {
        let mut all = BTreeMap::new();
        for folder in FOLDERS {
            for path in source::files(&root.join(folder)) {
                let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                for it in source::values(&text) {
                    let (type_, value) = it.value.split_once(" = ").unwrap();
                    let constant = Constant {
                        file: file.clone(),
                        type_: type_.to_owned(),
                        value: value.to_owned(),
                        doc: it.doc,
                    };
                    all.entry((file.clone(), it.name)).or_insert(constant);
                }
            }
        }
        assert!(all.len() > 200, "{} constants are found", all.len());
        Constants(all)
    }

    /// Returns the value of `FILE NAME`, or of several with operators between them, and the
    /// constants in it.
    fn evaluated(&self, text: &str) -> (String, Vec<(String, String)>) {
        let (mut words, mut of) = (text.split_whitespace(), Vec::new());
        let mut operand = |first: &str, words: &mut std::str::SplitWhitespace<'_>| {
            if let Ok(number) = first.parse() {
                return Value::Count(number);
            }
            let name = words.next().unwrap_or_else(|| panic!("no name after {first} in {text}"));
            let key = self.find(first, name);
            let value = self.value(&key);
            of.push(key);
            value
        };
        let mut value = operand(words.next().unwrap(), &mut words);
        while let Some(operator) = words.next() {
            let by = operand(words.next().unwrap(), &mut words).number();
            value = value.map(|it| if operator == "*" { it * by } else { it / by });
        }
        (value.to_string(), of)
    }

    /// Returns the constant of this name in the one file that ends like this.
    fn find(&self, file: &str, name: &str) -> (String, String) {
        let found: Vec<_> = self
            .0
            .keys()
            .filter(|(path, of)| {
                of == name && (path == file || path.ends_with(&format!("/{file}")))
            })
            .collect();
        match found.as_slice() {
            [one] => (*one).clone(),
            several => panic!(
                "scheduler/reference/bounds.md: {name} is in {} files that end in {file}",
                several.len()
            ),
        }
    }

    fn shown(&self, file: &str, name: &str) -> String {
        self.value(&(file.to_owned(), name.to_owned())).to_string()
    }

    fn value(&self, key: &(String, String)) -> Value {
        let constant = &self.0[key];
        let text = constant.value.as_str();
        let number = |text: &str| self.number(text, &key.0);
        if let Some(inside) = text.strip_prefix("Backoff {") {
            let field = |name: &str| {
                let (_, rest) = inside.split_once(&format!("{name}: ")).unwrap();
                number(rest.split([',', '}']).next().unwrap().trim())
            };
            return Value::Pauses(field("min_millis"), field("max_millis"));
        }
        for (unit, millis) in [
            ("Duration::from_millis(", 1),
            ("Duration::from_secs(", 1_000),
            ("Duration::from_mins(", 60_000),
            ("Duration::from_hours(", 3_600_000),
        ] {
            if let Some(inside) = text.strip_prefix(unit) {
                return Value::Millis(millis * number(inside.trim_end_matches(')')));
            }
        }
        if let Some(inside) = text.strip_prefix("Effort::questions(") {
            return Value::Count(number(inside.trim_end_matches(')')));
        }
        let (name, count) = (&key.1, number(text));
        let has = |part: &str| name.to_uppercase().split('_').any(|word| word == part);
        if has("BYTES") {
            Value::Bytes(count)
        } else if has("MILLIS") {
            Value::Millis(count)
        } else if has("MICROS") {
            Value::Millis(count / 1_000)
        } else if has("SECS") || has("SECONDS") && constant.type_ != "usize" {
            Value::Millis(count * 1_000)
        } else {
            Value::Count(count)
        }
    }

    /// Returns the value of an expression of numbers, constants and operators.
    fn number(&self, text: &str, file: &str) -> u128 {
        for operators in [&[" << "][..], &[" - ", " + "], &[" / ", " * "]] {
            if let Some((left, operator, right)) = split(text, operators) {
                let (left, right) = (self.number(left, file), self.number(right, file));
                return match operator {
                    " << " => left << right,
                    " - " => left - right,
                    " + " => left + right,
                    " / " => left / right,
                    _ => left * right,
                };
            }
        }
        if let Some(inside) = text.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
            return self.number(inside, file);
        }
        let text = text.trim_end_matches(" as u64");
        match text {
            "u64::MAX" => return u128::from(u64::MAX),
            "i64::MAX" => return u128::from(i64::MAX.unsigned_abs()),
            _ => {}
        }
        if let Ok(number) = text.replace('_', "").parse() {
            return number;
        }
        let name = text.rsplit("::").next().unwrap_or(text);
        let own = self.0.get(&(file.to_owned(), name.to_owned()));
        let constant = own.or_else(|| {
            self.0.iter().find(|((_, other), _)| other == name).map(|(_, constant)| constant)
        });
        let constant = constant.unwrap_or_else(|| panic!("{file}: {text} is no number"));
        self.number(&constant.value, &constant.file)
    }
}

impl Value {
    fn number(self) -> u128 {
        match self {
            Value::Count(it) | Value::Bytes(it) | Value::Millis(it) | Value::Pauses(it, _) => it,
        }
    }

    fn map(self, change: impl Fn(u128) -> u128) -> Self {
        match self {
            Value::Count(it) => Value::Count(change(it)),
            Value::Bytes(it) => Value::Bytes(change(it)),
            Value::Millis(it) => Value::Millis(change(it)),
            Value::Pauses(least, most) => Value::Pauses(change(least), change(most)),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let in_units = |f: &mut std::fmt::Formatter<'_>, it: u128, units: &[(u128, &str)]| {
            let unit = units.iter().find(|(size, _)| it >= *size && it.is_multiple_of(*size));
            let (size, name) = unit.unwrap_or(units.last().expect("a smallest unit"));
            write!(f, "{} {name}", grouped(it / size))
        };
        let millis = [
            (1_000 * 366 * 24 * 3_600, "years of 366 days"),
            (3_600_000, "h"),
            (60_000, "min"),
            (1_000, "s"),
            (1, "ms"),
        ];
        match *self {
            Value::Count(it) => f.write_str(&grouped(it)),
            Value::Bytes(it) => in_units(
                f,
                it,
                &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")],
            ),
            Value::Millis(it) => in_units(f, it, &millis),
            Value::Pauses(least, most) => {
                write!(f, "{}, doubling to {}", Value::Millis(least), Value::Millis(most))
            }
        }
    }
}

/// Splits an expression at the last of these operators that is not in parentheses.
fn split<'a>(
    text: &'a str,
    operators: &[&'static str],
) -> Option<(&'a str, &'static str, &'a str)> {
    let is_outside = |at: usize| text[..at].matches('(').count() == text[..at].matches(')').count();
    let found = operators.iter().flat_map(|operator| {
        text.match_indices(operator)
            .filter(|(at, _)| is_outside(*at))
            .map(move |(at, _)| (at, *operator))
    });
    let (at, operator) = found.max_by_key(|(at, _)| *at)?;
    Some((&text[..at], operator, &text[at + operator.len()..]))
}

/// The digits of a number in groups of three.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn values_are_shown_with_their_units() {
    for (value, expected) in [
        (Value::Count(200_000), "200,000"),
        (Value::Bytes(225 << 10), "225 KiB"),
        (Value::Bytes(253), "253 bytes"),
        (Value::Millis(250), "250 ms"),
        (Value::Millis(90_000), "90 s"),
        (Value::Millis(3_600_000), "1 h"),
        (Value::Pauses(1_000, 300_000), "1 s, doubling to 5 min"),
    ] {
        assert_eq!(value.to_string(), expected);
    }
}
