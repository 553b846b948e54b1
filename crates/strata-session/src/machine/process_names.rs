//! Names of running processes, and which processes a name refers to. `record -p NAME` and `track --name NAME` use the
//! same rule: the name of any thread, the file name of the program, or the script that an interpreter runs.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use strata_filter::means_process;
use strata_user::read_proc;

/// The names by which a user may call one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessNames {
    /// Names of the threads; the first thread's name comes first.
    pub(crate) threads: Vec<Vec<u8>>,
    /// The last part of the path of the process's program.
    pub(crate) file: Option<Vec<u8>>,
    /// The file name of the script, or the name of the module, that the process's interpreter runs.
    pub(crate) script: Option<Vec<u8>>,
}

impl ProcessNames {
    /// Reads the names from `process`, a folder of `/proc`. Names that the system hides from this user are left out.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn read(process: &Path) -> io::Result<ProcessNames> {
        let comm = |folder: &Path| -> io::Result<Vec<u8>> {
            let name = read_proc(folder.join("comm"))?;
            Ok(name.strip_suffix(b"\n").unwrap_or(&name).to_vec())
        };
        let mut names = ProcessNames { threads: vec![comm(process)?], ..ProcessNames::default() };
        for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            // Threads that have ended in the meantime have no name.
            if let Ok(name) = comm(&thread.path()) {
                if !names.threads.contains(&name) {
                    names.threads.push(name);
                }
            }
        }
        names.file = fs::read_link(process.join("exe")).ok().and_then(|path| file_name(&path));
        let arguments = read_proc(process.join("cmdline")).unwrap_or_default();
        let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
        names.script = script(names.file.as_deref(), &arguments).map(<[u8]>::to_vec);
        Ok(names)
    }

    /// Returns the names of a process that has ended: those of its first thread and of its program's file.
    pub(crate) fn of_ended(comm: Option<&str>, exe: Option<&str>) -> ProcessNames {
        ProcessNames {
            threads: comm.into_iter().map(|name| name.as_bytes().to_vec()).collect(),
            file: exe.and_then(|path| file_name(Path::new(path))),
            script: None,
        }
    }

    /// Returns whether one of the names matches the pattern `name`, in which `*` and `?` are wildcards.
    pub(crate) fn include(&self, name: &str) -> bool {
        self.threads
            .iter()
            .chain(&self.file)
            .chain(&self.script)
            .any(|one| means_process(name, one))
    }

    /// Returns whether the kernel's programs can find the process by `name`. They only see the first thread's name
    /// and the name of the program's file.
    pub(crate) fn are_seen_by_kernel(&self, name: &str) -> bool {
        self.threads.iter().take(1).chain(&self.file).any(|one| means_process(name, one))
    }
}

/// Returns the last part of a path, without the suffix that the kernel appends after the file was replaced.
fn file_name(path: &Path) -> Option<Vec<u8>> {
    let name = path.file_name().map(OsStr::as_bytes)?;
    Some(name.strip_suffix(b" (deleted)").unwrap_or(name).to_vec())
}

/// The command-line syntax of one language's interpreters. Letters stand for options with one dash.
struct Interpreter {
    /// File names of the interpreters, without a version.
    files: &'static [&'static str],
    /// Options whose value follows in the same word or is the next word.
    valued: &'static str,
    /// Options whose value follows in the same word.
    attached: &'static str,
    /// Options whose value is the text of a program.
    code: &'static str,
    /// Options whose value is the name of the script or module.
    script: &'static str,
    /// Long options with a value in the next word.
    long_valued: &'static [&'static str],
    /// Long options with the script in the next word.
    long_script: &'static [&'static str],
    /// Long options that are followed by program text.
    long_code: &'static [&'static str],
}

const PLAIN: Interpreter = Interpreter {
    files: &[],
    valued: "",
    attached: "",
    code: "",
    script: "",
    long_valued: &[],
    long_script: &[],
    long_code: &[],
};

const INTERPRETERS: [Interpreter; 8] = [
    Interpreter {
        files: &["python", "pypy", "python-dbg"],
        valued: "WXQ",
        code: "c",
        script: "m",
        long_valued: &["--check-hash-based-pycs"],
        ..PLAIN
    },
    Interpreter { files: &["perl"], attached: "CDFIMVilmx0", code: "eE", ..PLAIN },
    Interpreter { files: &["ruby"], valued: "ICErF", attached: "KTWix0", code: "e", ..PLAIN },
    Interpreter {
        files: &["node", "nodejs", "bun"],
        valued: "rC",
        code: "ep",
        long_valued: &[
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "--conditions",
        ],
        long_code: &["--eval", "--print"],
        ..PLAIN
    },
    Interpreter { files: &["php"], valued: "cdz", code: "rBRE", script: "fF", ..PLAIN },
    Interpreter {
        files: &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"],
        valued: "oO",
        code: "c",
        long_valued: &["--rcfile", "--init-file"],
        ..PLAIN
    },
    Interpreter { files: &["lua", "luajit", "tclsh", "wish", "Rscript"], valued: "el", ..PLAIN },
    Interpreter {
        files: &["java"],
        long_valued: &["-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules"],
        long_script: &["-jar", "-m", "--module"],
        ..PLAIN
    },
];

/// The kind of word that follows an option on the command line.
enum OptionValue {
    None,
    NextWord,
    Script(usize),
    ScriptNext,
    Code,
}

impl Interpreter {
    fn of(file: &[u8]) -> Option<&'static Interpreter> {
        let end = file.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let name = file.get(..=end)?;
        INTERPRETERS.iter().find(|one| one.files.iter().any(|file| file.as_bytes() == name))
    }

    fn value_of(&self, option: &[u8]) -> OptionValue {
        let is = |all: &[&str]| all.iter().any(|one| one.as_bytes() == option);
        if is(self.long_script) {
            return OptionValue::ScriptNext;
        }
        if is(self.long_valued) {
            return OptionValue::NextWord;
        }
        if is(self.long_code) {
            return OptionValue::Code;
        }
        if option.starts_with(b"--") {
            return OptionValue::None;
        }
        for (at, letter) in option.iter().enumerate().skip(1) {
            let is = |letters: &str| letters.as_bytes().contains(letter);
            let is_last = at + 1 == option.len();
            if is(self.code) {
                return OptionValue::Code;
            } else if is(self.script) {
                return if is_last { OptionValue::ScriptNext } else { OptionValue::Script(at + 1) };
            } else if is(self.valued) {
                return if is_last { OptionValue::NextWord } else { OptionValue::None };
            } else if is(self.attached) {
                return OptionValue::None;
            }
        }
        OptionValue::None
    }
}

/// Returns the script or module that an interpreter runs, according to its command line. `file`: name of the program's
/// file, if known.
fn script<'a>(file: Option<&[u8]>, arguments: &[&'a [u8]]) -> Option<&'a [u8]> {
    let base =
        |path: &'a [u8]| path.rsplit(|byte| *byte == b'/').next().filter(|it| !it.is_empty());
    let (first, mut rest) = arguments.split_first()?;
    let called = base(first).map(|name| name.strip_prefix(b"-").unwrap_or(name));
    let mut program = file.or(called)?;
    if program == b"busybox" || program == b"toybox" {
        program = called?;
        if program == b"busybox" || program == b"toybox" {
            (program, rest) = rest.split_first().map(|(applet, rest)| (*applet, rest))?;
        }
    }
    let interpreter = Interpreter::of(program)?;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if *word == b"--" {
            return base(rest.first()?);
        }
        let is_option = word.starts_with(b"-") || word.starts_with(b"+");
        if !is_option {
            return base(word);
        }
        if *word == b"-" {
            return None;
        }
        match interpreter.value_of(word) {
            OptionValue::None => {}
            OptionValue::NextWord => rest = rest.get(1..)?,
            OptionValue::Script(at) => return base(word.get(at..)?),
            OptionValue::ScriptNext => return base(rest.first()?),
            OptionValue::Code => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script_of(line: &str) -> Option<String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let file = words[0].rsplit(|byte| *byte == b'/').next();
        script(file, &words).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn script_is_the_file_that_an_interpreter_was_given() {
        for (line, wanted) in [
            ("/usr/bin/python3.11 -u /srv/shop.py --port 80", Some("shop.py")),
            ("python3 -W ignore -Xdev shop.py", Some("shop.py")),
            ("python3 -m http.server 8000", Some("http.server")),
            ("python3 -Im shop", Some("shop")),
            ("python3 -mshop", Some("shop")),
            ("python3 -Wonce shop.py", Some("shop.py")),
            ("python3 -c print(1) shop.py", None),
            ("python3 -bc print(1) shop.py", None),
            ("python3 - shop.py", None),
            ("python3", None),
            ("perl -w -I/lib /srv/shop.pl", Some("shop.pl")),
            ("perl -ne print shop.txt", None),
            ("ruby -r json shop.rb", Some("shop.rb")),
            ("node --max-old-space-size=99 --require ./x.js shop.js", Some("shop.js")),
            ("node -e 1 shop.js", None),
            ("php -d a=b -f shop.php", Some("shop.php")),
            ("bash -eu -o pipefail shop", Some("shop")),
            ("bash -o pipefail -- shop", Some("shop")),
            ("bash -lc shop", None),
            ("sh +e ./shop.sh", Some("shop.sh")),
            ("busybox sh ./shop.sh", Some("shop.sh")),
            ("lua5.4 -e x=1 shop.lua", Some("shop.lua")),
            ("java -Xmx1g -cp a:b -jar /opt/shop.jar", Some("shop.jar")),
            ("java -cp a:b org.shop.Main", Some("org.shop.Main")),
            // What is no interpreter has files, not scripts.
            ("vim shop.py", None),
            ("gdb shop", None),
            ("bashful shop", None),
            ("python3 -m", None),
            ("python3 --", None),
        ] {
            assert_eq!(script_of(line).as_deref(), wanted, "{line}");
        }
        assert_eq!(script(None, &[b"-bash", b"shop"]), Some(&b"shop"[..]));
        assert_eq!(script(Some(b"busybox"), &[b"sh", b"shop"]), Some(&b"shop"[..]));
        assert_eq!(script(Some(b"python3"), &[]), None);
    }

    #[test]
    fn name_means_any_thread_the_file_or_the_script() {
        let names = ProcessNames {
            threads: vec![b"shopmain".to_vec(), b"a worker".to_vec(), b"fifteen-letters".to_vec()],
            file: Some(b"shop".to_vec()),
            script: Some(b"shop-with-a-long-name.py".to_vec()),
        };
        for (name, is_included, is_seen) in [
            ("shopmain", true, true),
            ("shop", true, true),
            ("sho?", true, true),
            ("shop*", true, true),
            ("a worker", true, false),
            ("a*", true, false),
            ("fifteen-letters", true, false),
            ("fifteen-letters-and-more", true, false),
            ("fifteen-letters-and-*", true, false),
            ("fifteen-letter", false, false),
            ("shop-with-a-long-name.py", true, false),
            ("*.py", true, false),
            ("sh", false, false),
            ("", false, false),
        ] {
            assert_eq!(names.include(name), is_included, "{name}");
            assert_eq!(names.are_seen_by_kernel(name), is_seen, "{name}");
        }
        let ended = ProcessNames::of_ended(Some("shopmain"), Some("/opt/a b/shop (deleted)"));
        assert!(ended.include("shop") && ended.include("shopmain") && !ended.include("b"));
        assert!(!ProcessNames::of_ended(None, None).include("*x"));
    }

    #[test]
    fn names_of_a_process_are_those_of_all_its_threads() {
        let thread = std::thread::Builder::new().name("named for a test".to_owned());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let thread = thread.spawn(move || {
            begin.send(()).unwrap();
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        let names = ProcessNames::read(Path::new("/proc/self")).unwrap();
        assert!(names.include("named for a test") && names.include("named for a t*"), "{names:?}");
        let exe = std::env::current_exe().unwrap();
        assert!(names.include(exe.file_name().unwrap().to_str().unwrap()));
        drop(end);
        thread.unwrap().join().unwrap();
        assert!(ProcessNames::read(Path::new("/proc/0")).is_err());
    }
}
