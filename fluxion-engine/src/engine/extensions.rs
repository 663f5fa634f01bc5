//! What upstream cannot express: charges that always succeed, slots given back one by one, pools
//! that change size.

use std::borrow::Cow;

use serde::Deserialize;

use super::Engine;
use super::elastic::compact;
use crate::book::Book;
use crate::book::job::no_job;
use crate::graph::TypeId;
use crate::limits::{CHARGE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::pools::{Amounts, COUNT_MAX, SlotShape, Slots, Tenancy};
use crate::readers::slots::{EndText, UnitsByType};
use crate::{Error, lists};

/// Slots to put on a node, whether or not they fit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Charge<'a> {
    #[serde(borrow)]
    label: Cow<'a, str>,
    rank: u32,
    count: u64,
    #[serde(borrow)]
    with: UnitsByType<'a>,
    end: EndText,
    tenant: Option<u64>,
    #[serde(default)]
    guest: bool,
}

impl Engine {
    /// Charges a node with slots of a job, which is made if it is new, also where less is free.
    pub fn charge(&mut self, id: u64, text: &str) -> Result<(), Error> {
        if !self.graph().has_pool_types() {
            // Whole vertices would not heed it.
            return Err(Error::invalid(format!("charge of job {id}: the graph has no pools")));
        }
        CHARGE_BYTES_MAX.check(text.len(), format_args!("charge of job {id}"))?;
        let charge: Charge<'_> = serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("charge of job {id}: {error}")))?;
        if charge.count == 0 || charge.count > COUNT_MAX {
            return Err(Error::invalid(format!(
                "charge of job {id}: count: not from 1 to {COUNT_MAX}"
            )));
        }
        NAME_BYTES_MAX.check(charge.label.len(), format_args!("charge of job {id}: label"))?;
        let tenancy = Tenancy::of(charge.tenant, charge.guest);
        let tenancy = tenancy.ok_or_else(|| {
            Error::invalid(format!("charge of job {id}: tenant and guest exclude each other"))
        })?;
        self.graph().row(charge.rank)?;
        let mut needs = Amounts::new();
        // Types that are new get their numbers in the order of their names.
        let mut with = charge.with.0;
        with.sort_unstable();
        self.graph().types().check_room_for(with.iter().map(|(kind, _)| &**kind))?;
        let wanted = with.iter().filter(|(_, amount)| *amount > 0).map(|(kind, _)| &**kind);
        let more = self.graph().pools.size_with_types(self.graph().types(), wanted);
        self.graph().pools.check_room(more, format_args!("charge of job {id}: with"))?;
        check_filters(&self.book, with.len())?;
        for (kind, amount) in with.iter().filter(|(_, amount)| *amount > 0) {
            let kind = match self.graph().types().get(kind) {
                Some(known) => known,
                None => {
                    self.book.not_in_a_trial("charge of a type that is new")?;
                    self.book.intern(kind)?
                }
            };
            needs.push((kind, *amount));
        }
        needs.sort_unstable();
        let slot = self.memo.shape(SlotShape { label: charge.label.into(), needs, tenancy });
        let EndText(end) = charge.end;
        self.book.open_charged(id);
        let on = [(charge.rank, charge.count)];
        self.book.claim(id, Slots::new(slot, (self.now(), end), false, on));
        Ok(())
    }

    /// Gives back `count` slots of a label that a job has on a rank. The job ends with its last
    /// slot.
    pub fn release(&mut self, id: u64, rank: u32, label: &str, count: u64) -> Result<(), Error> {
        self.graph().row(rank)?;
        let job = self.book.jobs().get(id).ok_or_else(|| no_job(id))?;
        let held = job.claims.slots_on(rank, label);
        if held < count {
            return Err(Error::not_found(format!(
                "job {id}: has {held} slots {label:?} on rank {rank}, not {count}"
            )));
        }
        self.book.release_slots(id, rank, label, count);
        Ok(())
    }

    /// Sets the size of a node's pool; claims stay, even if they are for more.
    pub fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<(), Error> {
        self.book.not_in_a_trial("resize")?;
        if kind.is_empty() || !self.graph().is_pool_type(kind) {
            return Err(Error::invalid(format!("type {kind:?}: is no pool type of this graph")));
        }
        check_filters(&self.book, 1)?;
        self.book.resize(rank, kind, size)
    }

    /// Puts ranks (an idset; unknown ones are passed over) into a part of a level, and out of the
    /// one that they are in; "": into none.
    pub fn set_part(&mut self, level: &str, ranks: &str, part: &str) -> Result<(), Error> {
        self.book.not_in_a_trial("set_part")?;
        if level.is_empty() || !self.graph().has_pool_types() {
            return Err(Error::invalid(
                "set_part: levels have a name, and are for graphs with pools",
            ));
        }
        NAME_BYTES_MAX.check(level.len(), "set_part: level")?;
        PATH_BYTES_MAX.check(part.len(), "set_part: part")?;
        let ranges = lists::read_idset(ranks)?;
        let rows = self.graph().pools.rows_of(&ranges);
        if !part.is_empty() && rows.iter().next().is_some() {
            let more = self.graph().pools.size_with_part(level, part);
            self.graph().pools.check_room(more, "set_part")?;
        }
        for row in rows.iter() {
            self.book.set_part(row, level, Some(part).filter(|part| !part.is_empty()));
        }
        Ok(())
    }

    /// Removes a node, also with jobs on it: their slots there vanish.
    pub fn remove_rank(&mut self, rank: u32) -> Result<(), Error> {
        self.book.not_in_a_trial("remove_rank")?;
        let row = self.graph().row(rank)?;
        let node = self.graph().pools.vertices()[row];
        self.book.cut(node)?;
        compact(self);
        Ok(())
    }
}

/// Refuses this many new types where pruning filters could not count them.
fn check_filters(book: &Book, kinds: usize) -> Result<(), Error> {
    // A node without pools becomes a vertex that holds others.
    let node = std::iter::once(Some(TypeId::NODE));
    let kinds = book.graph().types().len() + kinds;
    book.schedule().filters.check_room(kinds, node, "type")
}
