//! A directory as a page.

use crate::web::{html::escape_html, percent::percent_encode};
use std::{fs::File, io, path::Path};

/// Names on one page. A directory with more says so at its end.
const ENTRIES_MAX: usize = 4096;

struct Entry {
    name: String,
    is_directory: bool,
}

/// The names in a directory, links to them, everything escaped. Names that are not UTF-8 cannot be asked for, and are not shown.
pub(super) fn page(directory: &File, path: &Path, shown: &str, hidden: bool) -> io::Result<String> {
    let (mut entries, cut) = entries(directory, path, hidden)?;
    entries.sort_by(|one, other| (other.is_directory, &one.name).cmp(&(one.is_directory, &other.name)));
    let mut page = String::from("<!doctype html><meta charset=utf-8><title>");
    escape_html(shown, &mut page);
    page.push_str("</title><h1>");
    escape_html(shown, &mut page);
    page.push_str("</h1><ul>\n");
    if shown != "/" {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for Entry { name, is_directory } in entries {
        let slash = if is_directory { "/" } else { "" };
        // Before a colon, a name alone would read as a scheme.
        page.push_str("<li><a href=\"./");
        escape_html(&percent_encode(&name), &mut page);
        page.push_str(slash);
        page.push_str("\">");
        escape_html(&name, &mut page);
        page.push_str(slash);
        page.push_str("</a>\n");
    }
    page.push_str("</ul>\n");
    if cut {
        page.push_str(&format!("<p>Only {ENTRIES_MAX} names are shown.\n"));
    }
    Ok(page)
}

fn is_shown(name: &str, hidden: bool) -> bool {
    name != "." && name != ".." && (hidden || !name.starts_with('.')) && !name.contains(char::is_control)
}

/// The directory that was opened is read, not what its path leads to by now.
#[cfg(target_os = "linux")]
fn entries(directory: &File, _: &Path, hidden: bool) -> io::Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !is_shown(name, hidden) {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            return Ok((entries, true));
        }
        entries.push(Entry { name: name.to_owned(), is_directory: entry.file_type().is_dir() });
    }
    Ok((entries, false))
}

#[cfg(not(target_os = "linux"))]
fn entries(_: &File, path: &Path, hidden: bool) -> io::Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !is_shown(&name, hidden) {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            return Ok((entries, true));
        }
        entries.push(Entry { name, is_directory: entry.file_type()?.is_dir() });
    }
    Ok((entries, false))
}
