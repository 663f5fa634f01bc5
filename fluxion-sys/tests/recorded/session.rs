//! One recorded sequence at work: contexts and values that later calls name.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use fluxion_sys::{FunctionTable, errno, reapi_cli_ctx_t, resource_status_t};
use serde_json::{Map, Value, json};

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

type Ctx = *mut reapi_cli_ctx_t;

/// What stands for a value that the library has not written.
const UNTOUCHED: &str = "(untouched)";
const MARK_U64: u64 = 0x5a5a_5a5a_5a5a_5a5a;
const MARK_I64: i64 = -0x005a_5a5a_5a5a;
const MARK_F64: f64 = -12_345.0;
const MARK_U8: u8 = 0x5a;
const MARK_STATUS: resource_status_t = 0x5a5a;

pub(crate) struct Session<'a> {
    table: &'a FunctionTable,
    folder: &'a Path,
    contexts: HashMap<String, Ctx>,
    values: HashMap<String, Value>,
    /// After each call its error text is taken.
    takes_texts: bool,
}

/// A place for a value that a call writes.
enum Out {
    U64(Box<u64>),
    I64(Box<i64>),
    F64(Box<f64>),
    Bool(Box<u8>),
    Status(Box<resource_status_t>),
    /// A text; whether the caller has to free it.
    Text(Box<*mut c_char>, bool),
}

/// The arguments of one call, in order.
struct Arguments<'a> {
    session: &'a Session<'a>,
    left: std::slice::Iter<'a, Value>,
    /// Kept until the call is over.
    texts: Vec<CString>,
    outs: Vec<(&'a str, Out)>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for context in self.contexts.values() {
            // SAFETY: made by this table, and not destroyed yet.
            unsafe { (self.table.destroy)(*context) };
        }
    }
}

impl<'a> Session<'a> {
    pub(crate) fn new(table: &'a FunctionTable, folder: &'a Path, takes_texts: bool) -> Self {
        Session { table, folder, contexts: HashMap::new(), values: HashMap::new(), takes_texts }
    }

    /// Performs a call and says what came out, as the recordings do.
    pub(crate) fn perform(&mut self, call: &Value) -> Map<String, Value> {
        let function = call["fn"].as_str().expect("fn");
        let of = call["args"].as_array().expect("args");
        let mut arguments =
            Arguments { session: self, left: of.iter(), texts: Vec::new(), outs: Vec::new() };
        errno::set(0);
        let mut seen = Map::new();
        let mut made = None;
        match function {
            "reapi_cli_new" => {
                // SAFETY: takes nothing.
                made = Some(unsafe { (self.table.new)() });
            }
            "reapi_cli_clone" => {
                let clone = self.table.clone.expect("clone");
                // SAFETY: a context of this table, or NULL.
                made = Some(unsafe { clone(arguments.context()) });
            }
            "reapi_cli_destroy" => {
                // SAFETY: as above; a context is destroyed once, and named no more.
                unsafe { (self.table.destroy)(arguments.context()) };
            }
            "reapi_cli_clear_err_msg" => {
                // SAFETY: as above.
                unsafe { (self.table.clear_err_msg)(arguments.context()) };
            }
            "reapi_cli_get_err_msg" => {
                // SAFETY: as above; the text is the caller's.
                let text = unsafe { owned((self.table.get_err_msg)(arguments.context())) };
                seen.insert("rc".into(), text.map_or(Value::Null, Value::from));
            }
            _ => {
                // SAFETY: arguments have the types and lifetimes that the header asks for.
                let rc = unsafe { arguments.call(function) };
                if rc != 0 {
                    seen.insert("errno".into(), name(errno::get()).into());
                }
                seen.insert("rc".into(), rc.into());
            }
        }
        if let Some(context) = made {
            seen.insert("rc".into(), if context.is_null() { Value::Null } else { "ptr".into() });
            if context.is_null() {
                seen.insert("errno".into(), name(errno::get()).into());
            }
        }
        let outs: Vec<(String, Value)> =
            arguments.outs.into_iter().map(|(name, out)| (name.to_owned(), out.read())).collect();
        if !outs.is_empty() {
            seen.insert("out".into(), Value::Object(outs.iter().cloned().collect()));
        }
        self.values.extend(outs.into_iter().filter(|(_, value)| value != UNTOUCHED));
        let named = call["args"].get(0).and_then(|first| first["ctx"].as_str());
        match (function, named) {
            ("reapi_cli_destroy", Some(named)) => drop(self.contexts.remove(named)),
            ("reapi_cli_get_err_msg" | "reapi_cli_clear_err_msg", _) | (_, None) => {}
            (_, Some(named)) if self.takes_texts => {
                let context = self.contexts[named];
                // SAFETY: a context that was not destroyed; the text is the caller's.
                let text = unsafe { owned((self.table.get_err_msg)(context)) };
                seen.insert("err_msg".into(), text.unwrap_or_default().into());
                // SAFETY: as above.
                unsafe { (self.table.clear_err_msg)(context) };
            }
            _ => {}
        }
        if let (Some(context), Some(save)) =
            (made.filter(|made| !made.is_null()), call["save"].as_str())
        {
            self.contexts.insert(save.to_owned(), context);
        }
        seen
    }
}

impl<'a> Arguments<'a> {
    /// Calls a function that answers with a number.
    ///
    /// # Safety
    /// A context that the recording names was not destroyed.
    unsafe fn call(&mut self, function: &str) -> c_int {
        let table = self.session.table;
        let ctx = self.context();
        // SAFETY: texts and outs live until the outs are read, and are of the header's types in the
        // header's order.
        unsafe {
            match function {
                "reapi_cli_initialize" => (table.initialize)(ctx, self.text(), self.text()),
                "reapi_cli_match" => {
                    let run = table.match_op.expect("match");
                    let (op, jobspec, id) = (self.number(), self.text(), self.u64_out());
                    run(
                        ctx,
                        op,
                        jobspec,
                        id,
                        self.bool_out(),
                        self.text_out(),
                        self.i64_out(),
                        self.f64_out(),
                    )
                }
                "reapi_cli_match_with_jobid" => {
                    let run = table.match_with_jobid.expect("match_with_jobid");
                    let (op, jobspec, id) = (self.number(), self.text(), self.number());
                    run(
                        ctx,
                        op,
                        jobspec,
                        id,
                        self.bool_out(),
                        self.text_out(),
                        self.i64_out(),
                        self.f64_out(),
                    )
                }
                "reapi_cli_match_allocate" => {
                    let (reserve, jobspec, id) = (self.flag(), self.text(), self.u64_out());
                    let (reserved, r) = (self.bool_out(), self.text_out());
                    (table.match_allocate)(
                        ctx,
                        reserve,
                        jobspec,
                        id,
                        reserved,
                        r,
                        self.i64_out(),
                        self.f64_out(),
                    )
                }
                "reapi_cli_match_satisfy" => table.match_satisfy.expect("match_satisfy")(
                    ctx,
                    self.text(),
                    self.bool_out(),
                    self.f64_out(),
                ),
                "reapi_cli_update_allocate" => {
                    let (id, r, at) = (self.number(), self.text(), self.i64_out());
                    (table.update_allocate)(ctx, id, r, at, self.f64_out(), self.borrowed_out())
                }
                "reapi_cli_cancel" => (table.cancel)(ctx, self.number(), self.flag()),
                "reapi_cli_partial_cancel" => {
                    let run = table.partial_cancel.expect("partial_cancel");
                    run(ctx, self.number(), self.text(), self.flag(), self.bool_out())
                }
                "reapi_cli_info" => {
                    let (id, mode, reserved) = (self.number(), self.text_out(), self.bool_out());
                    (table.info)(ctx, id, mode, reserved, self.i64_out(), self.f64_out())
                }
                "reapi_cli_find" => {
                    table.find.expect("find")(ctx, self.text(), self.text(), self.text_out())
                }
                "reapi_cli_stat" => {
                    let (v, e, j) = (self.i64_out(), self.i64_out(), self.i64_out());
                    (table.stat)(
                        ctx,
                        v,
                        e,
                        j,
                        self.f64_out(),
                        self.f64_out(),
                        self.f64_out(),
                        self.f64_out(),
                    )
                }
                "reapi_cli_add_subgraph" => {
                    table.add_subgraph.expect("add_subgraph")(ctx, self.text())
                }
                "reapi_cli_remove_subgraph" => {
                    table.remove_subgraph.expect("remove_subgraph")(ctx, self.text())
                }
                "reapi_cli_set_status" => {
                    table.set_status.expect("set_status")(ctx, self.text(), self.number())
                }
                "reapi_cli_get_status" => {
                    table.get_status.expect("get_status")(ctx, self.text(), self.status_out())
                }
                "reapi_cli_set_rank_status" => {
                    table.set_rank_status.expect("set_rank_status")(ctx, self.text(), self.number())
                }
                "reapi_cli_get_rank_status" => table.get_rank_status.expect("get_rank_status")(
                    ctx,
                    self.text(),
                    self.status_out(),
                ),
                _ => panic!("{function}: no function of the header"),
            }
        }
    }

    fn next(&mut self) -> &'a Value {
        self.left.next().expect("as many arguments as the function takes")
    }

    fn context(&mut self) -> Ctx {
        self.next()["ctx"].as_str().map_or(ptr::null_mut(), |name| self.session.contexts[name])
    }

    fn text(&mut self) -> *const c_char {
        let argument = self.next();
        let text = if let Some(file) = argument["file"].as_str() {
            std::fs::read_to_string(self.session.folder.join(file))
                .expect("a file of the recordings can be read")
        } else if let Some(name) = argument["var"].as_str() {
            self.session.values[name].as_str().expect("a text that was written before").to_owned()
        } else if let Some(text) = argument.as_str() {
            text.to_owned()
        } else {
            return ptr::null();
        };
        self.texts.push(CString::new(text).expect("texts without NUL"));
        self.texts[self.texts.len() - 1].as_ptr()
    }

    fn flag(&mut self) -> bool {
        self.next().as_bool().expect("true or false")
    }

    fn number<N: TryFrom<u64, Error: std::fmt::Debug>>(&mut self) -> N {
        let argument = self.next();
        let value = argument["var"].as_str().map_or(argument, |name| &self.session.values[name]);
        N::try_from(value.as_u64().expect("a number")).expect("a number of the argument's type")
    }

    /// The place where a value is to be written, marked; NULL where the recording passes that.
    fn out<T>(&mut self, mark: T, keep: impl Fn(Box<T>) -> Out) -> *mut T {
        let Some(name) = self.next()["out"].as_str() else { return ptr::null_mut() };
        let mut place = Box::new(mark);
        let pointer: *mut T = &raw mut *place;
        self.outs.push((name, keep(place)));
        pointer
    }

    fn u64_out(&mut self) -> *mut u64 {
        self.out(MARK_U64, Out::U64)
    }

    fn i64_out(&mut self) -> *mut i64 {
        self.out(MARK_I64, Out::I64)
    }

    fn f64_out(&mut self) -> *mut f64 {
        self.out(MARK_F64, Out::F64)
    }

    fn bool_out(&mut self) -> *mut bool {
        self.out(MARK_U8, Out::Bool).cast()
    }

    fn status_out(&mut self) -> *mut resource_status_t {
        self.out(MARK_STATUS, Out::Status)
    }

    fn text_out(&mut self) -> *mut *mut c_char {
        self.out(mark(), |place| Out::Text(place, true))
    }

    /// A text that stays the library's.
    fn borrowed_out(&mut self) -> *mut *const c_char {
        self.out(mark(), |place| Out::Text(place, false)).cast()
    }
}

impl Out {
    /// A text as the recordings have it. Elapsed times are reduced to `>=0`.
    fn read(self) -> Value {
        let written = match self {
            Out::U64(place) => (*place != MARK_U64).then(|| json!(*place)),
            Out::I64(place) => (*place != MARK_I64).then(|| json!(*place)),
            Out::F64(place) if *place >= 0.0 => Some(json!(">=0")),
            Out::F64(place) => (*place != MARK_F64).then(|| json!(*place)),
            Out::Bool(place) => (*place != MARK_U8).then(|| json!(*place != 0)),
            Out::Status(place) => (*place != MARK_STATUS).then(|| json!(*place)),
            Out::Text(place, _) if *place == mark() => None,
            // SAFETY: the library wrote a text that is the caller's.
            Out::Text(place, true) => Some(json!(unsafe { owned(*place) })),
            Out::Text(place, false) if place.is_null() => Some(Value::Null),
            Out::Text(place, false) => {
                // SAFETY: the library wrote a text, and nothing was called since.
                let text = unsafe { CStr::from_ptr(*place) };
                Some(json!(text.to_str().expect("UTF-8")))
            }
        };
        written.unwrap_or_else(|| UNTOUCHED.into())
    }
}

/// Stands for a text that was not written.
fn mark() -> *mut c_char {
    ptr::without_provenance_mut(0x10)
}

/// A text that is the caller's to free.
///
/// # Safety
/// NULL, or a text that malloc gave.
unsafe fn owned(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: ends with NUL, as the caller says.
    let copy = unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned();
    // SAFETY: from malloc, as the caller says, and used no more.
    unsafe { free(text.cast()) };
    Some(copy)
}

/// errno by name.
fn name(value: c_int) -> String {
    let names = [
        ("ENOENT", errno::ENOENT),
        ("ENOMEM", errno::ENOMEM),
        ("EFAULT", errno::EFAULT),
        ("EBUSY", errno::EBUSY),
        ("EEXIST", errno::EEXIST),
        ("ENODEV", errno::ENODEV),
        ("EINVAL", errno::EINVAL),
        ("ERANGE", errno::ERANGE),
        ("ENOSYS", errno::ENOSYS),
        ("EPROTO", errno::EPROTO),
        ("ENOTSUP", errno::ENOTSUP),
        ("EOVERFLOW", errno::EOVERFLOW),
    ];
    names
        .iter()
        .find(|(_, known)| *known == value)
        .map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned())
}
