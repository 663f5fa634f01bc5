//! The Standard Workload Format, version 2.2: a trace of jobs, one a line, as 18 numbers.
//!
//! Lines that begin with `;` are comments; of these the ones at the top of the form `; Label: text`
//! are header fields. -1 stands for an unknown value. A job that was swapped out has a line for the
//! whole of it, and others with status 2, 3 or 4 for its parts, which are no jobs. Traces that have
//! only the parts exist; there each part is a job.
//!
//! Files from archives are read wherever they have one meaning: comments in any encoding, times
//! with decimals, more fields than 18, several jobs of one number, any line ends, a byte order
//! mark. The rest is an error that names the line: a number that is written with separators has two
//! meanings, and a file that is compressed or in UTF-16 would seem to have no jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use fluxqueue_api::text::quoted;

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

/// The longest time that is credible, in seconds: 100 years, which is as far as the graph plans. A
/// longer run time has another unit, or is a mistake; but a longer walltime means "no limit".
const SECONDS_MAX: i64 = 100 * 365 * 24 * 3600;
/// The limit up to which every whole number is exact as a decimal.
const DECIMAL_MAX: f64 = 9_007_199_254_740_992.0;

/// The first bytes of files that are not plain text, and their formats.
const NOT_PLAIN: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "gzip: unpack it first, as with `gzip -d`"),
    (b"\x1f\x9d", "compress: unpack it first, as with `gzip -d`"),
    (b"BZh", "bzip2: unpack it first, as with `bzip2 -d`"),
    (b"\xfd7zXZ", "xz: unpack it first, as with `xz -d`"),
    (b"\x28\xb5\x2f\xfd", "zstd: unpack it first, as with `zstd -d`"),
    (b"PK\x03\x04", "zip: unpack it first, as with `unzip`"),
    (b"\xff\xfe", "UTF-16: convert it first, as with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "UTF-16: convert it first, as with `iconv -f UTF-16 -t UTF-8`"),
];

/// The byte order mark of UTF-8, which some editors put first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Header fields with the size of the machine. The first that is present counts.
const MACHINE_SIZES: [&str; 2] = ["MaxProcs", "MaxNodes"];

/// The content of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Header fields by their labels: `MaxProcs`, `Computer` and others. A repeated field has its
    /// texts in order, each with its line.
    pub header: BTreeMap<String, Vec<(usize, String)>>,
    /// Jobs in the order of their lines. Several may have the same number.
    pub jobs: Vec<TraceJob>,
    /// The number of lines left out because they describe a part of a job that has a line for the
    /// whole of it.
    pub parts: usize,
}

/// A line of a trace, with the fields that are used here. `None` stands for an unknown value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceJob {
    /// Its number: field 1.
    pub number: u64,
    /// The submit time, in seconds from the beginning of the trace: field 2.
    pub submit: Option<u64>,
    /// The number of processors that it asks for: field 8, else the number that it got, field 5.
    pub size: Option<u64>,
    /// The requested time, in seconds: field 9, else its run time.
    pub walltime: Option<u64>,
    /// The run time, in seconds: field 4.
    pub run: Option<u64>,
}

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, or not be read to its end.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is compressed, or in another encoding.
    #[error("{file}:1: this is not plain text but {what}")]
    NotPlain {
        /// The file.
        file: String,
        /// The format, and a remedy.
        what: &'static str,
    },
    /// A header field with the size of the machine cannot be read.
    #[error(
        "{file}:{line}: header field {label}: {text} is not a whole number: correct it, or give \
         --nodes"
    )]
    Header {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The field's label.
        label: &'static str,
        /// The text of the field, quoted.
        text: String,
    },
    /// A field breaks the standard.
    #[error("{file}:{line}: field {field} ({name}): {problem}")]
    Field {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The field, counted from 1.
        field: usize,
        /// The field's name.
        name: &'static str,
        /// The fault.
        problem: String,
    },
    /// A line has fewer than 18 fields.
    #[error(
        "{file}:{line}: has {found} fields, and should have 18: field {} ({missing}) is missing",
        .found + 1
    )]
    Count {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The number of fields.
        found: usize,
        /// The name of the first that is missing.
        missing: &'static str,
    },
}

/// The way in which a decimal becomes a whole number.
#[derive(Debug, Clone, Copy)]
enum Round {
    Down,
    Up,
    /// The number must be whole.
    Never,
}

// === impl Trace ===

impl Trace {
    /// Reads a trace; `file` is its name, for messages.
    pub fn read(file: &str, mut input: impl BufRead) -> Result<Self, TraceError> {
        let mut trace = Trace::default();
        // Each line, and true if it is a part of a job.
        let mut lines: Vec<(TraceJob, bool)> = Vec::new();
        let unreadable = |source| TraceError::Unreadable { file: file.to_owned(), source };
        let start = input.fill_buf().map_err(unreadable)?;
        if let Some((_, what)) = NOT_PLAIN.iter().find(|(begins, _)| start.starts_with(begins)) {
            return Err(TraceError::NotPlain { file: file.to_owned(), what });
        }
        if start.starts_with(BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        let (mut bytes, mut line) = (Vec::new(), 0);
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
                break;
            }
            // A line may end in a carriage return alone, as on old Macs.
            let read = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            for bytes in read.strip_suffix(b"\r").unwrap_or(read).split(|byte| *byte == b'\r') {
                line += 1;
                // Comments of old traces are in other encodings than UTF-8.
                let text = String::from_utf8_lossy(bytes);
                let text = text.trim();
                if let Some(comment) = text.strip_prefix(';') {
                    if lines.is_empty() {
                        trace.note_header(line, comment);
                    }
                } else if !text.is_empty() {
                    let fields = Fields::read(file, line, text)?;
                    lines.push((fields.job()?, fields.is_part()));
                }
            }
        }
        trace.keep_jobs(&lines);
        Ok(trace)
    }

    /// Leaves out parts of jobs that have a line of their own.
    fn keep_jobs(&mut self, lines: &[(TraceJob, bool)]) {
        let whole: BTreeSet<u64> =
            lines.iter().filter(|(_, is_part)| !is_part).map(|(job, _)| job.number).collect();
        let jobs = lines.iter().filter(|(job, is_part)| !(*is_part && whole.contains(&job.number)));
        self.jobs = jobs.map(|(job, _)| *job).collect();
        self.parts = lines.len() - self.jobs.len();
    }

    /// Notes a header field: `Label: text`. Any other comment is a remark.
    fn note_header(&mut self, line: usize, comment: &str) {
        if let Some((label, text)) = comment.split_once(':') {
            let label = label.trim();
            if !label.is_empty() && label.chars().all(|character| character.is_ascii_alphanumeric())
            {
                self.header
                    .entry(label.to_owned())
                    .or_default()
                    .push((line, text.trim().to_owned()));
            }
        }
    }

    /// Returns the number of processors of the machine by the header, or of nodes, if it does not
    /// tell processors from nodes. `None` if it has neither. A field that cannot be read is an
    /// error: the next one may be about another machine. `file` is for the message.
    pub fn processors(&self, file: &str) -> Result<Option<u32>, TraceError> {
        for label in MACHINE_SIZES {
            // The header need not have both sizes.
            let Some((line, said)) = self.header.get(label).and_then(|said| said.first()) else {
                continue;
            };
            // "128 (64 thin, 64 wide)" is usual.
            let number = said.split_whitespace().next().unwrap_or_default();
            match number.parse::<i64>().map(|number| (number, u32::try_from(number))) {
                Ok((_, Ok(number))) if number > 0 => return Ok(Some(number)),
                // The standard writes unknown values like this.
                Ok((..=0, _)) => {}
                _ => {
                    let (file, text) = (file.to_owned(), quoted(said));
                    return Err(TraceError::Header { file, line: *line, label, text });
                }
            }
        }
        Ok(None)
    }
}

/// A line that has only numbers as fields.
struct Fields<'a> {
    file: &'a str,
    line: usize,
    texts: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(file: &'a str, line: usize, text: &'a str) -> Result<Self, TraceError> {
        let read = Fields { file, line, texts: text.split_whitespace().collect() };
        for (at, field) in read.texts.iter().take(FIELDS.len()).enumerate() {
            // C and Rust accept other numbers, such as `nan` and `inf`, and the standard does not.
            if !field.parse::<f64>().is_ok_and(f64::is_finite) {
                return Err(
                    read.wrong(at + 1, format!("{} is not a number{}", quoted(field), hint(field)))
                );
            }
        }
        match FIELDS.get(read.texts.len()) {
            Some(missing) => {
                let found = read.texts.len();
                Err(TraceError::Count { file: file.to_owned(), line, found, missing })
            }
            // Some archives add fields of their own.
            None => Ok(read),
        }
    }

    /// True if the line describes a part of a job that was swapped out.
    fn is_part(&self) -> bool {
        matches!(self.texts[10].parse(), Ok(2.0 | 3.0 | 4.0))
    }

    fn job(&self) -> Result<TraceJob, TraceError> {
        let run = self.positive(4, SECONDS_MAX)?;
        let submit = self.at_most(2, SECONDS_MAX, Round::Down)?;
        Ok(TraceJob {
            number: self.number()?,
            submit: u64::try_from(submit).ok(),
            size: self.positive(8, i64::MAX)?.or(self.positive(5, i64::MAX)?),
            walltime: self
                .positive(9, i64::MAX)?
                .map(|walltime| walltime.min(SECONDS_MAX.unsigned_abs()))
                .or(run),
            run,
        })
    }

    /// Returns the job's number, which must be known.
    fn number(&self) -> Result<u64, TraceError> {
        let number = self.at_most(1, i64::MAX, Round::Never)?;
        u64::try_from(number).map_err(|_| self.wrong(1, format!("{number} is less than 0")))
    }

    /// Returns a value that may be unknown: -1, or 0 where a value of 0 makes no sense. A part of a
    /// second or processor counts as a whole one.
    fn positive(&self, field: usize, most: i64) -> Result<Option<u64>, TraceError> {
        let number = self.at_most(field, most, Round::Up)?;
        Ok(u64::try_from(number).ok().filter(|number| *number > 0))
    }

    fn at_most(&self, field: usize, most: i64, round: Round) -> Result<i64, TraceError> {
        let number = self.whole(field, round)?;
        if number > most {
            return Err(self.wrong(field, format!("{number} is more than {most}")));
        }
        Ok(number)
    }

    fn whole(&self, field: usize, round: Round) -> Result<i64, TraceError> {
        let text = self.texts[field - 1];
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        let no_whole = || self.wrong(field, format!("{} is not a whole number", quoted(text)));
        let decimal: f64 = text.parse().map_err(|_| no_whole())?;
        let rounded = match round {
            Round::Down => decimal.floor(),
            Round::Up => decimal.ceil(),
            Round::Never if decimal.fract() == 0.0 => decimal,
            Round::Never => return Err(no_whole()),
        };
        if !(-DECIMAL_MAX..=DECIMAL_MAX).contains(&rounded) {
            return Err(self.wrong(field, format!("{} is out of range", quoted(text))));
        }
        #[allow(clippy::cast_possible_truncation, reason = "it is whole, and in range")]
        Ok(rounded as i64)
    }

    fn wrong(&self, field: usize, problem: String) -> TraceError {
        let name = FIELDS[field - 1];
        TraceError::Field { file: self.file.to_owned(), line: self.line, field, name, problem }
    }
}

/// Explains a field that is not a number, if the mistake is a usual one.
fn hint(field: &str) -> &'static str {
    match field {
        _ if field.starts_with('#') => ": a comment begins with `;`",
        _ if field.contains(',') => {
            ": fields are separated by spaces, and numbers have no separators"
        }
        _ if field.contains('\0') => {
            ": the file has bytes that are 0, as in UTF-16 or after a crash of the machine"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read("a.swf", text.as_bytes()).map_err(|error| error.to_string())
    }

    fn job(number: u64, submit: u64, size: u64, walltime: u64, run: u64) -> TraceJob {
        TraceJob {
            number,
            submit: Some(submit),
            size: Some(size),
            walltime: Some(walltime),
            run: Some(run),
        }
    }

    #[test]
    fn jobs_are_read_with_the_fields_that_stand_in_for_others() {
        let trace = read(
            "; Computer: a small one\n;MaxProcs: 128 (all alike)\n; Note: this\n; Note: and that\n\
             ; no header\n\n\
             1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n\
             \t2  7 5  100 4 12.5 -1 -1 -1 -1 0 1 1 1 1 1 -1 -1\n\
             ; Computer: not a header any more\n\
             3 7 5 -1 -1 -1 -1 0 0 -1 5 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        let unknown =
            TraceJob { number: 3, submit: Some(7), size: None, walltime: None, run: None };
        assert_eq!(trace.jobs, [job(1, 0, 8, 200, 100), job(2, 7, 4, 100, 100), unknown]);
        assert_eq!(trace.header["Computer"], [(1, "a small one".to_owned())]);
        assert_eq!(trace.header["Note"], [(3, "this".to_owned()), (4, "and that".to_owned())]);
        assert_eq!(trace.processors("a.swf").unwrap(), Some(128));
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
    fn parts_are_jobs_without_a_line_for_the_whole() {
        let trace = read(
            "1 0 5 60 4 -1 -1 8 200 -1 2 1 1 1 1 1 -1 -1\n\
             2 0 5 40 4 -1 -1 8 200 -1 3.0 1 1 1 1 1 -1 -1\n\
             1 -1 5 40 4 -1 -1 8 200 -1 4 1 1 1 1 1 -1 -1\n\
             2 0 5 100 4 -1 -1 8 200 -1 -1 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        let last = TraceJob { submit: None, ..job(1, 0, 8, 200, 40) };
        assert_eq!(
            (trace.jobs, trace.parts),
            (vec![job(1, 0, 8, 200, 60), last, job(2, 0, 8, 200, 100)], 1)
        );
    }

    #[test]
    fn comments_may_be_in_any_encoding() {
        let text = b"; Installation: Universit\xe9\r\n; MaxProcs: 64\r\n\
            1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\xa0";
        let error = Trace::read("a.swf", &text[..]).unwrap_err().to_string();
        assert_eq!(error, "a.swf:3: field 18 (think time): \"-1\u{fffd}\" is not a number");
        let trace = Trace::read("a.swf", &text[..text.len() - 1]).unwrap();
        assert_eq!(
            (trace.processors("a.swf").unwrap(), trace.jobs),
            (Some(64), vec![job(1, 0, 8, 200, 100)])
        );
    }

    /// A job of less than a second runs, and no job is ended earlier than it asked for.
    #[test]
    fn decimals_are_rounded() {
        let trace = read(
            "1.0 7.9 5.5 0.2 4 1.5 -1.0 7.5 199.01 -1 1 1 1 1 1 1 -1 -1\n\
             2 7.0 5 100.0 8.0 -1 -1 -1.0 0.0 -1 1 1 1 1 1 1 -1 -1\n\
             3 -0.5 5 -0.5 -1 -1 -1 -1 1e2 -1 1 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        let unknown =
            TraceJob { number: 3, submit: None, size: None, walltime: Some(100), run: None };
        assert_eq!(trace.jobs, [job(1, 7, 8, 200, 1), job(2, 7, 8, 100, 100), unknown]);
    }

    #[test]
    fn fields_after_the_last_do_not_count_and_numbers_may_repeat() {
        let trace = read(
            "1 0 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1 9 gpu:2\n\
             1 3 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
        )
        .unwrap();
        assert_eq!(trace.jobs, [job(1, 0, 8, 200, 9), job(1, 3, 8, 200, 9)]);
    }

    #[test]
    fn a_walltime_too_long_to_be_planned_is_no_limit() {
        let trace = read("1 0 5 9 4 -1 -1 8 4294967295 -1 1 1 1 1 1 1 -1 -1\n").unwrap();
        assert_eq!(trace.jobs, [job(1, 0, 8, 3_153_600_000, 9)]);
    }

    #[test]
    fn a_fault_is_named_with_file_line_and_field() {
        let cases = [
            ("1 0 5\n", "a.swf:1: has 3 fields, and should have 18: field 4 (run time) is missing"),
            (
                "\n1 0 5 ten 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:2: field 4 (run time): \"ten\" is not a number",
            ),
            (
                "1.5 0 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 1 (job number): \"1.5\" is not a whole number",
            ),
            (
                "-1 0 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 1 (job number): -1 is less than 0",
            ),
            (
                "1 0 5 9 4 -1 -1 8 nan -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 9 (requested time): \"nan\" is not a number",
            ),
            (
                "1 0 inf 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 3 (wait time): \"inf\" is not a number",
            ),
            (
                "1 0 5 9 4 -1 -1 8 1e17 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 9 (requested time): \"1e17\" is out of range",
            ),
            (
                "1 0 5 9 4 -1 -1 9,216 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 8 (requested number of processors): \"9,216\" is not a number: \
                 fields are separated by spaces, and \
                 numbers have no separators",
            ),
            (
                "# MaxProcs: 8\n",
                "a.swf:1: field 1 (job number): \"#\" is not a number: a comment begins with `;`",
            ),
            (
                "1 5000000000 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n",
                "a.swf:1: field 2 (submit time): 5000000000 is more than 3153600000",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(read(text).unwrap_err(), error);
        }
    }

    #[test]
    fn line_ends_of_all_systems_and_a_byte_order_mark_are_read() {
        let lines = [
            "; MaxProcs: 8",
            "1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1",
            "2 1 5 9 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1",
        ];
        let plain = read(&lines.join("\n")).unwrap();
        assert_eq!((plain.jobs.len(), plain.processors("a.swf").unwrap()), (2, Some(8)));
        for ends in ["\r", "\r\n"] {
            assert_eq!(read(&lines.join(ends)).unwrap(), plain);
            assert_eq!(read(&(lines.join(ends) + ends)).unwrap(), plain);
        }
        assert_eq!(read(&("\u{feff}".to_owned() + &lines.join("\n"))).unwrap(), plain);
        let error = read(&[lines[0], "", "x"].join("\r")).unwrap_err();
        assert_eq!(error, "a.swf:3: field 1 (job number): \"x\" is not a number");
    }

    #[test]
    fn other_formats_are_named_and_shown_in_few_words() {
        let told = |bytes: &[u8]| Trace::read("a.swf", bytes).unwrap_err().to_string();
        assert_eq!(
            told(b"\x1f\x8b\x08\0\0\0"),
            "a.swf:1: this is not plain text but gzip: unpack it first, as with `gzip -d`"
        );
        let text = "; MaxProcs: 8\n1 0 5";
        let utf16: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert!(
            told(&utf16)
                .starts_with("a.swf:1: this is not plain text but UTF-16: convert it first"),
            "{}",
            told(&utf16)
        );
        // Without its mark it still has the comment character, and no job is left out silently.
        assert!(
            told(&utf16[2..]).contains("the file has bytes that are 0, as in UTF-16"),
            "{}",
            told(&utf16[2..])
        );
        let hole = told(&[0; 4096]);
        assert!(hole.starts_with("a.swf:1: field 1 (job number)") && hole.len() < 500, "{hole}");
    }

    #[test]
    fn the_size_of_the_machine_is_read_or_an_error() {
        let size = |header: &str| {
            read(header).unwrap().processors("a.swf").map_err(|error| error.to_string())
        };
        assert_eq!(size("; MaxNodes: 4\n; MaxProcs: 8\n"), Ok(Some(8)));
        assert_eq!(size("; MaxNodes: 4\n; MaxProcs: -1\n"), Ok(Some(4)), "-1 means unknown");
        assert_eq!(size("; MaxNodes: -1\n; Max Procs: 4\n"), Ok(None));
        for (number, quoted) in [
            ("9,216", "9,216"),
            ("8+8", "8+8"),
            ("", ""),
            ("4294967296", "4294967296"),
            ("8.5 x", "8.5 x"),
        ] {
            let error = size(&format!("; MaxNodes: 4\n; MaxProcs: {number}\n")).unwrap_err();
            let expected = format!(
                "a.swf:2: header field MaxProcs: \"{quoted}\" is not a whole number: correct it, \
                 or give --nodes"
            );
            assert_eq!(error, expected);
        }
    }
}
