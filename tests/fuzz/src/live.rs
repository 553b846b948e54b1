//! What a viewer asks of a relay by LTTng's live protocol, while a recording's files have any bytes in them.

use crate::files::root;
use std::fs;
use std::path::Path;
use strata_ctf::end_mark::{self, EndMark, Ending};
use strata_remote::live_answers;

const METADATA: &[u8] = b"/* CTF 1.8 */\ntrace {};\n";
/// Bytes in front of a request.
const HEAD: usize = 16;

/// Flags, the size of a stream's file in two bytes, its bytes, then requests. Flag 1: the recording has ended. Flag 2: the stream
/// is there twice. Flag 4: it is what the metadata are, too.
pub fn run(input: &[u8]) {
    let Some(([flags, low, high], rest)) = input.split_first_chunk::<3>() else { return };
    let bytes = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let (stream, requests) = rest.split_at(bytes);
    let folder = root().join("live");
    let recording = folder.join("box/shop-1");
    let trace = recording.join("user/app-1");
    fs::create_dir_all(&trace).expect("a folder for the recording");
    let metadata = if flags & 4 == 0 { METADATA } else { stream };
    let mark = EndMark { ending: Ending::Ended, ..EndMark::default() }.encode();
    for (path, bytes, is_there) in [
        (trace.join("metadata"), metadata, true),
        (trace.join("channel0_0"), stream, true),
        (trace.join("channel0_1"), stream, flags & 2 != 0),
        (recording.join(end_mark::FILE), &mark[..], flags & 1 != 0),
    ] {
        match is_there {
            true => fs::write(path, bytes).expect("a file of the recording"),
            false => drop(fs::remove_file(path)),
        }
    }
    check(&folder, stream, requests);
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let four = |at: usize| bytes[at..at + 4].try_into().map(u32::from_be_bytes).map(u64::from);
    let (high, low) = (four(at).expect("four bytes"), four(at + 4).expect("four bytes"));
    high << 32 | low
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Each answer has the size that its kind and its own numbers say, and shows nothing but the recording's bytes.
fn check(folder: &Path, stream: &[u8], mut requests: &[u8]) {
    let answers = live_answers(folder, requests);
    let mut ends = [0u64; 4];
    for answer in &answers {
        let (command, payload) = (word(requests, 8), number(requests, 0) as usize);
        let request = &requests[HEAD..HEAD + payload];
        requests = &requests[HEAD + payload..];
        match command {
            1 => assert_eq!(answer.len(), 20),
            2 => assert_eq!(answer.len(), 4 + word(answer, 0) as usize * 339),
            // With a list, an empty one begins anew.
            3 | 7 => {
                ends = [0; 4];
                assert_eq!(answer.len(), 8 + word(answer, 4) as usize * 4371);
            }
            4 => {
                assert_eq!(answer.len(), 64);
                if word(answer, 56) == 1 {
                    let (at, packet, content) =
                        (number(answer, 0), number(answer, 8) / 8, number(answer, 16) / 8);
                    let end = &mut ends[number(request, 0) as usize];
                    assert!(content <= packet && at >= *end || *end == 0, "{at} {end}");
                    *end = at + packet;
                    assert!(*end <= stream.len() as u64);
                }
            }
            5 => {
                let body = &answer[12..];
                if word(answer, 0) == 1 {
                    let at = number(request, 8) as usize;
                    assert_eq!(body.len(), word(request, 16) as usize);
                    let is_metadata = METADATA.get(at..at + body.len()) == Some(body);
                    assert!(is_metadata || stream.get(at..at + body.len()) == Some(body));
                } else {
                    assert!(body.is_empty());
                }
            }
            6 => assert_eq!(answer.len() as u64, 12 + number(answer, 0)),
            8 | 9 => assert_eq!(answer.len(), 4),
            _ => panic!("an answer to {command}, which is no command"),
        }
    }
}
