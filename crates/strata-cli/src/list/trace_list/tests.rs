use super::*;
use serde_json::Value;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
trace { major = 1; minor = 8; uuid = "5ba1c0de-0123-4567-89ab-cdef00112233"; byte_order = le; };
env { hostname = "ho\x1bst"; vpid = -7; };
clock { name = c; freq = 1000; offset_s = 3; offset = 4; description = "d"; };
stream {
  packet.context := struct { integer { size = 32; byte_order = be; } content_size; };
  event.header := struct { u8 id; integer { size = 27; align = 1; map = clock.c.value; } timestamp; };
};
event { name = "a:b"; id = 3; loglevel = 4; model.emf.uri = "http://x"; fields := struct {
  enum : u8 { A, B = 5 ... 7 } e; u8 n; u8 q[n]; string s; floating_point { exp_dig = 8; mant_dig = 24; } r;
  struct { integer { size = 16; signed = true; base = 16; } m; } st[2]; variant <e> { u8 A; string B; } v; }; };
event { name = "none"; id = 4; };
"#;

struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn listed(name: &str, json: bool) -> String {
    let path = std::env::temp_dir().join(format!("strata-list-{}-{name}", std::process::id()));
    let folder = Folder(path);
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("metadata"), METADATA).unwrap();
    let reader = Reader::open(&[&folder.0]).unwrap();
    let mut out = Vec::new();
    match json {
        true => json::write(&mut out, &reader).unwrap(),
        false => text(&mut out, &reader).unwrap(),
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn list_of_a_trace_says_all_that_its_metadata_describe() {
    let text = listed("text", false);
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  uuid 5ba1c0de-0123-4567-89ab-cdef00112233",
            "  env hostname = \"ho\\u{1b}st\"",
            "  env vpid = -7",
            "  clock c: 1000 Hz, offset 3 s + 4 cycles (d)",
            "  stream class 0, clock c: 2 event classes",
            "    packet context { u32be <content_size> content_size }",
            "    event header { u8 <id> id, u27 <clock c> timestamp }",
            "    event a:b (id 3), warning, emf http://x",
            "      fields { u8 enum { A = 0, B = 5...7 } e, u8 n, u8[…] q, string s, f32 r, \
             { i16 hex m }[2] st, variant { u8 A | string B } v }",
            "    event none (id 4)",
        ]
    );
}

#[test]
fn list_of_a_trace_as_json_has_everything_under_its_name() {
    let value: Value = serde_json::from_str(&listed("json", true)).unwrap();
    let trace = &value["traces"][0];
    assert_eq!(trace["clocks"][0]["offset_cycles"], 4);
    assert_eq!(trace["environment"]["vpid"], -7);
    let class = &trace["stream_classes"][0];
    assert_eq!(class["packet_context"][0]["role"], "content_size");
    assert_eq!(class["event_header"][1]["clock"], "c");
    let event = &class["event_classes"][0];
    assert_eq!((&event["name"], &event["loglevel"]), (&Value::from("a:b"), &Value::from(4)));
    let payload = &event["payload"];
    let labels = &trace["enumerations"][payload[0]["enumeration"].as_u64().unwrap() as usize];
    assert_eq!(
        (&labels[1]["name"], &labels[1]["ranges"][0][1]),
        (&Value::from("B"), &Value::from(7))
    );
    assert_eq!(payload[2]["length"]["path"][0], 1);
    assert_eq!(payload[5]["element"]["members"][0]["base"], "hex");
    assert_eq!(payload[6]["options"][1]["name"], "B");
    assert_eq!(class["event_classes"][1]["payload"], Value::Null);
}
