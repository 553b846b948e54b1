//! Follows what system calls do to descriptors, and finds the file that a call is about.
//!
//! A descriptor is known from the record that opens it up to the one that closes it, in the processes that have it.
//! Before and after, only its number is known. A call is followed in up to three steps: [`begin`] takes its arguments,
//! [`complete`] adds arguments that are recorded later, and [`end`] applies what a successful call has done to the
//! tables of the [`World`].
//!
//! ```text
//! openat("a") = 3     3 is "a"                 dup2(3, 1)     1 is "a"
//! fork()              the child has a copy     execve()       those without FD_CLOEXEC stay
//! clone(CLONE_FILES)  the child shares them    close(3)       3 is unknown
//! ```
//!
//! close() applies at its begin, since another thread may get the number before the call returns. A descriptor of which
//! it is not known whether exec() closes it is forgotten by exec(): nothing is guessed.
//!
//! # Callers
//! The [`engine`](crate::engine) calls these functions in the order of records, for calls whose [`CallKind`]
//! concerns descriptors; all others skip this file. The arguments are facts and no records, so the same code
//! serves a pass over a whole trace and the lines of `strata view`, for which `steps.rs` takes the
//! facts out of the records.
//!
//! A name is given where the kernel would give one: a path by open, an address by bind, connect or accept, a kind
//! such as `pipe` or `epoll` by calls that make something nameless. Paths relative to the working folder or to
//! another descriptor are joined with its name, if that is known. epoll returns numbers that the program has
//! chosen, and the table of the epoll says which descriptor each stands for.

use crate::ids::calls::{is_closed_by_exec, CallId, CallKind};
use crate::ids::names::{Name, NameKind};
use crate::ids::thread_id::ThreadId;
use crate::records::facts::{More, Part, PolledDescriptors, RecordText, SocketAddress};
use crate::world::descriptor_tables::OpenedFor;
use crate::world::state::Object;
use crate::world::threads::{Arguments, OpenCall, WaitArgument, NO_ARGUMENTS};
use crate::world::World;

pub(crate) const AT_FDCWD: i32 = -100;
/// Flag of clone() by which the new thread shares its parent's descriptors.
const CLONE_FILES: i64 = 0x400;
const CLONE_FS: i64 = 0x200;
/// Flags of unshare() after which a thread has a working folder of its own: a new mount or user namespace implies that.
const OWN_FOLDER: i64 = CLONE_FS | 0x20000 | 0x1000_0000;
const CLOSE_RANGE_UNSHARE: i64 = 2;
const CLOSE_RANGE_CLOEXEC: i64 = 4;
const O_CLOEXEC: i64 = 0o2_000_000;
/// Command of fcntl() that duplicates a descriptor.
const F_DUPFD: i64 = 0;
const F_SETFD: i64 = 2;
const F_DUPFD_CLOEXEC: i64 = 1030;
const FIONCLEX: i64 = 0x5450;
const FIOCLEX: i64 = 0x5451;
const EINPROGRESS: i64 = 115;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;

/// Returns the object of a call that begins, as it is known at that time.
#[inline]
pub(crate) fn object_at_begin(world: &World, who: ThreadId, object: Object) -> Object {
    match object {
        // As memory has that is of no file: there is no such descriptor.
        Object::Descriptor(..0) => Object::None,
        object => world.object(who, object),
    }
}

/// Sets the object and the arguments of `open`, a call that begins. A close takes effect at once. With `wants_paths`,
/// paths of calls that open nothing are kept as well.
pub(crate) fn begin(
    world: &mut World,
    who: ThreadId,
    open: &mut OpenCall,
    object: Object,
    more: More<'_>,
    wants_paths: bool,
) {
    let call = open.call;
    let kind = world.calls.kind(call);
    // The most frequent call of programs with threads concerns no descriptor, and its object is memory.
    if kind == CallKind::Futex {
        open.object = object_at_begin(world, who, object);
        let wait = more.number(Part::Argument).map_or(WaitArgument::None, WaitArgument::Expected);
        let control = more.number(Part::Control);
        open.arguments = Some(Arguments { wait, control, ..NO_ARGUMENTS });
        return;
    }
    let descriptor = match object {
        Object::Descriptor(number @ 0..) => Some(number),
        _ => None,
    };
    let target =
        more.descriptor(Part::Target).filter(|&target| target >= 0).map(Object::Descriptor);
    open.object = object_at_begin(world, who, object);
    if let Some(target) = target {
        open.arguments_mut().target = world.object(who, target);
    }
    if kind == CallKind::Other && !wants_paths {
        return;
    }
    let arguments = open.arguments_mut();
    arguments.descriptor = descriptor;
    arguments.folder = more.descriptor(Part::Folder).filter(|&folder| folder != AT_FDCWD);
    match kind {
        CallKind::Open | CallKind::Folder => set_path(world, who, open, more),
        CallKind::Address => {
            let kind = addressed(world, call);
            let name = socket_name(world, open.object, more.address(), kind);
            open.arguments_mut().path = name;
        }
        CallKind::Make => arguments.path = made(world, call, more),
        CallKind::Poll => {
            arguments.wait =
                more.number(Part::Timeout).map_or(WaitArgument::None, WaitArgument::Timeout);
            // Of several it is known which one when the call is over.
            if open.object == Object::None {
                let only = more.polled().and_then(PolledDescriptors::only);
                open.object = only.map_or(Object::None, |only| polled(world, who, only));
            }
        }
        CallKind::Watch => watch(world, who, descriptor, more),
        _ if wants_paths => set_path(world, who, open, more),
        _ => {}
    }
    if kind == CallKind::Other {
        return;
    }
    let arguments = open.arguments_mut();
    arguments.flags = more.number(Part::Flags).or_else(|| more.number(Part::Type));
    arguments.control = more.number(Part::Control);
    let (flags, control) = (arguments.flags, arguments.control);
    let argument = more.number(Part::Argument);
    match (kind, descriptor) {
        // It is taken away at once: what another thread opens meanwhile may have its number.
        (CallKind::Close, Some(old)) => world.close(who, old),
        (CallKind::CloseRange, Some(first)) => close_range(world, who, first, argument, flags),
        (CallKind::Control, Some(number)) => {
            let by_exec = match (control, argument) {
                (Some(F_SETFD), Some(flags)) => Some(flags & 1 != 0),
                (Some(FIOCLEX), _) => Some(true),
                (Some(FIONCLEX), _) => Some(false),
                _ => None,
            };
            if let Some(by_exec) = by_exec {
                world.retain(who, |found, opened| {
                    if found == number {
                        opened.by_exec = Some(by_exec);
                    }
                    true
                });
            }
        }
        _ => {}
    }
}

/// Notes a descriptor that epoll_ctl() adds to an epoll or changes. Removed descriptors need no note, since the epoll
/// no longer returns them.
fn watch(world: &mut World, who: ThreadId, descriptor: Option<i32>, more: More<'_>) {
    const EPOLL_CTL_ADD: i64 = 1;
    const EPOLL_CTL_MOD: i64 = 3;
    let sets = matches!(more.number(Part::Control), Some(EPOLL_CTL_ADD | EPOLL_CTL_MOD));
    let data = more.number(Part::Data).map(|data| data as u64);
    if let (true, Some(epoll), Some(data), Some(descriptor)) =
        (sets, more.descriptor(Part::Epoll), data, descriptor)
    {
        world.watch(who, epoll, data, descriptor);
    }
}

/// Returns the object of a descriptor of poll() or select().
fn polled(world: &World, who: ThreadId, descriptor: i32) -> Object {
    world.object(who, Object::Descriptor(descriptor))
}

/// Returns the object of a call at its end: for poll() and select() with several descriptors, the first that is ready.
pub(crate) fn object_at_end(
    world: &World,
    open: &OpenCall,
    who: ThreadId,
    more: More<'_>,
) -> Object {
    if open.object != Object::None || world.calls.kind(open.call) != CallKind::Poll {
        return open.object;
    }
    match more.polled().and_then(PolledDescriptors::first) {
        Some(ready) => polled(world, who, ready),
        None => open.object,
    }
}

/// Returns whether all descriptors that were ready when a call ended have objects of this kind.
pub(crate) fn is_ready_only(
    world: &World,
    open: &OpenCall,
    who: ThreadId,
    (result, more): (i64, More<'_>),
    is_of_kind: impl Fn(Object) -> bool,
) -> bool {
    if let Some(ready) = more.ready() {
        let epoll = open.arguments().descriptor.unwrap_or(-1);
        let is_of_kind = |&data: &u64| is_of_kind(world.watched(who, epoll, data));
        return ready.all(result).is_some_and(|all| all.iter().all(is_of_kind));
    }
    result == 1 && is_of_kind(object_at_end(world, open, who, more))
}

/// Adds a deferred argument to an open call.
pub(crate) fn complete(
    world: &mut World,
    who: ThreadId,
    open: &mut OpenCall,
    more: More<'_>,
    wants_paths: bool,
) {
    let kind = world.calls.kind(open.call);
    let has_path = more.path().bytes().is_some();
    match kind {
        CallKind::Address => {
            if let Some(address) = more.address() {
                let kind = addressed(world, open.call);
                let name = socket_name(world, open.object, Some(address), kind);
                open.arguments_mut().path = name;
            }
        }
        CallKind::Make if has_path => open.arguments_mut().path = made(world, open.call, more),
        CallKind::Make => {}
        CallKind::Open | CallKind::Folder if has_path => set_path(world, who, open, more),
        _ if has_path && wants_paths => set_path(world, who, open, more),
        _ => {}
    }
    if kind != CallKind::Other {
        let arguments = open.arguments_mut();
        arguments.flags = more.number(Part::Flags).or(arguments.flags);
        if let (CallKind::Poll, Some(timeout)) = (kind, more.number(Part::Timeout)) {
            arguments.wait = WaitArgument::Timeout(timeout);
        }
    }
}

fn close_range(
    world: &mut World,
    who: ThreadId,
    first: i32,
    last: Option<i64>,
    flags: Option<i64>,
) {
    let flags = flags.unwrap_or(0);
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        world.unshare(who);
    }
    let last = last.unwrap_or(i64::MAX);
    world.retain(who, |found, opened| {
        let is_in = found >= first && i64::from(found) <= last;
        if is_in && flags & CLOSE_RANGE_CLOEXEC != 0 {
            opened.by_exec = Some(true);
            return true;
        }
        !is_in
    });
}

/// Applies the effects of a call that has ended on descriptors and folders.
pub(crate) fn end(
    world: &mut World,
    who: ThreadId,
    open: &OpenCall,
    result: Option<i64>,
    more: More<'_>,
) {
    let Some(result) = result else { return };
    let kind = world.calls.kind(open.call);
    let made = i32::try_from(result).ok().filter(|&made| made >= 0);
    let &Arguments { descriptor, path, flags, control, .. } = open.arguments();
    let by_exec = is_closed_by_exec(world.calls.name(open.call), flags);
    match (kind, made) {
        (CallKind::Open, Some(made)) => world.open(who, made, OpenedFor { name: path, by_exec }),
        (CallKind::Make, Some(made)) => {
            let name = match world.calls.name(open.call).contains("accept") {
                true => accepted(world, open.object, more.address()),
                false => path,
            };
            world.open(who, made, OpenedFor { name, by_exec });
        }
        (CallKind::Pair, Some(_)) => {
            let name = world.calls.name(open.call).trim_start_matches("compat_").to_owned();
            let name = match name.starts_with("pipe") {
                true => world.names.of_kind(NameKind::Pipe, b"pipe"),
                false => world.names.of_kind(NameKind::Socket, b"socketpair"),
            };
            for part in [Part::First, Part::Second] {
                if let Some(made) = more.descriptor(part) {
                    world.open(who, made, OpenedFor { name, by_exec });
                }
            }
        }
        (CallKind::Duplicate, Some(made)) => duplicate(world, who, open, made, by_exec),
        (CallKind::Control, Some(made)) => {
            let by_exec = match control {
                Some(F_DUPFD) => Some(false),
                Some(F_DUPFD_CLOEXEC) => Some(true),
                _ => return,
            };
            duplicate(world, who, open, made, by_exec);
        }
        (CallKind::Address, _) if result == 0 || result == -EINPROGRESS => {
            if let Some(number) = descriptor.filter(|_| path.is_some()) {
                let by_exec = world.opened(who, number).and_then(|opened| opened.by_exec);
                world.open(who, number, OpenedFor { name: path, by_exec });
            }
        }
        (CallKind::Unshare, Some(0)) => {
            if flags.is_none_or(|it| it & CLONE_FILES != 0) {
                world.unshare(who);
            }
            if flags.is_none_or(|it| it & OWN_FOLDER != 0) {
                world.unshare_folder(who);
            }
        }
        (CallKind::Ask, Some(0)) => asked(world, who, open, more.address()),
        (CallKind::Folder, Some(0)) => {
            let name = match open.object {
                Object::File(name) => name,
                _ => path,
            };
            world.enter_folder(who, name);
        }
        (CallKind::Exec, Some(0)) => exec(world, who),
        _ => {}
    }
}

fn duplicate(world: &mut World, who: ThreadId, open: &OpenCall, made: i32, by_exec: Option<bool>) {
    match open.object {
        // Onto itself: dup2() changes nothing.
        _ if open.arguments().descriptor == Some(made) => {}
        Object::File(name) => world.open(who, made, OpenedFor { name, by_exec }),
        _ => world.close(who, made),
    }
}

/// Applies exec(): some descriptors are closed, and the others are not shared any more.
pub(crate) fn exec(world: &mut World, who: ThreadId) {
    world.unshare(who);
    world.retain(who, |_, opened| opened.by_exec == Some(false));
}

/// Applies the creation of a thread or process, which shares its parent's descriptors or gets copies, as the flags of
/// the call say.
pub(crate) fn fork(
    world: &mut World,
    parent: Option<ThreadId>,
    child: ThreadId,
    is_process: Option<bool>,
) {
    let Some(parent) = parent else { return };
    let open = world.threads.get(parent).and_then(|thread| thread.open);
    let open = open.filter(|open| world.calls.kind(open.call) == CallKind::Fork);
    let name = open.map_or("", |open| world.calls.name(open.call)).trim_start_matches("compat_");
    let flags = open.and_then(|open| open.arguments().flags);
    let shares = match (name, flags) {
        ("fork" | "vfork", _) => Some(false),
        (_, Some(flags)) => Some(flags & CLONE_FILES != 0),
        (_, None) => None,
    };
    if is_process == Some(true) {
        match (name, flags) {
            ("fork" | "vfork", _) => world.inherit_folder(parent, child, false),
            (_, Some(flags)) => world.inherit_folder(parent, child, flags & CLONE_FS != 0),
            (_, None) => {}
        }
    }
    match (shares, is_process) {
        (Some(true), Some(true)) => world.share(parent, child),
        (Some(false), Some(_)) => world.copy(parent, child),
        // Threads of a process have what it has.
        _ => {}
    }
}

/// Adds a descriptor, or a working folder, that existed when the recording began.
pub(crate) fn there(
    world: &mut World,
    who: ThreadId,
    descriptor: i64,
    flags: Option<i64>,
    path: RecordText<'_>,
) {
    let Ok(descriptor) = i32::try_from(descriptor) else { return };
    if descriptor == AT_FDCWD {
        let (Some(path), None) = (path.bytes(), world.folder(who)) else { return };
        let name = world.names.of_kind(NameKind::Given, &path);
        return world.enter_folder(who, name);
    }
    let (Some(path), None) = (path.bytes(), world.file(who, descriptor)) else { return };
    let (kind, text) = match path.as_slice() {
        // As /proc/PID/fd names them.
        path if path.starts_with(b"pipe:") => (NameKind::Pipe, &b"pipe"[..]),
        path if path.starts_with(b"socket:") => (NameKind::Socket, path),
        path => match path.strip_prefix(b"anon_inode:") {
            Some(name) => (NameKind::Nameless, name),
            None => (NameKind::Given, path),
        },
    };
    let name = world.names.of_kind(kind, text);
    let by_exec = flags.map(|flags| flags & O_CLOEXEC != 0);
    world.open(who, descriptor, OpenedFor { name, by_exec });
}

/// Sets the path in the arguments of a call.
fn set_path(world: &mut World, who: ThreadId, open: &mut OpenCall, more: More<'_>) {
    let path = path(world, who, open, more);
    open.arguments_mut().path = path;
}

/// Returns a path, preceded by the folder in which it begins if that is known.
fn path(world: &mut World, who: ThreadId, open: &OpenCall, more: More<'_>) -> Name {
    let Some(path) = more.path().bytes() else { return Name::NONE };
    let folder = open.arguments().folder;
    let name = world.calls.name(open.call);
    // A link's text is no path of its maker's, and a message queue has a name.
    let is_path = !name.contains("symlink") && !name.contains("mq_");
    let folder = match (path.first(), folder) {
        (Some(b'/'), _) => None,
        (_, Some(folder)) => world.file(who, folder),
        (_, None) => world.folder(who).filter(|_| is_path),
    };
    // The address of a text that could not be read.
    if path.strip_prefix(b"0x").is_some_and(|rest| rest.iter().all(u8::is_ascii_hexdigit)) {
        return Name::NONE;
    }
    match folder {
        Some(folder) if path.is_empty() => folder,
        Some(folder) => {
            let folder = world.names.text(folder);
            let whole = [folder.trim_end_matches('/').as_bytes(), b"/", &path].concat();
            world.names.of(&whole)
        }
        None => world.names.of(&path),
    }
}

/// Returns a name for the object that a call makes: `epoll` for `epoll_create1`, `tcp` for a socket.
fn made(world: &mut World, call: CallId, more: More<'_>) -> Name {
    let name = world.calls.name(call);
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let name = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    if name == "socket" {
        let stream = more.number(Part::Type).map(|it| it & 0xf);
        let family = more.number(Part::Family).and_then(|family| u64::try_from(family).ok());
        let text = match (family, stream) {
            (Some(AF_INET | AF_INET6), Some(1)) => "tcp",
            (Some(AF_INET | AF_INET6), Some(2)) => "udp",
            (Some(AF_UNIX), _) => "unix",
            (Some(AF_NETLINK), _) => "netlink",
            _ => "socket",
        };
        return world.names.of_kind(NameKind::Socket, text.as_bytes());
    }
    if name == "memfd_create" {
        let path = more.path().bytes().unwrap_or_default();
        return world.names.of_kind(NameKind::Nameless, &[b"memfd:", &path[..]].concat());
    }
    let ends = ["_create", "_open", "_init", "_setup"];
    let short = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned();
    world.names.of_kind(NameKind::Nameless, short.as_bytes())
}

/// Returns a socket's address as text, `127.0.0.1:80`, `[::1]:80` or a path; `None` if the record does not say it.
fn text_of(address: &SocketAddress, with_port: bool) -> Option<String> {
    let port = address.port;
    let bytes = address.bytes.as_slice();
    match address.family {
        AF_INET => {
            let ip = std::net::Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?);
            Some(if with_port { format!("{ip}:{port}") } else { ip.to_string() })
        }
        AF_INET6 => {
            let ip = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
            Some(if with_port { format!("[{ip}]:{port}") } else { ip.to_string() })
        }
        AF_UNIX => {
            // One without a file begins with a NUL; of a path, what is behind one is no part of it.
            let path = match bytes.split_first() {
                Some((0, name)) if name.iter().any(|&byte| byte != 0) => {
                    format!("@{}", String::from_utf8_lossy(name).trim_end_matches('\0'))
                }
                _ => {
                    let path = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                    String::from_utf8_lossy(path).into_owned()
                }
            };
            Some(path).filter(|path| !path.is_empty())
        }
        _ => None,
    }
}

/// Returns the first word of a socket's name, its protocol.
fn protocol(world: &World, object: Object) -> String {
    match object {
        Object::File(name) => {
            let text = world.names.text(name);
            text.split(' ').next().unwrap_or("socket").to_owned()
        }
        _ => "socket".to_owned(),
    }
}

/// Returns the new name of a socket that gets an address: its own, or at connect() that of the other end.
fn socket_name(
    world: &mut World,
    object: Object,
    address: Option<SocketAddress>,
    kind: NameKind,
) -> Name {
    let Some(text) = address.and_then(|address| text_of(&address, true)) else { return Name::NONE };
    let text = format!("{} {text}", protocol(world, object));
    world.names.of_kind(kind, text.as_bytes())
}

/// Returns the kind of name that a socket has after this call has given it an address.
fn addressed(world: &World, call: CallId) -> NameKind {
    match world.calls.name(call).ends_with("connect") {
        true => NameKind::Connected,
        false => NameKind::Socket,
    }
}

/// Names a socket by the address that getsockname() returns. After a bind to port 0, only this call shows the port.
fn asked(world: &mut World, who: ThreadId, open: &OpenCall, address: Option<SocketAddress>) {
    let (Some(number), Object::File(name)) = (open.arguments().descriptor, open.object) else {
        return;
    };
    if world.names.kind(name) != NameKind::Socket || !world.names.text(name).ends_with(":0") {
        return;
    }
    let name = socket_name(world, open.object, address, NameKind::Socket);
    let by_exec = world.opened(who, number).and_then(|opened| opened.by_exec);
    if name.is_some() {
        world.open(who, number, OpenedFor { name, by_exec });
    }
}

/// Returns the name of an accepted connection. Connections to one address are distinguished by the other end's address,
/// without its port, which is arbitrary.
fn accepted(world: &mut World, from: Object, peer: Option<SocketAddress>) -> Name {
    let listens = match from {
        Object::File(name) => world.names.text(name),
        _ => "socket".to_owned(),
    };
    let peer = peer.filter(|peer| peer.family != AF_UNIX);
    let text = match peer.and_then(|peer| text_of(&peer, false)) {
        Some(peer) => format!("{listens} from {peer}"),
        None => listens,
    };
    world.names.of_kind(NameKind::Socket, text.as_bytes())
}

#[cfg(test)]
mod tests;
