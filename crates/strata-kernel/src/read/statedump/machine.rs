//! Reads the state of the machine: interrupts, CPUs, block and network devices, mounts, and the sockets of this network
//! namespace.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The most items of each kind, such as interrupts or mounts, that are read.
const MANY: usize = 1 << 16;

/// A CPU as /proc/cpuinfo describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo {
    pub(super) number: u32,
    pub(super) vendor: String,
    pub(super) family: u8,
    pub(super) model: u8,
    pub(super) model_name: String,
    pub(super) package: u16,
    pub(super) core: u16,
    pub(super) cores: u16,
}

/// State of the machine that belongs to no process, for a state dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// Interrupts: number, chip, and devices.
    pub(super) interrupts: Vec<(u32, String, String)>,
    pub(super) cpus: Vec<CpuInfo>,
    /// Block devices: number as in the kernel's events, name.
    pub(super) disks: Vec<(u32, String)>,
    /// Network devices: name, first IPv4 address in network byte order.
    pub(super) networks: Vec<(String, [u8; 4])>,
    /// Mounts: device, type, path.
    pub(super) mounts: Vec<(String, String, String)>,
    /// Texts with protocol, address and peer of each socket, by the socket's inode number.
    sockets: HashMap<u64, String>,
}

/// Kinds of interrupts, which follow the number at the chip, as in `18-fasteoi`. Other kinds are a word of their own.
const TYPES: [&str; 5] = ["edge", "level", "fasteoi", "percpu", "event"];

/// Returns whether a word is an interrupt's kind, and not the name of a device.
fn is_type(word: &str) -> bool {
    let of_number = |(number, kind): (&str, &str)| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && TYPES.contains(&kind)
    };
    ["Level", "Edge"].contains(&word) || word.split_once('-').is_some_and(of_number)
}

fn read(root: &Path, path: &str) -> String {
    String::from_utf8_lossy(&fs::read(root.join(path)).unwrap_or_default()).into_owned()
}

impl MachineState {
    /// Reads the state from files below `root`.
    #[must_use]
    pub fn read(root: &Path) -> MachineState {
        MachineState {
            interrupts: interrupts(&read(root, "proc/interrupts")),
            cpus: cpus(&read(root, "proc/cpuinfo")),
            disks: disks(&read(root, "proc/partitions")),
            networks: networks(root),
            mounts: mounts(&read(root, "proc/self/mountinfo")),
            sockets: sockets(root),
        }
    }

    /// Returns the name of an open file; for a socket with its addresses.
    pub(super) fn named(&self, name: &[u8]) -> Vec<u8> {
        let number = name.strip_prefix(b"socket:[").and_then(|rest| rest.strip_suffix(b"]"));
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        match number.and_then(|number: u64| self.sockets.get(&number)) {
            Some(address) => [name, b" ", address.as_bytes()].concat(),
            None => name.to_vec(),
        }
    }
}

/// Parses lines such as ` 24:   0   12   PCI-MSI 65536-edge   virtio1-req.0` and ` 18:   7   0   IO-APIC 18-fasteoi
/// ehci_hcd:usb1, ahci`, which has two devices. Lines with a name instead of a number are the CPUs' own interrupts.
fn interrupts(text: &str) -> Vec<(u32, String, String)> {
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number: u32 = number.trim().parse().ok()?;
        let words = rest.split_whitespace().skip_while(|word| word.parse::<u64>().is_ok());
        let words: Vec<&str> = words.collect();
        // Nobody serves it, and its type is the last word.
        let others = words.iter().rev().skip(1).take_while(|word| word.ends_with(','));
        let actions = match words.last() {
            Some(last) if is_type(last) => 0,
            Some(_) => 1 + others.count(),
            None => return None,
        };
        let (chip, actions) = words.split_at(words.len() - actions);
        let (chip, nobody) = (chip.join(" "), actions.is_empty().then_some(""));
        let names = actions.iter().map(|name| name.trim_end_matches(',')).chain(nobody);
        let all: Vec<_> = names.map(|name| (number, chip.clone(), name.to_owned())).collect();
        Some(all)
    };
    text.lines().skip(1).filter_map(line).flatten().take(MANY).collect()
}

fn cpus(text: &str) -> Vec<CpuInfo> {
    let one = |block: &str| {
        let value = |name: &str| {
            block.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let number = |name| value(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(CpuInfo {
            number: value("processor")?.parse().ok()?,
            vendor: value("vendor_id").unwrap_or_default().to_owned(),
            family: number("cpu family") as u8,
            model: number("model") as u8,
            model_name: value("model name").unwrap_or_default().to_owned(),
            package: number("physical id"),
            core: number("core id"),
            cores: number("cpu cores"),
        })
    };
    text.split("\n\n").filter_map(one).take(MANY).collect()
}

/// Parses lines such as `  254   0   10485760 vda`.
fn disks(text: &str) -> Vec<(u32, String)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor): (u32, u32) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        // As the kernel has it: 12 bits and 20 bits.
        Some((major << 20 | (minor & 0xf_ffff), words.nth(1)?.to_owned()))
    };
    text.lines().filter_map(line).take(MANY).collect()
}

/// Returns the network devices with their first IPv4 addresses.
fn networks(root: &Path) -> Vec<(String, [u8; 4])> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/net")) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).filter_map(|it| it.file_name().into_string().ok());
    let addresses = addresses();
    let address = |name: &str| addresses.iter().find(|it| it.0 == name).map_or([0; 4], |it| it.1);
    let mut all: Vec<_> = names.take(MANY).map(|name| (address(&name), name)).collect();
    all.sort();
    all.into_iter().map(|(address, name)| (name, address)).collect()
}

/// Returns the addresses of the devices in this network namespace.
fn addresses() -> Vec<(String, [u8; 4])> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the C library writes one pointer, to a list that is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let (mut all, mut next) = (Vec::new(), first);
    while !next.is_null() && all.len() < MANY {
        // SAFETY: an element of the list, which lives until it is freed.
        let one = unsafe { &*next };
        let family = match one.ifa_addr.is_null() {
            true => 0,
            // SAFETY: an address that is there has its family in front.
            false => i32::from(unsafe { (*one.ifa_addr).sa_family }),
        };
        if family == libc::AF_INET {
            // SAFETY: one of this family is such a structure.
            let address = unsafe { (*one.ifa_addr.cast::<libc::sockaddr_in>()).sin_addr.s_addr };
            // SAFETY: a text of the list.
            let name = unsafe { std::ffi::CStr::from_ptr(one.ifa_name) };
            all.push((name.to_string_lossy().into_owned(), address.to_ne_bytes()));
        }
        next = one.ifa_next;
    }
    // SAFETY: the list, once.
    unsafe { libc::freeifaddrs(first) };
    all
}

/// Parses lines such as `29 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw`.
fn mounts(text: &str) -> Vec<(String, String, String)> {
    let line = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let kind = back.next()?.to_owned();
        Some((unescaped(back.next()?), kind, unescaped(front.split(' ').nth(4)?)))
    };
    text.lines().filter_map(line).take(MANY).collect()
}

/// Decodes a path such as `/media/a\040disk`: the kernel writes spaces and the like as three octal digits.
fn unescaped(word: &str) -> String {
    let mut parts = word.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = part.split_at_checked(3).and_then(|(digits, rest)| {
            let byte = u8::from_str_radix(digits, 8).ok().filter(u8::is_ascii)?;
            Some((char::from(byte), rest))
        });
        let (first, rest) = found.unwrap_or(('\\', part));
        text.push(first);
        text.push_str(rest);
    }
    text
}

/// Reads the sockets. Returns texts such as "tcp 127.0.0.1:80" with the peer's address, by the socket's number.
fn sockets(root: &Path) -> HashMap<u64, String> {
    let mut all = HashMap::new();
    for protocol in ["tcp", "udp", "tcp6", "udp6"] {
        let text = read(root, &format!("proc/net/{protocol}"));
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = words.get(9)?.parse().ok()?;
            let (local, remote) = (address(words.get(1)?)?, address(words.get(2)?)?);
            let remote = remote.strip_suffix(":0").map_or(format!("->{remote}"), |_| String::new());
            Some((number, format!("{protocol} {local}{remote}")))
        };
        all.extend(text.lines().skip(1).filter_map(line).take(MANY));
    }
    all.extend(unix_sockets(&read(root, "proc/net/unix")).take(MANY));
    all
}

/// Parses lines such as `00000000aa8fd2f2: 00000002 00000000 00010000 0001 01 17 /run/a socket`: the number is the
/// seventh word, and the path is the rest, if there is one.
fn unix_sockets(text: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    let line = |line: &str| {
        let (mut word, mut rest) = ("", line);
        for _ in 0..7 {
            (word, rest) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        }
        let name = if rest.is_empty() { "unix".to_owned() } else { format!("unix {rest}") };
        Some((word.parse().ok()?, name))
    };
    text.lines().skip(1).filter_map(line)
}

/// Parses an address such as `0100007F:0050`: words in the byte order of memory, and the port.
fn address(text: &str) -> Option<String> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    match bytes.len() {
        4 => Some(format!("{}:{port}", Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))),
        16 => Some(format!("[{}]:{port}", Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_with_numbers_have_their_device_and_chip() {
        let text = "           CPU0       CPU1\n  1:          9          0   IO-APIC   1-edge      i8042\n \
                    24:   0  12   PCI-MSI 65536-edge      virtio1-req.0\nNMI:   0   0   Non-maskable interrupts\n";
        let found = interrupts(text);
        let wanted = [(1, "IO-APIC 1-edge", "i8042"), (24, "PCI-MSI 65536-edge", "virtio1-req.0")];
        assert_eq!(found, wanted.map(|(n, chip, name)| (n, chip.to_owned(), name.to_owned())));
    }

    #[test]
    fn interrupt_that_devices_share_is_one_of_each_and_that_of_nobody_has_no_name() {
        let text = "           CPU0       CPU1\n 18:          9          0   IO-APIC  18-fasteoi   ehci_hcd:usb1, ahci, i801_smbus\n \
                    19:   3   0   IO-APIC  19-level\n 20:   3   0\n 21:   0   1   GPIO  7 Edge   battery-level\n";
        let found = interrupts(text);
        let shared = "IO-APIC 18-fasteoi";
        let wanted = [
            (18, shared, "ehci_hcd:usb1"),
            (18, shared, "ahci"),
            (18, shared, "i801_smbus"),
            (19, "IO-APIC 19-level", ""),
            (21, "GPIO 7 Edge", "battery-level"),
        ];
        assert_eq!(found, wanted.map(|(n, chip, name)| (n, chip.to_owned(), name.to_owned())));
    }

    #[test]
    fn mount_has_its_path_as_it_is() {
        let text = "29 1 254:1 / /media/a\\040b\\134c rw shared:1 - ext4 /dev/x\\011y rw\n\
                    30 1 0:5 / /d\\9\\04 rw - tmpfs none rw\n";
        let wanted = [("/dev/x\ty", "ext4", "/media/a b\\c"), ("none", "tmpfs", "/d\\9\\04")];
        let wanted = wanted
            .map(|(device, kind, path)| (device.to_owned(), kind.to_owned(), path.to_owned()));
        assert_eq!(mounts(text), wanted);
    }

    #[test]
    fn socket_has_all_of_its_path() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    00000000aa8fd2f2: 00000002 00000000 00010000 0001 01    17 /run/a socket \n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 18\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 19 @abstract\nshort\n";
        let found: Vec<_> = unix_sockets(text).collect();
        let wanted = [(17, "unix /run/a socket "), (18, "unix"), (19, "unix @abstract")];
        assert_eq!(found, wanted.map(|(number, name)| (number, name.to_owned())));
    }

    #[test]
    fn sockets_addresses_are_as_people_write_them() {
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:0050").as_deref(), Some("127.0.0.1:80"));
            let six = address("00000000000000000000000001000000:1F90");
            assert_eq!(six.as_deref(), Some("[::1]:8080"));
        }
        for wrong in ["", "0100007F", "0100:0050", "0100007G:0050", "0100007F:10000"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
        let sockets = HashMap::from([(17, "tcp 127.0.0.1:80".to_owned())]);
        let machine = MachineState { sockets, ..MachineState::default() };
        assert_eq!(machine.named(b"socket:[17]"), b"socket:[17] tcp 127.0.0.1:80");
        assert_eq!(machine.named(b"socket:[18]"), b"socket:[18]");
        assert_eq!(machine.named(b"/tmp/socket:[17]"), b"/tmp/socket:[17]");
    }

    #[test]
    fn machine_of_this_one_has_a_cpu_and_a_mount() {
        let machine = MachineState::read(Path::new("/"));
        assert!(!machine.cpus.is_empty() && !machine.interrupts.is_empty());
        assert!(machine.mounts.iter().any(|(_, _, path)| path == "/"), "{:?}", machine.mounts);
        assert!(machine.networks.iter().all(|(name, _)| !name.is_empty()));
    }

    #[test]
    fn disks_have_the_kernel_s_number() {
        let text = "major minor  #blocks  name\n\n 254        1   10485760 vda1\n";
        assert_eq!(disks(text), [(254 << 20 | 1, "vda1".to_owned())]);
    }
}
