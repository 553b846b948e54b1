//! Writes a part of the timeline as one page that needs no server.
//!
//! The page contains the script and the style sheet of the server's page, and the slices of a range of time as JSON:
//! one tile for each track. If the slices exceed the size limit, it has cells of the finest level that fits. Its policy
//! allows only the script and the style with the random nonce of this page, and no connection.

use std::collections::HashMap;
use std::io;

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use serde_json::{json, Map, Value};

use crate::answers::{self, Base, LEVEL_MAX};
use crate::model::item::Item;
use crate::model::name_table::NameTable;
use crate::model::Model;
use crate::server::request_guard::Token;
use crate::server::{SCRIPT, STYLE};

/// Number of levels by which the next attempt is coarser.
const STEP: usize = 2;

/// A range of a trace that is saved as a page.
#[derive(Clone, Copy, Debug)]
pub struct SavedTrace<'t> {
    /// Title of the page.
    pub title: &'t str,
    /// Paths of the traces as they are typed in a shell.
    pub typed: &'t str,
    /// Range of time that the page shows \[ns since 1970\].
    pub range: (i64, i64),
    /// Limit on the size of the slices in the page \[byte\].
    pub bytes_max: usize,
}

/// A saved page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPage {
    /// HTML of the page.
    pub html: String,
    /// Level of its cells, which are 2^level ns wide; 0: the page has every slice.
    pub level: u8,
}

/// Makes a page of a trace that was read to its end. Returns `None` if even the coarsest level is too large.
///
/// # Errors
/// The stored slices cannot be read, or the system has no random numbers.
pub fn page(model: &Model, of: SavedTrace<'_>) -> io::Result<Option<SavedPage>> {
    let base = Base::of(of.range.0);
    for level in (0..=LEVEL_MAX).step_by(STEP) {
        if let Some(tiles) = tiles(model, base, level, of)? {
            let html = html(&data(model, base, level, tiles, of))?;
            return Ok(Some(SavedPage { html, level }));
        }
    }
    Ok(None)
}

/// Slices of a page, in base64 by track, and their names.
struct Tiles {
    by_track: Map<String, Value>,
    names: NameTable,
}

/// Returns the slices of all tracks at a level; `None` if they are too large.
fn tiles(model: &Model, base: Base, level: u8, of: SavedTrace<'_>) -> io::Result<Option<Tiles>> {
    let mut tiles = Tiles { by_track: Map::new(), names: NameTable::default() };
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut bytes = 0;
    for (at, track) in model.maker.tracks.iter().enumerate() {
        let mut items = track.lane.items(&model.maker.store, level, of.range)?;
        for item in &mut items {
            let of = || tiles.names.of(model.maker.names.text(item.name));
            item.name = *numbers.entry(item.name).or_insert_with(of);
        }
        if items.is_empty() {
            continue;
        }
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        let tile = encoded(&items, number, level, track.lane.is_counter, base);
        bytes += tile.len();
        if bytes > of.bytes_max {
            return Ok(None);
        }
        tiles.by_track.insert(at.to_string(), tile.into());
    }
    Ok(Some(tiles))
}

fn encoded(items: &[Item], track: u32, level: u8, is_counter: bool, base: Base) -> String {
    let flags = 1 | u8::from(is_counter) << 1;
    STANDARD.encode(answers::tile_of(items, (track, level, flags), (base.time(0), 0)))
}

/// Returns the answers that the page would request from a server, limited to the range of time.
fn data(model: &Model, base: Base, level: u8, tiles: Tiles, of: SavedTrace<'_>) -> Value {
    let span = (of.range, 0);
    let mut meta = answers::meta(model, base, ("saved", of.title, of.typed), span);
    let (from, to) = (of.range.0 - base.time(0), of.range.1 - base.time(0));
    if let Some(meta) = meta.as_object_mut() {
        let whole = json!([meta.get("from"), meta.get("to")]);
        for (name, value) in
            [("from", json!(from)), ("to", json!(to)), ("level", json!(level)), ("whole", whole)]
        {
            meta.insert(name.into(), value);
        }
    }
    let tracks = answers::rows(model, base, |at| tiles.by_track.contains_key(&at.to_string()));
    let mut overview = answers::overview(model, base);
    let is_in = |gap: &Value| {
        let at = |name: &str| gap.get(name).and_then(Value::as_i64).unwrap_or(0);
        at("to") >= from && at("from") <= to
    };
    if let Some(gaps) = overview.get_mut("gaps").and_then(Value::as_array_mut) {
        gaps.retain(is_in);
    }
    let names: Vec<&str> = tiles.names.after(0, usize::MAX).collect();
    json!({ "meta": meta, "tracks": tracks, "overview": overview, "names": names, "tiles": tiles.by_track })
}

/// Inserts the data into a page. No text of the trace can end the element that contains it, since `<` is escaped.
fn html(data: &Value) -> io::Result<String> {
    let nonce = Token::random()?;
    let nonce = nonce.text();
    let data = strata_text::json::compact(data).replace('<', "\\u003c");
    let script = String::from_utf8_lossy(SCRIPT);
    let style = String::from_utf8_lossy(STYLE);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>strata ui</title>\n\
         <style nonce=\"{nonce}\">{style}</style>\n</head>\n\
         <body><div id=\"app\"><p class=\"before\">This page needs JavaScript.</p></div>\n\
         <script type=\"application/json\" id=\"trace\">{data}</script>\n\
         <script nonce=\"{nonce}\">{script}</script>\n</body>\n</html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_one_script_that_no_text_of_a_trace_can_end() {
        let evil = "</script><script>alert(1)</script><!--<script>";
        let page = html(&json!({ "title": evil })).unwrap();
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        assert!(!page.contains("<!--") && page.contains("\\u003c/script>"));
        // Another page has another number.
        assert_ne!(page, html(&json!({ "title": evil })).unwrap());
    }
}
