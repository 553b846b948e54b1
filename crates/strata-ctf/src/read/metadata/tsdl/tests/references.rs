//! Tests of references from lengths and tags to fields.

use super::*;

fn length_of(structure: &Structure, name: &str) -> Length {
    array(&named(structure, name)).length.clone()
}

fn dynamic(path: &[u32]) -> Length {
    Length::Dynamic(at(Scope::Payload, path))
}

#[test]
fn relative_reference_means_the_nearest_earlier_field() {
    let payload = payload(
        "u8 n; struct { u8 m; u8 a[n]; u8 b[m]; struct { u8 n; u8 c[n]; u8 d[m]; } y; } x; \
         u8 e[x.y.n]; u8 f[x.m]; u8 g[n];",
    );
    let x = named(&payload, "x");
    let y = named(structure(&x), "y");
    assert_eq!(length_of(structure(&x), "a"), dynamic(&[0]));
    assert_eq!(length_of(structure(&x), "b"), dynamic(&[1, 0]));
    assert_eq!(length_of(structure(&y), "c"), dynamic(&[1, 3, 0]));
    assert_eq!(length_of(structure(&y), "d"), dynamic(&[1, 0]));
    assert_eq!(length_of(&payload, "e"), dynamic(&[1, 3, 0]));
    assert_eq!(length_of(&payload, "f"), dynamic(&[1, 0]));
    assert_eq!(length_of(&payload, "g"), dynamic(&[0]));
}

#[test]
fn relative_reference_to_a_later_field_of_the_structure_goes_outward() {
    let payload = payload("u8 n; struct { u8 a[n]; u8 n; u8 b[n]; } x;");
    let x = named(&payload, "x");
    assert_eq!(length_of(structure(&x), "a"), dynamic(&[0]));
    assert_eq!(length_of(structure(&x), "b"), dynamic(&[1, 1]));
}

#[test]
fn relative_reference_whose_rest_is_not_there_goes_outward() {
    let payload = payload("struct { u8 n; } x; struct { u8 x; u8 a[x.n]; } y;");
    assert_eq!(length_of(structure(&named(&payload, "y")), "a"), dynamic(&[0, 0]));
}

#[test]
fn relative_reference_through_the_structure_around_is_found() {
    let payload = payload("u8 q; struct { u8 l; u8 z[n.l]; } n;");
    assert_eq!(length_of(structure(&named(&payload, "n")), "z"), dynamic(&[1, 0]));
}

#[test]
fn references_within_an_arrays_element_stay_in_it() {
    let payload = payload(
        "u8 q; struct { u8 l; u8 z[l]; u8 y[event.fields.q]; u8 x[event.fields.n.l]; u8 w[n.l]; } n[3];",
    );
    let n = named(&payload, "n");
    let element = structure(&array(&n).element);
    assert_eq!(length_of(element, "z"), dynamic(&[1, 0, 0]));
    assert_eq!(length_of(element, "y"), dynamic(&[0]));
    assert_eq!(length_of(element, "x"), dynamic(&[1, 0, 0]));
    assert_eq!(length_of(element, "w"), dynamic(&[1, 0, 0]));
    let found = field_problem("struct { u8 l; } n[3]; u8 a[n.l];");
    let expected =
        "reference 'n.l': the field is in an array: which element is meant cannot be said";
    assert_eq!(found.to_string(), expected);
}

#[test]
fn references_into_a_variant_mean_the_field_of_the_option_that_is_there() {
    let several = |paths: &[&[u32]]| {
        let mut paths = paths.iter().map(|path| path.to_vec());
        let path = paths.next().unwrap();
        Length::Dynamic(Location { scope: Scope::Payload, path, others: paths.collect() })
    };
    let tag = "enum : u8 { x, y } t;";
    for (fields, expected) in [
        // References to the options themselves, to their members, and to members of variants in them.
        ("variant <t> { u8 x; u8 y; } v; u8 a[v];", several(&[&[1, 0], &[1, 1]])),
        (
            "variant <t> { struct { u8 l; } x; struct { u8 q; u8 l; } y; } v; u8 a[v.l];",
            several(&[&[1, 0, 0], &[1, 1, 1]]),
        ),
        (
            "variant <t> { variant <t> { u8 x; u8 y; } x; u8 y; } v; u8 a[v.y];",
            several(&[&[1, 1]]),
        ),
        (
            "variant <t> { variant <t> { u8 x; u8 y; } x; u8 y; } v; u8 a[v];",
            several(&[&[1, 0, 0], &[1, 0, 1], &[1, 1]]),
        ),
        // An option without the field is left out; an option's name takes precedence.
        (
            "variant <t> { struct { u8 q; u8 l; } x; u8 y; } v; u8 a[v.l];",
            several(&[&[1, 0, 1]]),
        ),
        ("variant <t> { u8 x; struct { u8 x; } y; } v; u8 a[v.x];", several(&[&[1, 0]])),
        // A reference inside an option leads to that option's field.
        (
            "variant <t> { struct { u8 l; } x; struct { u8 l; struct { u8 a[event.fields.v.l]; } in; } y; } v;",
            several(&[&[1, 1, 0]]),
        ),
    ] {
        let payload = payload(&format!("{tag}{fields}"));
        let found = match payload.find("a") {
            Some(_) => length_of(&payload, "a"),
            None => {
                let v = named(&payload, "v");
                let option = structure(&variant(&v).options[1].class).clone();
                length_of(structure(&named(&option, "in")), "a")
            }
        };
        assert_eq!(found, expected, "{fields}");
    }
    let twice =
        format!("{tag} variant <t> {{ enum : u8 {{ p, q }} x; enum : u16 {{ p, q }} y; }} s;");
    let twice = twice.replace("u16", "integer { size = 16; }");
    let payload = payload(&format!("{twice} variant <s> {{ u8 p; u8 q; }} v;"));
    let selector = variant(&named(&payload, "v")).selector.clone();
    assert_eq!(
        (selector.path.as_slice(), selector.others.as_slice()),
        (&[1, 0][..], &[vec![1, 1]][..])
    );
    for (fields, expected) in [
        ("variant <t> { u8 x; string y; } v; u8 a[v];", "reference 'v': the field is no unsigned integer"),
        ("variant <t> { u8 x; int y; } v; u8 a[v];", "reference 'v': the field is no unsigned integer"),
        (
            "variant <t> { enum : u8 { p, q } x; enum : u8 { q, p } y; } s; variant <s> { u8 p; u8 q; } v;",
            "reference 's': it means several fields, in different options of a variant, and their labels differ",
        ),
        (
            "variant <t> { enum : u8 { p } x; enum : int { p } y; } s; variant <s> { u8 p; } v;",
            "reference 's': it means several fields, in different options of a variant, and only some are signed",
        ),
        ("variant <t> { u8 x; u8 y; } v; u8 a[v.z];", "reference 'v.z': no earlier field has this name"),
    ] {
        assert_eq!(field_problem(&format!("{tag}{fields}")).to_string(), expected, "{fields}");
    }
}

#[test]
fn references_through_variants_name_the_option() {
    let payload = payload(
        "enum : u8 { a, b } t; variant <t> { struct { u8 n; u8 k[n]; } a; u8 b; } v; \
         u8 x[v.b]; u8 y[v.a.n];",
    );
    let v = named(&payload, "v");
    assert_eq!(length_of(structure(&variant(&v).options[0].class), "k"), dynamic(&[1, 0, 0]));
    assert_eq!(length_of(&payload, "x"), dynamic(&[1, 1]));
    assert_eq!(length_of(&payload, "y"), dynamic(&[1, 0, 0]));
    let found =
        field_problem("enum : u8 { a, b } t; variant <t> { u8 a; struct { u8 k[v.a]; } b; } v;");
    let expected = "reference 'v.a': the field does not come before what refers to it";
    assert_eq!(found.to_string(), expected);
}

/// Returns a trace with all parts, each of which has a field `n` and a field with a unique name.
fn everywhere(payload: &str) -> String {
    format!(
        "trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ integer {{ size = 8; }} n; integer {{ size = 8; }} ph; }}; }};\n\
         typealias integer {{ size = 8; }} := u8;\n\
         stream {{ packet.context := struct {{ u8 n; u8 pc; }}; event.header := struct {{ u8 n; u8 eh; }}; \
         event.context := struct {{ u8 n; u8 cc; }}; }};\n\
         event {{ context := struct {{ u8 n; u8 sc; }}; fields := struct {{ {payload} }}; }};"
    )
}

#[test]
fn absolute_references_name_the_part() {
    let parts = [
        ("trace.packet.header", Scope::PacketHeader),
        ("stream.packet.context", Scope::PacketContext),
        ("stream.event.header", Scope::EventHeader),
        ("stream.event.context", Scope::CommonContext),
        ("event.context", Scope::SpecificContext),
        ("event.fields", Scope::Payload),
    ];
    for (name, scope) in parts {
        for dots in [".", "->", " . "] {
            let path = format!("{name}.n").replace('.', dots);
            let text = everywhere(&format!("u8 n; u8 a[{path}];"));
            let payload = payload_of(parse(text.as_bytes()).unwrap());
            assert_eq!(length_of(&payload, "a"), Length::Dynamic(at(scope, &[0])), "{path}");
        }
    }
}

#[test]
fn relative_references_go_on_in_earlier_parts() {
    let text =
        everywhere("u8 a[ph]; u8 b[pc]; u8 c[eh]; u8 d[cc]; u8 e[sc]; u8 f[n]; u8 n; u8 g[n];");
    let payload = payload_of(parse(text.as_bytes()).unwrap());
    let expected = [
        ("a", Scope::PacketHeader, 1),
        ("b", Scope::PacketContext, 1),
        ("c", Scope::EventHeader, 1),
        ("d", Scope::CommonContext, 1),
        ("e", Scope::SpecificContext, 1),
        ("f", Scope::SpecificContext, 0),
        ("g", Scope::Payload, 6),
    ];
    for (name, scope, index) in expected {
        assert_eq!(length_of(&payload, name), Length::Dynamic(at(scope, &[index])), "{name}");
    }
}

#[test]
fn references_in_stream_parts_and_packet_header_are_found() {
    let text = "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { \
                integer { size = 8; } a; integer { size = 8; } b[a]; integer { size = 8; } c[trace.packet.header.a]; }; };\
                stream { packet.context := struct { integer { size = 8; } d; integer { size = 8; } e[trace.packet.header.a]; }; \
                event.context := struct { integer { size = 8; } f[d]; }; };";
    let schema = parse(text.as_bytes()).unwrap();
    let header = schema.packet_header.as_ref().unwrap();
    let a = Length::Dynamic(at(Scope::PacketHeader, &[0]));
    assert_eq!((length_of(header, "b"), length_of(header, "c")), (a.clone(), a.clone()));
    let stream = &schema.streams[0];
    assert_eq!(length_of(stream.packet_context.as_ref().unwrap(), "e"), a);
    let d = Length::Dynamic(at(Scope::PacketContext, &[0]));
    assert_eq!(length_of(stream.event_common_context.as_ref().unwrap(), "f"), d);
}

#[test]
fn references_use_the_spelling_of_the_text() {
    let payload = payload("u8 _n; u8 a[_n];");
    assert_eq!(length_of(&payload, "a"), dynamic(&[0]));
    let found = field_problem("u8 _n; u8 a[n];");
    assert_eq!(found.to_string(), "reference 'n': no earlier field has this name");
}

#[test]
fn references_that_lead_nowhere_say_why() {
    let cases = [
        ("u8 a[n];", "reference 'n': no earlier field has this name"),
        ("u8 a[n]; u8 n;", "reference 'n': the field does not come before what refers to it"),
        ("u8 n[n];", "reference 'n': the field does not come before what refers to it"),
        (
            "u8 a[event.fields.n]; u8 n;",
            "reference 'event.fields.n': the field does not come before what refers to it",
        ),
        ("u8 a[event.fields.n];", "reference 'event.fields.n': no earlier field has this name"),
        (
            "u8 a[event.context.n];",
            "reference 'event.context.n': this part of the trace is not described",
        ),
        ("u8 n[3]; u8 a[n];", "reference 'n': the field is no unsigned integer"),
        ("int n; u8 a[n];", "reference 'n': the field is no unsigned integer"),
        ("string n; u8 a[n];", "reference 'n': the field is no unsigned integer"),
        ("u8 n; u8 a[n.m];", "reference 'n.m': no earlier field has this name"),
        ("u8 t; variant <t> { u8 a; } v;", "reference 't': the field is no enumeration"),
        (
            "variant { u8 a; } v;",
            "variant has no tag: write 'variant <tag>' where it is declared or used",
        ),
        ("enum : u8 { a } t; variant <t> { } v;", "the variant has no options"),
    ];
    for (fields, expected) in cases {
        assert_eq!(field_problem(fields).to_string(), expected, "{fields}");
    }
    let text = "stream { event.context := struct { u8 a[event.fields.n]; }; };";
    let expected = "reference 'event.fields.n': the field does not come before what refers to it";
    assert_eq!(problem(text).what.to_string(), expected);
}

#[test]
fn lengths_can_be_enumerations_and_tags_signed() {
    let payload = payload(
        "enum : u8 { few = 2 } n; u8 a[n]; enum { low = -5 ... -1, high } t; variant <t> { u8 high; string low; } v;",
    );
    assert_eq!(length_of(&payload, "a"), dynamic(&[0]));
    let v = named(&payload, "v");
    let ranges: Vec<_> = variant(&v).options.iter().map(|option| pairs(&option.ranges)).collect();
    assert_eq!(ranges, [vec![(0, 0)], vec![(-5, -1)]]);
}

#[test]
fn variant_options_have_all_ranges_of_their_label() {
    let payload =
        payload("enum : u8 { a, b, c, b = 7 ... 9 } t; variant <t> { u8 b; u8 a; u8 none; } v;");
    let v = named(&payload, "v");
    let ranges: Vec<_> = variant(&v).options.iter().map(|option| pairs(&option.ranges)).collect();
    assert_eq!(ranges, [vec![(1, 1), (7, 9)], vec![(0, 0)], vec![]]);
}

#[test]
fn variants_get_their_tag_where_they_are_declared_or_used() {
    let payload = payload(
        "enum : u8 { a, b } t; enum : u8 { b, a } u; variant untagged { u8 a; u8 b; }; \
         variant tagged <t> { u8 a; u8 b; }; variant untagged <t> v; variant untagged <u> w; \
         variant tagged x; variant tagged <u> y; typedef variant <t> { u8 a; } short; short z;",
    );
    let selectors = [("v", 0, 0), ("w", 1, 1), ("x", 0, 0), ("y", 1, 1), ("z", 0, 0)];
    for (name, selector, a) in selectors {
        let class = named(&payload, name);
        assert_eq!(variant(&class).selector, at(Scope::Payload, &[selector]), "{name}");
        assert_eq!(pairs(&variant(&class).options[0].ranges), [(a, a)], "{name}");
    }
}

#[test]
fn named_types_refer_to_what_is_around_each_use() {
    let payload = payload(
        "struct list { u8 n; u8 a[n]; }; struct list x; struct { struct list y; } z; \
         struct open { u8 b[m]; }; u8 m; struct open p; struct { u8 m; struct open q; } r;",
    );
    assert_eq!(length_of(structure(&named(&payload, "x")), "a"), dynamic(&[0, 0]));
    let z = named(&payload, "z");
    assert_eq!(length_of(structure(&named(structure(&z), "y")), "a"), dynamic(&[1, 0, 0]));
    assert_eq!(length_of(structure(&named(&payload, "p")), "b"), dynamic(&[2]));
    let r = named(&payload, "r");
    assert_eq!(length_of(structure(&named(structure(&r), "q")), "b"), dynamic(&[4, 0]));
}

#[test]
fn structures_with_many_members_are_searched_alike() {
    let many: String =
        (0..100).map(|number| format!("u8 n{number}; u8 a{number}[n{number}];")).collect();
    let payload = payload(&many);
    for number in 0..100u32 {
        assert_eq!(length_of(&payload, &format!("a{number}")), dynamic(&[number * 2]));
    }
}

#[test]
fn enumerations_with_many_labels_are_searched_alike() {
    let names: Vec<_> = (0..100).map(|number| format!("l{number}")).collect();
    let options: String = names.iter().rev().map(|name| format!("u8 {name};")).collect();
    let payload =
        payload(&format!("enum : u8 {{ {} }} t; variant <t> {{ {options} }} v;", names.join(",")));
    let v = named(&payload, "v");
    for (index, option) in variant(&v).options.iter().enumerate() {
        let value = 99 - index as i128;
        assert_eq!(pairs(&option.ranges), [(value, value)], "{}", option.name);
    }
}

#[test]
fn lengths_in_the_environment_are_constants() {
    let env = "env { three = 3; \"with space\" = 1; \"a.b\" = 2; none = 0; };";
    let fields = "u8 n; u8 a[env.three]; string b[env.none]; u8 c[env.three][n][2]; \
                  integer { size = 8; encoding = UTF8; } d[env.three]; u8 e[env.a.b]; \
                  struct { u8 f[env -> three]; } g;";
    for text in [format!("{env}{}", event(fields)), format!("{}{env}", event(fields))] {
        let payload = payload_of(schema(&text));
        assert_eq!(length_of(&payload, "a"), Length::Static(3));
        assert_eq!(length_of(&payload, "b"), Length::Static(0));
        assert_eq!(length_of(&payload, "c"), Length::Static(3));
        let c = named(&payload, "c");
        assert_eq!(array(&array(&c).element).length, dynamic(&[0]));
        assert_eq!(named(&payload, "d"), FieldClass::Text { length: Length::Static(3) });
        assert_eq!(length_of(&payload, "e"), Length::Static(2));
        assert_eq!(length_of(structure(&named(&payload, "g")), "f"), Length::Static(3));
    }
    let text = format!(
        "{env} stream {{ packet.context := struct {{ u8 a[env.three]; }}; \
         event.context := struct {{ u8 b[env.three]; }}; }};"
    );
    let stream = schema(&text).streams.remove(0);
    assert_eq!(length_of(stream.packet_context.as_ref().unwrap(), "a"), Length::Static(3));
    assert_eq!(length_of(stream.event_common_context.as_ref().unwrap(), "b"), Length::Static(3));
}

#[test]
fn references_to_the_environment_that_cannot_be_say_why() {
    let env = "env { text = \"3\"; below = -1; three = 3; };";
    for (fields, expected) in [
        ("u8 a[env.nothing];", "reference 'env.nothing': the block 'env' has no such entry"),
        (
            "u8 a[env.text];",
            "reference 'env.text': the entry of the block 'env' is a text, not a number",
        ),
        (
            "u8 a[env.below];",
            "reference 'env.below': the entry of the block 'env' is a negative number",
        ),
        (
            "variant <env.three> { u8 a; } v;",
            "reference 'env.three': a variant's tag is an enumeration, and entries of the block \
             'env' have no labels",
        ),
        ("u8 a[env];", "reference 'env': no earlier field has this name"),
    ] {
        let found = problem(&format!("{env}{}", event(fields))).what;
        assert_eq!(found.to_string(), expected, "{fields}");
    }
}

#[test]
fn fields_that_are_called_env_are_found_where_no_entry_has_the_name() {
    let fields = "struct { u8 n; u8 m; enum : u8 { a } t; } env; u8 a[env.n]; u8 b[env.m]; \
                  variant <env.t> { u8 a; } v;";
    let payload = payload_of(schema(&format!("env {{ m = 7; }};{}", event(fields))));
    assert_eq!(length_of(&payload, "a"), dynamic(&[0, 0]));
    assert_eq!(length_of(&payload, "b"), Length::Static(7));
    assert_eq!(variant(&named(&payload, "v")).selector, at(Scope::Payload, &[0, 2]));
}
