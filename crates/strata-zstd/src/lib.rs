//! Decompresses Zstandard (RFC 8878), from input that is not trusted: each read, table and copy is checked.
//!
//! [`unpack`] writes to a buffer whose size is known, as sections of ELF files have it, and lets its caller count the work.
//! [`Stream`] takes a stream in pieces of any size and gives one block after the other, as the records of `perf record -z` have it.
//!
//! ```text
//! frame: header, blocks
//!   block: raw | one byte repeated | compressed
//!     compressed: literals (raw, repeated, or by a Huffman code) + sequences
//!       sequence: take so many literals, then copy so many bytes from so far back
//! ```
//!
//! The numbers of sequences are coded by three finite state codes ([`States`]): for the length of literals, for
//! the distance and for the length of the match. A [`State`] stands for a code and says how many bits choose the
//! next state. Their bits are read from the last one back ([`Backwards`]), since the coder wrote them in that
//! direction. Tables, Huffman code and the last three distances stay from block to block ([`Memory`]).
//!
//! Not supported, since neither use has them: dictionaries. Checksums of frames are not compared: the result is checked by
//! who parses it.
//!
//! Both return a short text on failure, to be put after "it cannot be decompressed: ". Nothing is allocated by sizes that the
//! input gives: [`unpack`] writes to its caller's buffer, and a [`Stream`] holds the window that its frame asks for (128 MiB at
//! most) as far as it was filled. The tests unpack what the reference implementation has packed.

mod stream;

pub use stream::Stream;

/// The magic number with which a zstd frame begins.
const FRAME: u32 = 0xfd2f_b528;
const SKIPPED: u32 = 0x184d_2a50;
/// The greatest size of a block, compressed or not \[byte\].
const BLOCK_MAX: usize = 128 << 10;
/// The most bits of a Huffman code.
const HUFFMAN_BITS: u32 = 11;
const WEIGHT_BITS: u32 = 6;

/// For each code of a literal length: its smallest value, and the number of bits that follow.
const LITERAL_VALUES: [(u32, u8); 36] = with_bases([
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11,
    12, 13, 14, 15, 16,
]);
const MATCH_VALUES: [(u32, u8); 53] = with_bases([
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
]);

/// Returns the base and the number of bits of each code. The base is the first value that the codes before it do not
/// cover.
const fn with_bases<const CODES: usize>(bits: [u8; CODES]) -> [(u32, u8); CODES] {
    let mut values = [(0, 0); CODES];
    let (mut code, mut base) = (0, 0);
    while code < CODES {
        values[code] = (base, bits[code]);
        base += 1 << bits[code];
        code += 1;
    }
    values
}

/// The shortest match.
const MATCH_MIN: u32 = 3;

/// The default probabilities of the codes of literal lengths; -1 means "less than 1".
const LITERAL_USUAL: [i16; 36] = [
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
    -1, -1, -1, -1,
];
const MATCH_USUAL: [i16; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];
const OFFSET_USUAL: [i16; 29] =
    [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1];

/// A kind of code in sequences: its default probabilities with their accuracy, the greatest accuracy, and the number
/// of codes.
struct Kind {
    usual: &'static [i16],
    usual_bits: u32,
    bits_max: u32,
    codes: usize,
}
const LITERAL: Kind = Kind { usual: &LITERAL_USUAL, usual_bits: 6, bits_max: 9, codes: 36 };
const OFFSET: Kind = Kind { usual: &OFFSET_USUAL, usual_bits: 5, bits_max: 8, codes: 32 };
const MATCH: Kind = Kind { usual: &MATCH_USUAL, usual_bits: 6, bits_max: 9, codes: 53 };

/// Decompresses all frames of `packed` into `out`. Returns the number of bytes written. Fails with the reason if
/// `packed` is damaged or its content does not fit into `out`. Calls `work` with the size of each table before
/// building it, and fails if it returns false.
///
/// # Errors
/// A short text that says why, to be put after "it cannot be decompressed: ".
pub fn unpack(
    packed: &[u8],
    out: &mut [u8],
    work: &mut dyn FnMut(u64) -> bool,
) -> Result<usize, &'static str> {
    let mut input = Input(packed);
    let mut at = 0;
    while !input.0.is_empty() {
        let magic = input.number(4)? as u32;
        if magic & !0xf == SKIPPED {
            let bytes = input.number(4)?;
            input.take(usize::try_from(bytes).map_err(|_| CUT)?)?;
        } else if magic == FRAME {
            let rest = out.get_mut(at..).ok_or(LARGE)?;
            at += frame(&mut input, rest, work)?;
        } else {
            return Err("it has no frame of zstd");
        }
    }
    Ok(at)
}

const CUT: &str = "it is cut off";
const LARGE: &str = "it has more bytes than it says";
const DAMAGED: &str = "it is damaged";
const LONG: &str = "it takes too long";

/// Compressed bytes that are read from the first one on.
struct Input<'l>(&'l [u8]);

impl<'l> Input<'l> {
    fn take(&mut self, bytes: usize) -> Result<&'l [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a number of up to eight bytes, the lowest first.
    fn number(&mut self, bytes: usize) -> Result<u64, &'static str> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }
}

/// Compressed bits that are read backwards, from the last one to the first.
struct Backwards<'l> {
    bytes: &'l [u8],
    /// The number of bits that are left. Negative if more were read than exist; the excess bits are 0.
    left: i64,
}

impl<'l> Backwards<'l> {
    /// Begins at the highest bit that is set, which is an end mark.
    fn new(bytes: &'l [u8]) -> Result<Backwards<'l>, &'static str> {
        let last = *bytes.last().ok_or(CUT)?;
        let mark = last.checked_ilog2().ok_or(DAMAGED)?;
        Ok(Backwards { bytes, left: (bytes.len() as i64 - 1) * 8 + i64::from(mark) })
    }

    /// Returns the next `bits` bits, up to 32, without reading them.
    fn peek(&self, bits: u32) -> u64 {
        let from = self.left - i64::from(bits);
        let (first, shift) = (from.div_euclid(8), from.rem_euclid(8));
        let mut sum = 0u64;
        for at in (0..5).rev() {
            let byte = usize::try_from(first + at).ok().and_then(|at| self.bytes.get(at));
            sum = sum << 8 | u64::from(byte.copied().unwrap_or(0));
        }
        sum >> shift & ((1 << bits) - 1)
    }

    fn read(&mut self, bits: u32) -> u64 {
        let value = self.peek(bits);
        self.left -= i64::from(bits);
        value
    }
}

/// The decoding table of a finite state code: for each state, its code and the next state.
#[derive(Clone, Default)]
struct States {
    bits: u32,
    table: Vec<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    code: u8,
    /// Number of bits to read and add to `base` for the next state.
    bits: u8,
    base: u16,
}

impl States {
    /// Makes the table of these probabilities, whose sum is 2 to the power of `bits`.
    fn new(
        probabilities: &[i16],
        bits: u32,
        work: &mut dyn FnMut(u64) -> bool,
    ) -> Result<States, &'static str> {
        let size = 1usize << bits;
        work(size as u64).then_some(()).ok_or(LONG)?;
        let mut table = vec![State::default(); size];
        let mut next = [0u32; 256];
        let mut high = size;
        for (code, probability) in probabilities.iter().enumerate() {
            if *probability == -1 {
                high = high.checked_sub(1).ok_or(DAMAGED)?;
                table[high].code = code as u8;
                next[code] = 1;
            }
        }
        let (step, mask) = ((size >> 1) + (size >> 3) + 3, size - 1);
        let (mut at, mut sum) = (0, size - high);
        for (code, probability) in probabilities.iter().enumerate() {
            let Ok(count) = usize::try_from(*probability) else { continue };
            sum += count;
            if sum > size {
                return Err(DAMAGED);
            }
            if count > 0 {
                next[code] = count as u32;
            }
            for _ in 0..count {
                table[at].code = code as u8;
                at = (at + step) & mask;
                // The ends have the codes of less than 1.
                while at >= high {
                    at = (at + step) & mask;
                }
            }
        }
        if sum != size {
            return Err(DAMAGED);
        }
        for state in &mut table {
            let number = next[usize::from(state.code)];
            next[usize::from(state.code)] += 1;
            let more = bits - number.checked_ilog2().ok_or(DAMAGED)?;
            (state.bits, state.base) = (more as u8, ((number << more) - size as u32) as u16);
        }
        Ok(States { bits, table })
    }

    /// Returns a table with one code, which takes no bits.
    fn one(code: u8) -> States {
        States { bits: 0, table: vec![State { code, bits: 0, base: 0 }] }
    }

    /// Reads the probabilities of a table, of at most `codes` codes, and makes the table.
    fn read(
        input: &mut Input<'_>,
        bits_max: u32,
        codes: usize,
        work: &mut dyn FnMut(u64) -> bool,
    ) -> Result<States, &'static str> {
        let bytes = input.0;
        let mut at = 0usize;
        // Bits from the lowest of the first byte on. What is behind the end is checked once, after the last one.
        let read = |bits: u32, at: &mut usize| {
            let first = *at / 8;
            let sum = (0..4).rev().fold(0u64, |sum, one| {
                sum << 8 | u64::from(bytes.get(first + one).copied().unwrap_or(0))
            });
            let value = sum >> (*at % 8) & ((1 << bits) - 1);
            *at += bits as usize;
            value as i32
        };
        let bits = read(4, &mut at) as u32 + 5;
        if bits > bits_max {
            return Err(DAMAGED);
        }
        let mut left = 1i32 << bits;
        let mut probabilities = Vec::new();
        while left > 0 && probabilities.len() < codes {
            let width = (left + 1).ilog2() + 1;
            let mut value = read(width, &mut at);
            let low = (1 << (width - 1)) - 1;
            let short = (1 << width) - 1 - (left + 1);
            // Small values take a bit less.
            if value & low < short {
                at -= 1;
                value &= low;
            } else if value > low {
                value -= short;
            }
            let probability = value - 1;
            left -= probability.abs();
            probabilities.push(probability as i16);
            let mut is_zero = probability == 0;
            while is_zero && probabilities.len() <= codes {
                let zeros = read(2, &mut at);
                probabilities.extend(std::iter::repeat_n(0, zeros as usize));
                is_zero = zeros == 3;
            }
        }
        if left != 0 || probabilities.len() > codes {
            return Err(DAMAGED);
        }
        input.take(at.div_ceil(8))?;
        States::new(&probabilities, bits, work)
    }

    fn get(&self, state: u64) -> State {
        usize::try_from(state).ok().and_then(|at| self.table.get(at)).copied().unwrap_or_default()
    }
}

/// The decoding table of a Huffman code: for each value of `bits` bits, the decoded byte and the length of its code.
#[derive(Clone, Default)]
struct Huffman {
    bits: u32,
    table: Vec<(u8, u8)>,
}

impl Huffman {
    /// Reads a code's weights and makes its table.
    fn read(
        input: &mut Input<'_>,
        work: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Huffman, &'static str> {
        let head = input.number(1)? as usize;
        let mut weights = Vec::new();
        if head >= 128 {
            let count = head - 127;
            let bytes = input.take(count.div_ceil(2))?;
            weights.extend(bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).take(count));
        } else {
            let mut part = Input(input.take(head)?);
            let states = States::read(&mut part, WEIGHT_BITS, 256, work)?;
            let mut bits = Backwards::new(part.0)?;
            // Two states take turns. The end is where a next state has no bits any more.
            let mut state = [bits.read(states.bits), bits.read(states.bits)];
            if bits.left < 0 {
                return Err(CUT);
            }
            let mut turn = 0;
            loop {
                let at = states.get(state[turn]);
                weights.push(at.code);
                if weights.len() > 255 {
                    return Err(DAMAGED);
                }
                state[turn] = u64::from(at.base) + bits.read(at.bits.into());
                turn ^= 1;
                if bits.left < 0 {
                    weights.push(states.get(state[turn]).code);
                    break;
                }
            }
        }
        Huffman::new(weights, work)
    }

    /// Builds the table from these weights. The last weight is not stored, and follows from the others.
    fn new(
        mut weights: Vec<u8>,
        work: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Huffman, &'static str> {
        let is_valid = weights.len() < 256 && weights.iter().all(|it| u32::from(*it) <= 12);
        let slots = |weight: &u8| if *weight == 0 { 0 } else { 1u32 << (weight - 1) };
        let sum: u32 = if is_valid { weights.iter().map(slots).sum() } else { 0 };
        let bits = sum.checked_ilog2().ok_or(DAMAGED)? + 1;
        let rest = (1 << bits) - sum;
        if bits > HUFFMAN_BITS || !rest.is_power_of_two() {
            return Err(DAMAGED);
        }
        weights.push(rest.ilog2() as u8 + 1);
        work(1 << bits).then_some(()).ok_or(LONG)?;
        let mut table = Vec::with_capacity(1 << bits);
        for weight in 1..=bits as u8 {
            let of_weight = weights.iter().enumerate().filter(|(_, it)| **it == weight);
            for (byte, _) in of_weight {
                let code = (byte as u8, bits as u8 + 1 - weight);
                table.extend(std::iter::repeat_n(code, slots(&weight) as usize));
            }
        }
        // A code of one byte only has no bits to tell it by.
        if table.len() != 1 << bits {
            return Err(DAMAGED);
        }
        Ok(Huffman { bits, table })
    }

    /// Decodes `count` bytes from `packed` and appends them to `to`. It is an error if bits are left over.
    fn decode(&self, packed: &[u8], count: usize, to: &mut Vec<u8>) -> Result<(), &'static str> {
        let mut bits = Backwards::new(packed)?;
        for _ in 0..count {
            let (byte, used) =
                *self.table.get(bits.peek(self.bits) as usize).ok_or("its code is not there")?;
            bits.left -= i64::from(used);
            to.push(byte);
        }
        if bits.left == 0 {
            Ok(())
        } else {
            Err(DAMAGED)
        }
    }
}

/// The tables and distances that a block takes over from the blocks before it.
struct Memory {
    huffman: Option<Huffman>,
    states: [Option<States>; 3],
    offsets: [usize; 3],
    literals: Vec<u8>,
}

impl Default for Memory {
    fn default() -> Memory {
        let (huffman, states) = (None, [None, None, None]);
        Memory { huffman, states, offsets: [1, 4, 8], literals: Vec::new() }
    }
}

/// Decompresses a frame whose magic number has been read. Returns the number of bytes written to the begin of `out`.
fn frame(
    input: &mut Input<'_>,
    out: &mut [u8],
    work: &mut dyn FnMut(u64) -> bool,
) -> Result<usize, &'static str> {
    let header = FrameHeader::read(input)?;
    let mut memory = Memory::default();
    let mut at = 0;
    // The window is what matches may be away at most; here it is all that has been written.
    while !next_block(input, out, &mut at, &mut memory, work)? {}
    if header.size.is_some_and(|size| size != at as u64) {
        return Err(DAMAGED);
    }
    // Who can change the content can change its checksum, too.
    input.take(header.checksum_bytes)?;
    Ok(at)
}

/// The properties of a frame.
struct FrameHeader {
    /// Greatest distance of a match \[byte\]; for a frame of one segment the size of its content.
    window: u64,
    /// Size of the content \[byte\], if the frame says it.
    size: Option<u64>,
    /// Size of the checksum behind the last block \[byte\].
    checksum_bytes: usize,
}

impl FrameHeader {
    /// Reads the header behind the magic number.
    fn read(input: &mut Input<'_>) -> Result<FrameHeader, &'static str> {
        let flags = input.number(1)?;
        let is_single = flags & 0x20 != 0;
        if flags & 0x8 != 0 {
            return Err(DAMAGED);
        }
        let window = match is_single {
            true => None,
            false => {
                let descriptor = input.number(1)?;
                let base = 1u64 << (10 + (descriptor >> 3));
                Some(base + base / 8 * (descriptor & 7))
            }
        };
        if input.number([0, 1, 2, 4][(flags & 3) as usize])? != 0 {
            return Err("it needs a dictionary");
        }
        let size_bytes = [usize::from(is_single), 2, 4, 8][(flags >> 6) as usize];
        let size = input.number(size_bytes)?;
        let size = if size_bytes == 2 { size + 256 } else { size };
        Ok(FrameHeader {
            window: window.unwrap_or(size),
            size: (size_bytes > 0).then_some(size),
            checksum_bytes: if flags & 4 != 0 { 4 } else { 0 },
        })
    }
}

/// Decompresses the next block of a frame to `out`, from `at` on. Returns true if it is the frame's last one.
fn next_block(
    input: &mut Input<'_>,
    out: &mut [u8],
    at: &mut usize,
    memory: &mut Memory,
    work: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, &'static str> {
    let head = input.number(3)? as usize;
    let bytes = head >> 3;
    if bytes > BLOCK_MAX {
        return Err(DAMAGED);
    }
    match head >> 1 & 3 {
        0 => copy(out, at, input.take(bytes)?)?,
        1 => {
            let byte = input.take(1)?[0];
            let end = at.checked_add(bytes).ok_or(LARGE)?;
            out.get_mut(*at..end).ok_or(LARGE)?.fill(byte);
            *at = end;
        }
        2 => block(&mut Input(input.take(bytes)?), out, at, memory, work)?,
        _ => return Err(DAMAGED),
    }
    Ok(head & 1 != 0)
}

fn copy(out: &mut [u8], at: &mut usize, bytes: &[u8]) -> Result<(), &'static str> {
    let end = at.checked_add(bytes.len()).ok_or(LARGE)?;
    out.get_mut(*at..end).ok_or(LARGE)?.copy_from_slice(bytes);
    *at = end;
    Ok(())
}

/// Decompresses the content of a block.
fn block(
    input: &mut Input<'_>,
    out: &mut [u8],
    at: &mut usize,
    memory: &mut Memory,
    work: &mut dyn FnMut(u64) -> bool,
) -> Result<(), &'static str> {
    literals(input, memory, work)?;
    let count = match input.number(1)? {
        short @ 0..=127 => short,
        255 => input.number(2)? + 0x7f00,
        high => (high - 128) << 8 | input.number(1)?,
    };
    if count == 0 {
        return if input.0.is_empty() { copy(out, at, &memory.literals) } else { Err(DAMAGED) };
    }
    let modes = input.number(1)?;
    if modes & 3 != 0 {
        return Err(DAMAGED);
    }
    for (index, kind) in [LITERAL, OFFSET, MATCH].iter().enumerate() {
        let states = match modes >> (6 - 2 * index) & 3 {
            0 => States::new(kind.usual, kind.usual_bits, work)?,
            1 => States::one(input.take(1)?[0]),
            2 => States::read(input, kind.bits_max, kind.codes, work)?,
            _ => continue,
        };
        memory.states[index] = Some(states);
    }
    let [Some(of_literals), Some(of_offsets), Some(of_matches)] = &memory.states else {
        return Err(DAMAGED);
    };
    let mut bits = Backwards::new(input.0)?;
    let mut literal_state = bits.read(of_literals.bits);
    let mut offset_state = bits.read(of_offsets.bits);
    let mut match_state = bits.read(of_matches.bits);
    let mut from = 0;
    for index in 0..count {
        let [literal, offset, length] = [
            of_literals.get(literal_state),
            of_offsets.get(offset_state),
            of_matches.get(match_state),
        ];
        let code = u32::from(offset.code);
        if code >= 32 {
            return Err(DAMAGED);
        }
        let value = (1u64 << code) + bits.read(code);
        let matched = MATCH_MIN as usize + value_of(&MATCH_VALUES, length.code, &mut bits)?;
        let copied = value_of(&LITERAL_VALUES, literal.code, &mut bits)?;
        let distance = distance(&mut memory.offsets, value, copied == 0)?;
        let end = from + copied;
        copy(out, at, memory.literals.get(from..end).ok_or(DAMAGED)?)?;
        from = end;
        repeat(out, at, distance, matched)?;
        if index + 1 < count {
            literal_state = u64::from(literal.base) + bits.read(literal.bits.into());
            match_state = u64::from(length.base) + bits.read(length.bits.into());
            offset_state = u64::from(offset.base) + bits.read(offset.bits.into());
        }
        if bits.left < 0 {
            return Err(CUT);
        }
    }
    if bits.left != 0 {
        return Err(DAMAGED);
    }
    copy(out, at, memory.literals.get(from..).ok_or(DAMAGED)?)
}

/// Reads the value of a code: its base, and the bits that follow.
fn value_of(
    codes: &[(u32, u8)],
    code: u8,
    bits: &mut Backwards<'_>,
) -> Result<usize, &'static str> {
    let (base, more) = *codes.get(usize::from(code)).ok_or(DAMAGED)?;
    Ok(base as usize + bits.read(more.into()) as usize)
}

/// Returns the distance of a match. Some codes mean one of the three last distances.
fn distance(
    last: &mut [usize; 3],
    value: u64,
    has_no_literals: bool,
) -> Result<usize, &'static str> {
    if value > 3 {
        let distance = usize::try_from(value - 3).map_err(|_| DAMAGED)?;
        *last = [distance, last[0], last[1]];
        return Ok(distance);
    }
    let index = value as usize - 1 + usize::from(has_no_literals);
    let distance = match index {
        0..=2 => last[index],
        _ => last[0] - 1,
    };
    if distance == 0 {
        return Err(DAMAGED);
    }
    *last = match index {
        0 => *last,
        1 => [distance, last[0], last[2]],
        _ => [distance, last[0], last[1]],
    };
    Ok(distance)
}

/// Copies `bytes` bytes from `distance` bytes before the end to the end. Source and destination may overlap.
fn repeat(
    out: &mut [u8],
    at: &mut usize,
    distance: usize,
    bytes: usize,
) -> Result<(), &'static str> {
    let from = at.checked_sub(distance).ok_or(DAMAGED)?;
    let end = at.checked_add(bytes).filter(|end| *end <= out.len()).ok_or(LARGE)?;
    match bytes <= distance {
        true => out.copy_within(from..from + bytes, *at),
        false => (*at..end).for_each(|to| out[to] = out[to - distance]),
    }
    *at = end;
    Ok(())
}

/// Reads the literals of a block: the bytes that sequences copy to the output.
fn literals(
    input: &mut Input<'_>,
    memory: &mut Memory,
    work: &mut dyn FnMut(u64) -> bool,
) -> Result<(), &'static str> {
    memory.literals.clear();
    let first = *input.0.first().ok_or(CUT)?;
    let (kind, format) = (first & 3, first >> 2 & 3);
    if kind < 2 {
        let count = match format {
            0 | 2 => input.number(1)? >> 3,
            1 => input.number(2)? >> 4,
            _ => input.number(3)? >> 4,
        } as usize;
        if count > BLOCK_MAX {
            return Err(DAMAGED);
        }
        match kind {
            0 => memory.literals.extend_from_slice(input.take(count)?),
            _ => memory.literals.resize(count, input.take(1)?[0]),
        }
        return Ok(());
    }
    let (bytes, width) = [(3, 10), (3, 10), (4, 14), (5, 18)][usize::from(format)];
    let head = input.number(bytes)? >> 4;
    let (count, packed) = ((head & ((1 << width) - 1)) as usize, (head >> width) as usize);
    if count > BLOCK_MAX {
        return Err(DAMAGED);
    }
    let mut part = Input(input.take(packed)?);
    if kind == 2 {
        memory.huffman = Some(Huffman::read(&mut part, work)?);
    }
    let huffman = memory.huffman.as_ref().ok_or(DAMAGED)?;
    if format == 0 {
        return huffman.decode(part.0, count, &mut memory.literals);
    }
    let sizes = [part.number(2)?, part.number(2)?, part.number(2)?];
    let each = count.div_ceil(4);
    for bytes in sizes {
        huffman.decode(part.take(bytes as usize)?, each, &mut memory.literals)?;
    }
    let last = count.checked_sub(3 * each).ok_or(DAMAGED)?;
    huffman.decode(part.0, last, &mut memory.literals)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    use strata_random::Random;

    pub(crate) fn packed(bytes: &[u8], how: &[&str]) -> Vec<u8> {
        let mut zstd = Command::new("zstd")
            .args(how)
            .args(["-q", "-c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, bytes) = (zstd.stdin.take().unwrap(), bytes.to_vec());
        let writer = std::thread::spawn(move || to.write_all(&bytes).unwrap());
        let out = zstd.wait_with_output().unwrap();
        writer.join().unwrap();
        out.stdout
    }

    fn unpacked(packed: &[u8], room: usize) -> Result<Vec<u8>, &'static str> {
        let mut out = vec![0; room];
        let bytes = unpack(packed, &mut out, &mut |_| true)?;
        out.truncate(bytes);
        Ok(out)
    }

    /// Returns contents of several kinds: text, numbers, what cannot be compressed, what repeats, and none.
    pub(crate) fn contents() -> Vec<Vec<u8>> {
        let mut random = Random::from_seed(1);
        let mut next = move || random.next() as u8;
        let text = include_bytes!("lib.rs").repeat(2);
        let numbers = (0..15_000u32).flat_map(|at| ((at / 7) ^ (at << 3)).to_le_bytes()).collect();
        let few = (0..20_000).map(|_| next() & 0x83).collect();
        let any = (0..20_000).map(|_| next()).collect();
        vec![text, numbers, few, any, vec![7; 200_000], b"a".to_vec(), Vec::new()]
    }

    #[test]
    fn unpack_gives_what_zstd_has_packed_at_each_of_its_levels() {
        for bytes in contents() {
            for how in [&["-1"][..], &["-3", "--no-check"], &["--ultra", "-20"]] {
                let packed = packed(&bytes, how);
                assert!(unpacked(&packed, bytes.len()) == Ok(bytes.clone()), "{how:?}");
                assert!(bytes.is_empty() || unpacked(&packed, bytes.len() - 1).is_err());
                // Several frames, and one that is to be skipped.
                let skipped = [&SKIPPED.to_le_bytes()[..], &[3, 0, 0, 0], b"any"].concat();
                let twice = [&packed[..], &skipped, &packed].concat();
                assert!(unpacked(&twice, 2 * bytes.len()) == Ok(bytes.repeat(2)), "{how:?}");
            }
        }
    }

    #[test]
    fn malicious_frames_end_with_a_reason() {
        assert_eq!(unpacked(b"no frame", 8), Err("it has no frame of zstd"));
        let contents = contents();
        for (bytes, how) in contents.iter().zip(["-19", "-1", "-5", "-3", "-3", "-3", "-3"]) {
            let bytes = &bytes[..bytes.len().min(800)];
            let whole = packed(bytes, &[how]);
            for end in 0..whole.len() {
                assert!(end == 0 || unpacked(&whole[..end], bytes.len()).is_err());
                for bits in [0x55, 0x80, 1] {
                    let mut other = whole.clone();
                    other[end] ^= bits;
                    let _ = unpacked(&other, bytes.len());
                }
            }
        }
        // Tables may be made again and again: they are counted.
        let text = packed(&contents[0], &["-3"]);
        let mut left = 1000u64;
        let mut work = |entries| left.checked_sub(entries).map(|rest| left = rest).is_some();
        assert_eq!(unpack(&text, &mut vec![0; contents[0].len()], &mut work), Err(LONG));
    }
}
