//! From a path to a function table.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{extensions as ext, graph, jobs, lifecycle};
use crate::table::{Extensions, FunctionTable};

/// So many different libraries can be opened in one process.
pub const LIBRARIES_MAX: usize = 8;

/// A library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, or is no library, or needs others that are not there.
    #[error("opening {path}")]
    Open {
        /// As it was given.
        path: PathBuf,
        /// What the dynamic linker says.
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

/// An opened library: never closed, since contexts and function pointers may outlive whoever opened it.
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

impl FunctionTable {
    /// Opens a system library: a path, or a name that the dynamic linker looks up. See [`crate::system`].
    ///
    /// A path that was opened before gives the same library again.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        static OPENING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        for (slot, library) in OPEN.iter().enumerate() {
            match library.get() {
                Some(library) if library.path == path => return Ok(behind_barrier(slot, &library.raw)),
                Some(_) => {}
                None => {
                    let library = library.get_or_init_with(path)?;
                    return Ok(behind_barrier(slot, &library.raw));
                }
            }
        }
        Err(OpenError::TooMany { path: path.to_owned() })
    }
}

/// `OnceLock::get_or_try_init`, which is not stable yet. The caller sees to it that nobody else does the same.
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
    // SAFETY: a library's initialisers run here. The path is chosen by whoever starts the process, as LD_PRELOAD would be.
    let library = unsafe { libloading::Library::new(name) }
        .map_err(|source| OpenError::Open { path: path.to_owned(), source })?;
    let raw = functions(&library).map_err(|symbol| OpenError::Lacks { path: path.to_owned(), symbol })?;
    Ok(Library { path: path.to_owned(), raw, _keeps_it_open: library })
}

/// Looks up one symbol; its type is that of the field it is for.
macro_rules! symbol {
    ($library:expr, $name:literal) => {
        // SAFETY: the symbol, if there, is the function of that name in the header; its type never changed.
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

fn extensions(library: &libloading::Library) -> Option<Extensions> {
    Some(Extensions {
        set_time: symbol!(library, "fluxion_ext_set_time")?,
        charge: symbol!(library, "fluxion_ext_charge")?,
        release: symbol!(library, "fluxion_ext_release")?,
        resize: symbol!(library, "fluxion_ext_resize")?,
        remove_rank: symbol!(library, "fluxion_ext_remove_rank")?,
        eligible: symbol!(library, "fluxion_ext_eligible")?,
        explain: symbol!(library, "fluxion_ext_explain")?,
        usage: symbol!(library, "fluxion_ext_usage")?,
    })
}

/// The table for callers: what the library has, each behind the barrier.
fn behind_barrier(slot: usize, raw: &FunctionTable) -> FunctionTable {
    FunctionTable {
        new: lifecycle::NEW[slot],
        destroy: lifecycle::destroy,
        initialize: lifecycle::initialize,
        match_allocate: jobs::match_allocate,
        update_allocate: jobs::update_allocate,
        cancel: jobs::cancel,
        info: jobs::info,
        stat: graph::stat,
        get_err_msg: lifecycle::get_err_msg,
        clear_err_msg: lifecycle::clear_err_msg,
        match_op: raw.match_op.map(|_| jobs::match_op as _),
        match_satisfy: raw.match_satisfy.map(|_| jobs::match_satisfy as _),
        partial_cancel: raw.partial_cancel.map(|_| jobs::partial_cancel as _),
        clone: raw.clone.map(|_| lifecycle::clone as _),
        match_with_jobid: raw.match_with_jobid.map(|_| jobs::match_with_jobid as _),
        find: raw.find.map(|_| graph::find as _),
        add_subgraph: raw.add_subgraph.map(|_| graph::add_subgraph as _),
        remove_subgraph: raw.remove_subgraph.map(|_| graph::remove_subgraph as _),
        set_status: raw.set_status.map(|_| graph::set_status as _),
        get_status: raw.get_status.map(|_| graph::get_status as _),
        set_rank_status: raw.set_rank_status.map(|_| graph::set_rank_status as _),
        get_rank_status: raw.get_rank_status.map(|_| graph::get_rank_status as _),
        extensions: raw.extensions.map(|_| ext::TABLE),
    }
}
