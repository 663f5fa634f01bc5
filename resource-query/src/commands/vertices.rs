//! Properties and status of vertices.

use std::io;

use super::words::MALFORMED;
use crate::session::Session;

pub(super) fn set_property(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [path, property] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    let Some((name, value)) =
        property.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
    else {
        return session.granted(format_args!(
            "Incorrect input format. \nPlease use `set-property <resource> PROPERTY=VALUE`.\n"
        ));
    };
    if session.engine.set_property(path, name, value).is_err() {
        session.granted(format_args!("Couldn't find path {path} in resource graph.\n"))?;
    }
    Ok(())
}

pub(super) fn get_property(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [path] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    let graph = session.engine.graph();
    let mut lines = Vec::new();
    for vertex in graph.at_path(path) {
        let properties = graph.properties(vertex);
        if properties.is_empty() {
            let id = graph.uniq_id(vertex);
            lines.push(format!("No properties were found for {path} (vtx's uniq_id={id})."));
        }
        lines.extend(properties.iter().map(|(name, value)| format!("{name}={value}")));
    }
    if lines.is_empty() {
        lines.push(missing(path));
    }
    lines.iter().try_for_each(|line| session.granted(format_args!("{line}\n")))
}

pub(super) fn set_status(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [path, status] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    // As upstream: first the path, then the status.
    if session.engine.graph().at_path(path).is_empty() {
        return session.granted(format_args!("{}\n", missing(path)));
    }
    let up = match *status {
        "up" => true,
        "down" => false,
        _ => return session.wrong(format_args!("{status}: neither up nor down")),
    };
    match session.engine.set_status(path, up) {
        Ok(()) => Ok(()),
        Err(error) => session.wrong(format_args!("set-status: {error}")),
    }
}

pub(super) fn get_status(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [path] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    match session.engine.status(path) {
        Ok(up) => session.granted(format_args!("{path} is {}\n", if up { "up" } else { "down" })),
        Err(_) => session.granted(format_args!("{}\n", missing(path))),
    }
}

fn missing(path: &str) -> String {
    format!("Could not find path {path} in resource graph.")
}
