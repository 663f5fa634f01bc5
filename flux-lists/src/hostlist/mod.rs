//! Lists of host names as text: `node[0-3,07],gpu7`.
//!
//! A list, not a set: order and repetition are kept. One reader takes texts apart, in two dialects:
//!
//! | text | [`decode`]: RFC 29 | [`decode_upstream`]: flux-sched |
//! |---|---|---|
//! | an empty name: `a,,b`, or an empty text | passed over | refused |
//! | several brackets in one name: `r[0-1]n[0-1]` | refused | each with each: 4 names |
//! | zeros in front: `[08,9]` | as many digits as the first: `08`, `09` | as written: `08`, `9` |
//! | a sign: `[+1]` | refused | taken, as one more digit: `01` |
//! | a blank, a control character, a letter beyond ASCII | refused | taken |
//! | limits | [`HOSTS_MAX`], [`BYTES_MAX`] | a [`Budget`], for all lists of a document |
//! | a backward range, a bracket in another or alone, an empty bracket | refused | refused |
//!
//! flux-sched itself takes an empty name for none, and separates names also at blanks.
//!
//! One writer joins neighbours that differ in one number, in two styles:
//!
//! | names | [`encode`]: nodes of Kubernetes | [`write()`]: as flux-sched writes an R |
//! |---|---|---|
//! | the number | the last of the first label: `a[1-2].x1.org` | trailing digits: `a1.x[1-2]` |
//! | the largest number | 2^64 - 1 | 10^18 - 1 |
//! | `n098`, `n1000` | joined: no zero is missing | apart |

mod numbers;
mod read;
mod write;

pub use read::{BYTES_MAX, Budget, HOSTS_MAX, HostlistError, UpstreamHostlistError};
pub use read::{decode, decode_upstream};
pub use write::{encode, encode_set, stem_and_digits, write};
