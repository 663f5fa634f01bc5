//! Standard streams and the properties of the terminal; a test uses buffers instead.

use std::io::{self, IsTerminal, Read, Write};

use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;

use fluxqueue_api::text;

/// The look of the output.
#[derive(Debug, Clone)]
pub struct Look {
    /// Columns of the terminal; `None` in a pipe, where no line is cut.
    pub width: Option<usize>,
    /// True if states are coloured.
    pub colours: bool,
    /// True if a person can answer a question.
    pub can_ask: bool,
    /// The zone of the times that are shown.
    pub zone: TimeZone,
}

/// The streams that a command reads and writes.
pub struct Console<'a> {
    input: Box<dyn Read + 'a>,
    out: Box<dyn Write + 'a>,
    err: Box<dyn Write + 'a>,
    /// The look of the output.
    pub look: Look,
}

impl Look {
    /// Returns the look of plain text in UTC, as in a pipe.
    pub fn plain() -> Self {
        Look { width: None, colours: false, can_ask: false, zone: TimeZone::UTC }
    }

    /// Returns the look that fits standard output.
    fn standard() -> Self {
        let out = io::stdout();
        let width = if out.is_terminal() { terminal_width() } else { None };
        let colours = anstream::AutoStream::choice(&out) != anstream::ColorChoice::Never;
        let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        Look { width, colours, can_ask, zone: TimeZone::system() }
    }

    /// Returns `text` in this style, if there are colours.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colours && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Returns the style of a state of a job.
pub(crate) fn style_of_state(state: &str) -> Style {
    let colour = match state {
        "Running" | "Completed" => AnsiColor::Green,
        "Starting" => AnsiColor::Cyan,
        "Held" | "Incomplete" => AnsiColor::Yellow,
        "Failed" | "Refused" | "Unsatisfiable" => AnsiColor::Red,
        _ => return Style::new(),
    };
    colour.on_default()
}

impl<'a> Console<'a> {
    /// Makes a console of the streams of the process.
    pub fn standard() -> Self {
        Console {
            input: Box::new(io::stdin()),
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            look: Look::standard(),
        }
    }

    /// Makes a console of other streams, with this look.
    pub fn new(
        input: impl Read + 'a,
        out: impl Write + 'a,
        err: impl Write + 'a,
        look: Look,
    ) -> Self {
        Console { input: Box::new(input), out: Box::new(out), err: Box::new(err), look }
    }

    /// Writes to standard output.
    pub(crate) fn print(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes bytes as they are, which only a pipe may get.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Flushes standard output.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    /// Writes a line to standard error.
    pub(crate) fn note(&mut self, line: &str) {
        // A reader that is gone misses nothing that matters.
        drop(writeln!(self.err, "{line}"));
    }

    /// Asks a question that is answered with yes or no; no answer is no.
    pub(crate) fn confirm(&mut self, question: &str) -> anyhow::Result<bool> {
        self.flush()?;
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        Ok(matches!(self.line()?.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Reads one line of the input, 1 KiB at most: it is an answer.
    fn line(&mut self) -> anyhow::Result<String> {
        const LINE_BYTES_MAX: usize = 1 << 10;
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.len() < LINE_BYTES_MAX && self.input.read(&mut byte)? == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads all of the input, as text.
    pub(crate) fn read_input(&mut self, bytes_max: u64) -> anyhow::Result<String> {
        let mut text = String::new();
        self.input.by_ref().take(bytes_max + 1).read_to_string(&mut text)?;
        anyhow::ensure!(text.len() as u64 <= bytes_max, "more than {bytes_max} bytes are not read");
        Ok(text)
    }

    /// Shows the error of a failed command.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        drop(self.flush());
        let line = format!("error: {}", said(error));
        self.note(&line);
    }

    /// Shows clap's message about the arguments; returns the exit code.
    pub(crate) fn usage(&mut self, error: &clap::Error) -> u8 {
        let rendered = error.render();
        let rendered =
            if self.look.colours { rendered.ansi().to_string() } else { rendered.to_string() };
        if error.use_stderr() {
            drop(self.err.write_all(rendered.as_bytes()));
        } else {
            drop(self.out.write_all(rendered.as_bytes()).and_then(|()| self.out.flush()));
        }
        u8::try_from(error.exit_code()).unwrap_or(crate::exit::FAILED)
    }
}

/// Returns an error and its causes in one line, without control characters. A cause that the line
/// ends with already is not repeated.
pub(crate) fn said(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    text::into_message(line)
}

/// True if the reader of the output has gone, as `head` does.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Returns JSON in which characters that a terminal would obey, or that hide others, are escaped:
/// the same value, in other letters. Such characters stand in strings alone.
pub(crate) fn plain_json(json: &str) -> String {
    use std::fmt::Write as _;
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_harmless(c) {
            plain.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        }
    }
    plain
}

/// True if a terminal shows this character and does nothing else.
pub(crate) fn is_harmless(c: char) -> bool {
    let mut bytes = [0; 4];
    matches!(text::name(c.encode_utf8(&mut bytes)), std::borrow::Cow::Borrowed(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn json_for_a_terminal_is_the_same_value_without_control_characters() {
        let value =
            serde_json::json!({ "a\u{9b}31m": "\u{1b}[2J \u{202e} größer \u{7f} \u{e0001}😀" });
        let json = plain_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(json.chars().all(|c| c == '\n' || is_harmless(c)), "{json}");
        assert!(json.contains("größer") && json.contains("\\u009b"), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }

    #[test]
    fn an_error_is_one_line_that_repeats_nothing() {
        let cause = anyhow::anyhow!("not\nfound\u{1b}[31m");
        let error = Err::<(), _>(cause).context("reading job lab/x").unwrap_err();
        assert_eq!(said(&error), r"reading job lab/x: not\nfound\u{1b}[31m");
        let twice = Err::<(), _>(anyhow::anyhow!("b")).context("a: b").unwrap_err();
        assert_eq!(said(&twice), "a: b");
    }

    #[test]
    fn no_answer_is_no() {
        for (input, is_yes) in [("", false), ("n\n", false), ("y\n", true), ("Yes\nn", true)] {
            let mut err = Vec::new();
            let mut console = Console::new(input.as_bytes(), io::sink(), &mut err, Look::plain());
            assert_eq!(console.confirm("Delete?").unwrap(), is_yes, "{input}");
            drop(console);
            assert_eq!(err, b"Delete? [y/N] ");
        }
    }
}
