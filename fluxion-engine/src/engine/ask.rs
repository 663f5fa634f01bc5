//! A request in the form in which it is searched for, and a place for it.

use super::alternatives;
use super::options::Options;
use crate::Error;
use crate::book::Book;
use crate::jobspec::{Hold, Jobspec};
use crate::policy::Policy;
use crate::pools::Tenancy;
use crate::slot_search::flat;
use crate::time::WINDOW_SECONDS;
use crate::vertex_search::{Request, Selection, Traverser};

/// A request, ready to be tried at several moments.
pub(super) struct Ask<'a> {
    pub(super) spec: &'a Jobspec,
    pub(super) form: Form<'a>,
    pub(super) policy: Policy,
}

pub(super) enum Form<'a> {
    /// Slots of pool units.
    Flat(flat::SlotRequest<'a>),
    /// Alternatives, tried in order; nearly always one.
    Walk(Vec<Request>),
}

/// A place for all of a request.
pub(super) enum Found {
    Flat(Vec<flat::Pick>),
    /// Vertices, and which alternative of the request they serve.
    Walk(Selection, usize),
}

impl<'a> Ask<'a> {
    /// The request in the form in which it is searched for.
    pub(super) fn of(book: &Book, options: &Options, spec: &'a Jobspec) -> Result<Self, Error> {
        let graph = book.graph();
        let policy = spec.extras.policy.unwrap_or(options.policy);
        let flat = if graph.has_pool_types() { flat::SlotRequest::of(graph, spec)? } else { None };
        let form = match flat {
            Some(request) => Form::Flat(request),
            None => {
                let extras = &spec.extras;
                let is_plain = extras.prefer.is_empty()
                    && extras.max_per_node.is_empty()
                    && extras.slots.is_empty();
                let is_plain = is_plain && extras.tenancy == Tenancy::Shared;
                if !is_plain || !extras.levels.is_empty() || extras.not_before.is_some() {
                    let text = "attributes.system.fluxion: prefer, max_per_node, slots, levels, \
                                tenant, guest and not_before need slots of pool units";
                    return Err(Error::invalid(text));
                }
                if policy.by_fill().is_some() {
                    return Err(Error::invalid(
                        "policy: binpack and spread need slots of pool units",
                    ));
                }
                Form::Walk(alternatives_of(book, options, spec)?)
            }
        };
        Ok(Ask { spec, form, policy })
    }

    /// The longest time for which it holds anything.
    pub(super) fn longest(&self) -> Hold {
        match &self.form {
            Form::Flat(request) => request.longest(),
            Form::Walk(_) => self.spec.hold,
        }
    }
}

/// The requests that a jobspec stands for: one, unless an `xor_slot` leaves a choice.
fn alternatives_of(book: &Book, options: &Options, spec: &Jobspec) -> Result<Vec<Request>, Error> {
    let (graph, filters) = (book.graph(), &book.schedule().filters);
    if options.traverser == Traverser::Simple {
        return Ok(vec![Request::of(graph, filters, spec, false)?]);
    }
    let mut requests = Vec::new();
    for resources in alternatives::of(&spec.resources)? {
        requests.push(Request::of(graph, filters, &Jobspec { resources, ..spec.clone() }, true)?);
    }
    Ok(requests)
}

/// For how long a job needs its resources.
pub(super) fn seconds(hold: Hold) -> i64 {
    match hold {
        Hold::Seconds(seconds) => i64::try_from(seconds).unwrap_or(WINDOW_SECONDS),
        _ => WINDOW_SECONDS,
    }
}
