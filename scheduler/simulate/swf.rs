//! The Standard Workload Format, version 2.2: a trace of jobs, one a line, as 18 numbers.
//!
//! Lines that begin with `;` are comments; of these the ones at the top of the form `; Label: text` are header fields.
//! -1 stands for what is not known. A job that was swapped out has a line for the whole of it, and others with status 2, 3 or 4
//! for its parts: the parts are no jobs.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::RangeInclusive;

/// The fields of a line, as the standard names them.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "number of allocated processors",
    "average CPU time used",
    "used memory",
    "requested number of processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job number",
    "think time",
];

/// The longest time that is believed, in seconds: 100 years. More is another unit, or a mistake.
const SECONDS_MAX: i64 = 100 * 366 * 24 * 3600;

/// What a trace says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Header fields by their labels: `MaxProcs`, `Computer` and others. Where one is repeated, its texts in order.
    pub header: BTreeMap<String, Vec<String>>,
    /// Jobs in the order of their lines.
    pub jobs: Vec<TraceJob>,
    /// Lines that tell of a part of a job.
    pub parts: usize,
}

/// A line of a trace, as far as it is used here. `None` stands for what the trace does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceJob {
    /// Its number: field 1.
    pub number: u64,
    /// When it was submitted, in seconds from the beginning of the trace: field 2.
    pub submit: u64,
    /// How many processors it asks for: field 8, else how many it got, field 5.
    pub size: Option<u64>,
    /// For how long, in seconds: field 9, else how long it ran.
    pub walltime: Option<u64>,
    /// How long it ran, in seconds: field 4.
    pub run: Option<u64>,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be opened, or read to its end.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A field is not what the standard says.
    #[error("{file}:{line}: field {field} ({name}): {problem}")]
    Field {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        field: usize,
        /// The field's name.
        name: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// There are more or fewer than 18.
    #[error("{file}:{line}: has {found} fields, and should have 18{missing}")]
    Count {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// How many there are.
        found: usize,
        /// Which is the first that is missing.
        missing: String,
    },
    /// Two jobs have the same number.
    #[error("{file}:{line}: field 1 (job number): job {number} is there already, on line {first}")]
    Repeated {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The number.
        number: u64,
        /// Where it is first.
        first: usize,
    },
}

// === impl Trace ===

impl Trace {
    /// Reads a trace; `file` is its name, for messages.
    pub fn read(file: &str, input: impl BufRead) -> Result<Self, TraceError> {
        let mut trace = Trace::default();
        let mut lines: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, text) in input.lines().enumerate() {
            let line = at + 1;
            let text = text.map_err(|source| TraceError::Unreadable { file: file.to_owned(), source })?;
            let text = text.trim();
            if let Some(comment) = text.strip_prefix(';') {
                if trace.jobs.is_empty() {
                    trace.note_header(comment);
                }
                continue;
            }
            if text.is_empty() {
                continue;
            }
            let fields = Fields::read(file, line, text)?;
            if fields.is_part() {
                trace.parts += 1;
                continue;
            }
            let job = fields.job()?;
            if let Some(first) = lines.insert(job.number, line) {
                return Err(TraceError::Repeated { file: file.to_owned(), line, number: job.number, first });
            }
            trace.jobs.push(job);
        }
        Ok(trace)
    }

    /// `Label: text`. Anything else is a remark.
    fn note_header(&mut self, comment: &str) {
        let Some((label, text)) = comment.split_once(':') else { return };
        let label = label.trim();
        if !label.is_empty() && label.chars().all(|character| character.is_ascii_alphanumeric()) {
            self.header.entry(label.to_owned()).or_default().push(text.trim().to_owned());
        }
    }

    /// How many processors the machine had, by the header; nodes, if it does not tell processors from nodes.
    pub fn processors(&self) -> Option<u64> {
        ["MaxProcs", "MaxNodes"].iter().find_map(|label| {
            // "128 (64 thin, 64 wide)" is usual.
            let number = self.header.get(*label)?.first()?.split_whitespace().next()?;
            number.parse().ok().filter(|number| *number > 0)
        })
    }
}

/// A line, all of whose fields are numbers.
struct Fields<'a> {
    file: &'a str,
    line: usize,
    texts: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(file: &'a str, line: usize, text: &'a str) -> Result<Self, TraceError> {
        let read = Fields { file, line, texts: text.split_whitespace().collect() };
        for (at, field) in read.texts.iter().take(FIELDS.len()).enumerate() {
            // Averages have fractions; what is used here has none, which is seen to where it is used.
            if field.parse::<f64>().is_err() {
                return Err(read.wrong(at + 1, format!("{field:?} is no number")));
            }
        }
        if read.texts.len() != FIELDS.len() {
            let found = read.texts.len();
            let missing = FIELDS.get(found).map(|name| format!(": field {} ({name}) is missing", found + 1));
            let missing = missing.unwrap_or_default();
            return Err(TraceError::Count { file: file.to_owned(), line, found, missing });
        }
        Ok(read)
    }

    /// It tells of a part of a job that was swapped out.
    fn is_part(&self) -> bool {
        matches!(self.texts[10], "2" | "3" | "4")
    }

    fn job(&self) -> Result<TraceJob, TraceError> {
        let run = self.positive(4, SECONDS_MAX)?;
        Ok(TraceJob {
            number: self.natural(1, 0..=i64::MAX)?,
            submit: self.natural(2, 0..=SECONDS_MAX)?,
            size: self.positive(8, i64::MAX)?.or(self.positive(5, i64::MAX)?),
            walltime: self.positive(9, SECONDS_MAX)?.or(run),
            run,
        })
    }

    /// What must be known.
    fn natural(&self, field: usize, range: RangeInclusive<i64>) -> Result<u64, TraceError> {
        let number = self.whole(field)?;
        if !range.contains(&number) {
            let (least, most) = range.into_inner();
            return Err(self.wrong(field, format!("{number} is not between {least} and {most}")));
        }
        Ok(number.unsigned_abs())
    }

    /// What may be unknown: -1, or 0 where nothing makes no sense.
    fn positive(&self, field: usize, most: i64) -> Result<Option<u64>, TraceError> {
        let number = self.whole(field)?;
        if number > most {
            return Err(self.wrong(field, format!("{number} is more than {most}")));
        }
        Ok(u64::try_from(number).ok().filter(|number| *number > 0))
    }

    fn whole(&self, field: usize) -> Result<i64, TraceError> {
        let text = self.texts[field - 1];
        text.parse().map_err(|_| self.wrong(field, format!("{text:?} is no whole number")))
    }

    fn wrong(&self, field: usize, problem: String) -> TraceError {
        let name = FIELDS[field - 1];
        TraceError::Field { file: self.file.to_owned(), line: self.line, field, name, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read("a.swf", text.as_bytes()).map_err(|error| error.to_string())
    }

    fn job(number: u64, submit: u64, size: u64, walltime: u64, run: u64) -> TraceJob {
        TraceJob { number, submit, size: Some(size), walltime: Some(walltime), run: Some(run) }
    }

    #[test]
    fn jobs_are_read_with_the_fields_that_stand_in_for_others() {
        let trace = read(
            "; Computer: a small one\n;MaxProcs: 128 (all alike)\n; Note: this\n; Note: and that\n; no header\n\n\
             1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n\
             \t2  7 5  100 4 12.5 -1 -1 -1 -1 0 1 1 1 1 1 -1 -1\n\
             ; Computer: not a header any more\n\
             3 7 5 -1 -1 -1 -1 0 0 -1 5 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        let unknown = TraceJob { number: 3, submit: 7, size: None, walltime: None, run: None };
        assert_eq!(trace.jobs, [job(1, 0, 8, 200, 100), job(2, 7, 4, 100, 100), unknown]);
        assert_eq!(trace.header["Computer"], ["a small one"]);
        assert_eq!(trace.header["Note"], ["this", "and that"]);
        assert_eq!(trace.processors(), Some(128));
    }

    #[test]
    fn parts_of_a_job_that_was_swapped_out_are_no_jobs() {
        let trace = read(
            "1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n\
             1 0 5 60 4 -1 -1 8 200 -1 2 1 1 1 1 1 -1 -1\n\
             1 -1 5 40 4 -1 -1 8 200 -1 3 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        assert_eq!((trace.jobs, trace.parts), (vec![job(1, 0, 8, 200, 100)], 2));
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_and_field() {
        let cases = [
            ("1 0 5\n", "a.swf:1: has 3 fields, and should have 18: field 4 (run time) is missing"),
            ("; x\n1 0 5 10 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1 9\n", "a.swf:2: has 19 fields, and should have 18"),
            ("\n1 0 5 ten 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n", "a.swf:2: field 4 (run time): \"ten\" is no number"),
            (
                "1 0 5 9.5 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 4 (run time): \"9.5\" is no whole number",
            ),
            (
                "1 -1 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 2 (submit time): -1 is not between 0 and 3162240000",
            ),
            (
                "1 0 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n1 0 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:2: field 1 (job number): job 1 is there already, on line 1",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(read(text).unwrap_err(), error);
        }
    }
}
