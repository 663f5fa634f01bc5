//! Cases, from the packed corpus or from a folder.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// Cases, and the folder in which they run.
pub(crate) struct Corpus {
    pub(crate) cases: Vec<Case>,
    pub(crate) folder: PathBuf,
}

/// A run of the program.
pub(crate) struct Case {
    pub(crate) id: String,
    /// `{OUT}` stands for the file of -t.
    pub(crate) args: Vec<String>,
    pub(crate) stdin: String,
    pub(crate) exit: i64,
    /// Of the file of -t, or of standard output without one.
    pub(crate) expected: Vec<u8>,
}

impl Corpus {
    /// A compressed JSON document `{"files":{path:text},"cases":[...]}`, unpacked into a folder for
    /// tests.
    pub(crate) fn packed(bytes: &[u8]) -> Self {
        let document: Value = serde_json::from_slice(&unzipped(bytes)).expect("the corpus is JSON");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random");
        let files: BTreeMap<&str, &str> = document["files"]
            .as_object()
            .expect("files")
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str().expect("a text")))
            .collect();
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder"))
                .expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        let cases = document["cases"].as_array().expect("cases").iter().map(|case| {
            let expected = case["expected"].as_str().unwrap_or_default().as_bytes().to_vec();
            Case::of(case, case["exit"].as_i64(), expected)
        });
        Corpus { cases: cases.collect(), folder }
    }

    /// A folder with `cases.jsonl`, and what that names. Cases run in a mirror of it: some write a
    /// file where they are.
    pub(crate) fn folder(folder: &Path) -> Self {
        let lines =
            std::fs::read_to_string(folder.join("cases.jsonl")).expect("cases.jsonl can be read");
        let cases = lines.lines().filter(|line| !line.is_empty()).map(|line| {
            let case: Value = serde_json::from_str(line).expect("a case is JSON");
            let expected = case["expected_output_file"].as_str().map_or_else(Vec::new, |file| {
                let bytes = std::fs::read(folder.join(file)).expect("an expectation can be read");
                if Path::new(file).extension().is_some_and(|end| end == "gz") {
                    unzipped(&bytes)
                } else {
                    bytes
                }
            });
            Case::of(&case, case["expected_exit"].as_i64(), expected)
        });
        Corpus { cases: cases.collect(), folder: mirror(folder) }
    }
}

/// A folder of links to all that lies in another.
fn mirror(folder: &Path) -> PathBuf {
    let mirror = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mirror");
    let _ = std::fs::remove_dir_all(&mirror);
    std::fs::create_dir_all(&mirror).expect("a folder can be made");
    let folder = folder.canonicalize().expect("it is there");
    for entry in std::fs::read_dir(folder).expect("it can be read") {
        let entry = entry.expect("an entry");
        std::os::unix::fs::symlink(entry.path(), mirror.join(entry.file_name()))
            .expect("a link can be made");
    }
    mirror
}

impl Case {
    fn of(case: &Value, exit: Option<i64>, expected: Vec<u8>) -> Self {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        Case {
            id: text(&case["id"]),
            args: case["args"].as_array().expect("args").iter().map(text).collect(),
            stdin: text(&case["stdin"]),
            exit: exit.expect("an exit status"),
            expected,
        }
    }
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut all).expect("it is gzip");
    all
}
