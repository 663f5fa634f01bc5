//! The fields of a mapping, and values of the kinds that they must have.

use std::borrow::Cow;
use std::fmt::Display;

use super::Hold;
use crate::Error;
use crate::limits::{Limit, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::tree::{Value, wrong};

/// The longest duration: the width of Fluxion's graph window, 100 years.
const DURATION_SECONDS_MAX: f64 = 3_153_600_000.0;

pub(super) type Fields<'a> = [(Cow<'a, str>, Value<'a>)];

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to lie in 0..=100 years"
)]
pub(super) fn hold(value: &Value<'_>, at: impl Display) -> Result<Hold, Error> {
    let seconds = value.float().ok_or_else(|| wrong(value, at, "not a number"))?;
    if !(0.0..=DURATION_SECONDS_MAX).contains(&seconds) {
        return Ok(Hold::Refused);
    }
    Ok(if seconds == 0.0 { Hold::Endless } else { Hold::Seconds(seconds.ceil() as u64) })
}

pub(super) fn bool_of(value: &Value<'_>, at: impl Display) -> Result<bool, Error> {
    match value.text().as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(wrong(value, at, "neither true nor false")),
    }
}

pub(super) fn map<'n, 'a>(value: &'n Value<'a>, at: impl Display) -> Result<&'n Fields<'a>, Error> {
    value.map().ok_or_else(|| wrong(value, at, "not a mapping"))
}

pub(super) fn list<'n, 'a>(
    value: &'n Value<'a>,
    at: impl Display,
) -> Result<&'n [Value<'a>], Error> {
    value.list().ok_or_else(|| wrong(value, at, "not a list"))
}

pub(super) fn scalar<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    value.text().ok_or_else(|| wrong(value, at, "not a scalar"))
}

/// A name, or a label.
pub(super) fn name<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    limited(value, at, NAME_BYTES_MAX)
}

/// The name of a part, which may be the path of a vertex.
pub(super) fn path<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    limited(value, at, PATH_BYTES_MAX)
}

fn limited<'n>(
    value: &'n Value<'_>,
    at: impl Display,
    limit: Limit,
) -> Result<Cow<'n, str>, Error> {
    let text = scalar(value, &at)?;
    if limit.allows(text.len()) {
        Ok(text)
    } else {
        Err(wrong(value, at, format_args!("more than {limit}")))
    }
}

pub(super) fn get<'n, 'a>(fields: &'n Fields<'a>, name: &str) -> Option<&'n Value<'a>> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

pub(super) fn require<'n, 'a>(
    of: &Value<'_>,
    fields: &'n Fields<'a>,
    at: impl Display,
    name: &str,
) -> Result<&'n Value<'a>, Error> {
    get(fields, name).ok_or_else(|| wrong(of, at, format_args!("{name}: missing")))
}

pub(super) fn only(fields: &Fields<'_>, at: impl Display, known: &[&str]) -> Result<(), Error> {
    match fields.iter().find(|(key, _)| !known.contains(&&**key)) {
        Some((key, value)) => Err(wrong(value, at, format_args!("{key}: unknown key"))),
        None => Ok(()),
    }
}
