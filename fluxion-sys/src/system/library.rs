//! The libraries that are open, and the functions that each has.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::table::{Extensions, FunctionTable};

/// The number of different libraries that can be opened in one process.
pub const LIBRARIES_MAX: usize = 8;

/// A library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, or is no library, or needs others that are not there.
    #[error("opening {path}")]
    Open {
        /// As it was given.
        path: PathBuf,
        /// The message of the dynamic linker.
        source: libloading::Error,
    },
    /// It lacks a function that every version of Fluxion since 0.26 has.
    #[error("{path} lacks {symbol}")]
    Lacks {
        /// As it was given.
        path: PathBuf,
        /// The function's name.
        symbol: &'static str,
    },
    /// Too many different libraries were opened.
    #[error("{path}: {LIBRARIES_MAX} other libraries are open already")]
    TooMany {
        /// As it was given.
        path: PathBuf,
    },
}

/// An opened library: never closed, since contexts and function pointers may outlive the caller
/// that opened it.
pub(super) struct Library {
    path: PathBuf,
    /// The library's own functions, without the barrier.
    pub(super) raw: FunctionTable,
    _keeps_it_open: libloading::Library,
}

/// The libraries that are open; `new` of each has its index as a constant.
static OPEN: [OnceLock<Library>; LIBRARIES_MAX] = [const { OnceLock::new() }; LIBRARIES_MAX];

pub(super) fn library(slot: usize) -> Option<&'static Library> {
    OPEN.get(slot)?.get()
}

/// Opens a library, and says where it stands among those that are open. A path that was opened
/// before gives the same one.
pub(super) fn open(path: &Path) -> Result<(usize, &'static Library), OpenError> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    for (slot, library) in OPEN.iter().enumerate() {
        match library.get() {
            Some(library) if library.path == path => return Ok((slot, library)),
            Some(_) => {}
            None => return Ok((slot, library.get_or_init_with(path)?)),
        }
    }
    Err(OpenError::TooMany { path: path.to_owned() })
}

/// `OnceLock::get_or_try_init`, which is not stable yet. The caller sees to it that no other thread
/// does the same.
trait GetOrInitWith {
    fn get_or_init_with(&'static self, path: &Path) -> Result<&'static Library, OpenError>;
}

impl GetOrInitWith for OnceLock<Library> {
    fn get_or_init_with(&'static self, path: &Path) -> Result<&'static Library, OpenError> {
        let opened = load(path)?;
        Ok(self.get_or_init(|| opened))
    }
}

fn load(path: &Path) -> Result<Library, OpenError> {
    let name: &OsStr = path.as_os_str();
    // SAFETY: a library's initialisers run here. The operator of the process chooses the path,
    // as LD_PRELOAD would be.
    let library = unsafe { libloading::Library::new(name) }
        .map_err(|source| OpenError::Open { path: path.to_owned(), source })?;
    let raw =
        functions(&library).map_err(|symbol| OpenError::Lacks { path: path.to_owned(), symbol })?;
    Ok(Library { path: path.to_owned(), raw, _keeps_it_open: library })
}

/// Looks up one symbol; its type is that of the field it is for.
macro_rules! symbol {
    ($library:expr, $name:literal) => {
        // SAFETY: the symbol, if there, is the function of that name in the header; its type never
        // changed.
        unsafe { $library.get($name.as_bytes()) }.ok().map(|symbol| *symbol)
    };
}

/// The functions of a library, or the name of one that must be there and is not.
fn functions(library: &libloading::Library) -> Result<FunctionTable, &'static str> {
    macro_rules! required {
        ($name:literal) => {
            symbol!(library, $name).ok_or($name)?
        };
    }
    Ok(FunctionTable {
        new: required!("reapi_cli_new"),
        destroy: required!("reapi_cli_destroy"),
        initialize: required!("reapi_cli_initialize"),
        match_allocate: required!("reapi_cli_match_allocate"),
        update_allocate: required!("reapi_cli_update_allocate"),
        cancel: required!("reapi_cli_cancel"),
        info: required!("reapi_cli_info"),
        stat: required!("reapi_cli_stat"),
        get_err_msg: required!("reapi_cli_get_err_msg"),
        clear_err_msg: required!("reapi_cli_clear_err_msg"),
        match_op: symbol!(library, "reapi_cli_match"),
        match_satisfy: symbol!(library, "reapi_cli_match_satisfy"),
        partial_cancel: symbol!(library, "reapi_cli_partial_cancel"),
        clone: symbol!(library, "reapi_cli_clone"),
        match_with_jobid: symbol!(library, "reapi_cli_match_with_jobid"),
        find: symbol!(library, "reapi_cli_find"),
        add_subgraph: symbol!(library, "reapi_cli_add_subgraph"),
        remove_subgraph: symbol!(library, "reapi_cli_remove_subgraph"),
        set_status: symbol!(library, "reapi_cli_set_status"),
        get_status: symbol!(library, "reapi_cli_get_status"),
        set_rank_status: symbol!(library, "reapi_cli_set_rank_status"),
        get_rank_status: symbol!(library, "reapi_cli_get_rank_status"),
        extensions: extensions(library),
    })
}

/// They stay as long as the library, which is never unloaded.
fn extensions(library: &libloading::Library) -> Option<&'static Extensions> {
    Some(Box::leak(Box::new(Extensions {
        set_time: symbol!(library, "fluxion_ext_set_time")?,
        move_job: symbol!(library, "fluxion_ext_move")?,
        begin_trial: symbol!(library, "fluxion_ext_begin_trial")?,
        end_trial: symbol!(library, "fluxion_ext_end_trial")?,
        charge: symbol!(library, "fluxion_ext_charge")?,
        release: symbol!(library, "fluxion_ext_release")?,
        resize: symbol!(library, "fluxion_ext_resize")?,
        remove_rank: symbol!(library, "fluxion_ext_remove_rank")?,
        set_part: symbol!(library, "fluxion_ext_set_part")?,
        parts: symbol!(library, "fluxion_ext_parts")?,
        eligible: symbol!(library, "fluxion_ext_eligible")?,
        explain: symbol!(library, "fluxion_ext_explain")?,
        effort: symbol!(library, "fluxion_ext_effort")?,
        usage: symbol!(library, "fluxion_ext_usage")?,
    })))
}
