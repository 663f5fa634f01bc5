//! Sets of ids and lists of host names in documents and requests: as upstream reads them, within
//! the limits of the engine, and with its errors.

use flux_lists::hostlist::{self, Budget, UpstreamHostlistError};
use flux_lists::idset;

use crate::Error;
use crate::limits::{HOST_DIGITS_MAX, HOSTS_BYTES_MAX, HOSTS_MAX, beginning};

/// Reads an idset: its ranges, each inclusive, in ascending order and disjoint.
pub(crate) fn read_idset(text: &str) -> Result<Vec<(u32, u32)>, Error> {
    idset::decode_upstream(text)
        .map_err(|error| Error::invalid(format!("idset {:?}: {error}", beginning(text))))
}

/// True if ascending, disjoint ranges hold a rank; they hold none of a vertex without one.
pub(crate) fn hold_rank(ranges: &[(u32, u32)], rank: i32) -> bool {
    u32::try_from(rank).is_ok_and(|rank| idset::holds(ranges, rank))
}

/// Returns the names that the lists of one document may have.
pub(crate) fn budget() -> Budget {
    Budget::new(HOSTS_MAX.max, HOSTS_BYTES_MAX.max, HOST_DIGITS_MAX.max)
}

/// Reads all names, in the order in which they are written, as far as the budget of the document
/// goes.
pub(crate) fn read_hostlist(text: &str, budget: &mut Budget) -> Result<Vec<String>, Error> {
    let shown = beginning(text);
    hostlist::decode_upstream(text, budget).map_err(|error| match error {
        UpstreamHostlistError::Unreadable => Error::invalid(format!("hostlist {shown:?}: {error}")),
        UpstreamHostlistError::Digits => {
            HOST_DIGITS_MAX.exceeded(format_args!("hostlist {shown:?}"))
        }
        UpstreamHostlistError::TooMany => Error::invalid(format!(
            "hostlist {shown:?}: more than {HOSTS_MAX}, or {HOSTS_BYTES_MAX}, in one document"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_text_and_the_limit() {
        let idset = |text: &str| read_idset(text).unwrap_err();
        assert_eq!(idset("3-3").reason, crate::Reason::Invalid);
        assert_eq!(idset("3-3").text, "idset \"3-3\": not a set of ids");
        assert_eq!(idset("1,0-1").text, "idset \"1,0-1\": names an id twice");
        assert!(idset(&"x".repeat(1_000)).text.len() < 120);
        let hosts = |text: &str| read_hostlist(text, &mut budget()).unwrap_err().text;
        assert_eq!(hosts("n[0-"), "hostlist \"n[0-\": cannot be read");
        assert_eq!(
            hosts("n[0-1048576]"),
            "hostlist \"n[0-1048576]\": more than 1048576 hosts (HOSTS_MAX), or 67108864 bytes of \
             host names (HOSTS_BYTES_MAX), in one document"
        );
        assert_eq!(
            hosts("n[000000000000000000001]"),
            "hostlist \"n[000000000000000000001]\": more than 20 digits in a number of a host list \
             (HOST_DIGITS_MAX)"
        );
        assert!(hosts(&format!("n[{}-20000]", "0".repeat(60_000))).len() < 200);
    }

    #[test]
    fn ranges_hold_no_vertex_without_a_rank() {
        let ranges = [(0, 5), (7, 9)];
        assert!(hold_rank(&ranges, 9) && !hold_rank(&ranges, 6) && !hold_rank(&ranges, -1));
    }
}
