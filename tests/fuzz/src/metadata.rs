//! Metadata, as text and in packets, to a schema.

use strata_ctf::read::metadata::{parse, parse_tolerant};

const MAGIC: u32 = 0x75d1_1d57;
/// Of a packet of metadata \[byte\].
const HEADER_BYTES: usize = 37;

/// Both ways of reading say the same, and the text says the same in packets.
pub fn run(input: &[u8]) {
    let tolerant = parse_tolerant(input);
    match (&tolerant, parse(input)) {
        (Ok(parsed), Ok(schema)) => {
            assert!(parsed.problems.is_empty() && parsed.schema == schema);
        }
        (Ok(parsed), Err(problem)) => assert_eq!(parsed.problems.first(), Some(&problem)),
        (Err(one), Err(other)) => assert_eq!(*one, other),
        (Err(one), Ok(_)) => panic!("only read tolerantly it has a problem: {one}"),
    }
    let problems = match &tolerant {
        Ok(parsed) => parsed.problems.as_slice(),
        Err(problem) => std::slice::from_ref(problem),
    };
    for problem in problems {
        let text = problem.to_string();
        assert!(!text.is_empty() && text.len() < 10_000, "{text}");
    }
    let begin = input.first_chunk().map(|begin| u32::from_le_bytes(*begin));
    let is_packets = begin.is_some_and(|begin| begin == MAGIC || begin.swap_bytes() == MAGIC);
    // Of a text in a file, a mark in front and zeroes behind are not part.
    let is_text =
        !input.starts_with(b"\xef\xbb\xbf") && !input.is_empty() && !input.ends_with(b"\0");
    if !is_packets && is_text {
        let big_endian = input.len() % 2 == 1;
        let packets = packets(input, 1 + input.len() % 251, big_endian);
        assert_eq!(parse_tolerant(&packets), tolerant, "in packets");
    }
}

/// The same of metadata that have a stream behind them, and what is read with them.
pub fn run_with_stream(input: &[u8]) {
    let end = input.windows(2).position(|pair| pair == [0, 0]).unwrap_or(input.len());
    run(&input[..end]);
    crate::packets::run_with_metadata(input);
}

/// So many bytes of text in each.
fn packets(text: &[u8], bytes: usize, big_endian: bool) -> Vec<u8> {
    let word = |word: u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    let mut out = Vec::new();
    for part in text.chunks(bytes) {
        let bits = (HEADER_BYTES + part.len()) as u32 * 8;
        out.extend(word(MAGIC));
        out.extend([0; 20]);
        out.extend(word(bits));
        out.extend(word(bits + 16));
        out.extend([0, 0, 0, 1, 8]);
        out.extend(part);
        out.extend([0; 2]);
    }
    out
}
