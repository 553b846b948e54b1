"""older_glibc.py FOLDER LIBC LOADER: copies of them into the folder that say of themselves that they are glibc 2.17: no
version of theirs is newer, and what was in libdl and libpthread before 2.34 is not there."""
import os
import re
import sys

MOVED = ("dladdr", "dlclose", "dlerror", "dlinfo", "dlopen", "dlsym", "dlvsym", "mtx_trylock", "pthread_getcpuclockid",
         "pthread_key_create", "pthread_mutex_trylock", "pthread_setspecific", "stat", "fstat")

for number, path in enumerate(sys.argv[2:]):
    with open(path, "rb") as file:
        data = file.read()
    for name in () if number else MOVED:
        # A name may be the end of another, as of __pthread_key_create.
        data, renamed = re.subn(rb"(?<=[\0_])" + name.encode() + rb"\0", b"?" * len(name) + b"\0", data)
        assert renamed, f"{name} is not in {path}"
    # What is defined under another name nobody finds; the two ask each other for the same.
    data, renamed = re.subn(rb"\0GLIBC_2\.(1[89]|[2-9]\d)(?=\0)", lambda found: b"\0XLIBC" + found[0][6:], data)
    assert renamed, f"no version of {path} is newer"
    copy = os.path.join(sys.argv[1], os.path.basename(path))
    with open(copy, "wb") as file:
        file.write(data)
    os.chmod(copy, 0o755)
