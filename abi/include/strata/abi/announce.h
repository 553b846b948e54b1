/* SPDX-License-Identifier: MIT */
/*
 * announce.h - how a process and its tracers find each other when it begins: what a tracer asks for, in the environment of
 * the commands that it starts or in a file, and the message with which the process hands over its memory (user.h, which
 * includes this, and has the version of both).
 */
#ifndef STRATA_ABI_ANNOUNCE_H
#define STRATA_ABI_ANNOUNCE_H

#include <strata/abi/ring.h>

/* Folders of sockets on which tracers listen for announcements; %u: user id. See announce, below. */
#define STRATA_ABI_USER_SOCKETS_ROOT "/run/strata"
#define STRATA_ABI_USER_SOCKETS_USER "/run/user/%u/strata"
#define STRATA_ABI_USER_SOCKETS_TMP  "/tmp/strata-%u"

/*
 * Environment of a command that a tracer starts:
 *
 *   STRATA_SESSION=6:socket=FD.INODE;[path=PATH;][name=NAME;]generation=N;subbuf=BYTES;subbufs=N;
 *                  mode=discard|overwrite;vtid=0|1;clock=BITS.MULTIPLIER;[filter=HEX;][contexts=HEX;]
 *                  rules=RULE,RULE,...
 *
 * in one line, the parts in this order (the leading number is the version; clock=0.0: no TSC; HEX: the bytes of
 * a filter, filter.h; a byte for each context). By it the process enables its tracepoints before main(). It announces itself
 * on a SOCK_SEQPACKET socket of the tracer, the first of these that works:
 *   - the inherited descriptor FD, unless it has another inode than INODE: then the process' starter has closed it;
 *   - a socket that it connects to PATH;
 *   - one that it connects to the abstract NAME, which chroot() and other mount namespaces do not hide.
 * If none works, the process is not traced by this session, and says why in .no_session. Only those who have the environment
 * know the generation: by it the tracer recognizes them.
 */
#define STRATA_ABI_USER_ENVIRONMENT "STRATA_SESSION"

/*
 * A tracer that listens, and records every process that it may, leaves its request beside its socket NAME.sock, in
 * NAME.request: the same text without socket=, path= and name=. A process makes that session before main(), if the
 * file belongs to the folder's owner, only that user may write to it, and somebody listens. The file is replaced,
 * never written to.
 */
#define STRATA_ABI_USER_SOCKET_END    ".sock"
#define STRATA_ABI_USER_REQUEST	      ".request"
#define STRATA_ABI_USER_REQUEST_BYTES 40960u /* room for filter, contexts and rules, and more */

/* Values of strata_abi_user_control.no_session; 0: the process joined the session, or that is not known. */
#define STRATA_ABI_USER_NO_SESSION_NO_REQUEST 1u /* its environment has no STRATA_SESSION */
#define STRATA_ABI_USER_NO_SESSION_SECURE \
	2u /* it has other rights than its user, and heeds no environment */
#define STRATA_ABI_USER_NO_SESSION_UNKNOWN 3u /* of another version, or not to be understood */
#define STRATA_ABI_USER_NO_SESSION_SOCKET \
	4u /* no socket of the tracer could be reached, or trusted */

/*
 * Announcement of a process: one message on a SOCK_SEQPACKET socket, with the memfd in SCM_RIGHTS, sent without waiting.
 * The kernel adds the sender's credentials. A process announces itself to the socket of its environment, and to each socket
 * in the folders above that it may trust: the folder belongs to root or to the process' own user and only its owner may
 * write to it; not at all in a set-user-ID program.
 *
 * offset  size  field
 *      0     8  magic     STRATA_ABI_USER_MAGIC
 *      8     4  version
 *     12     4  pid       in the sender's PID namespace
 */
struct strata_abi_user_announcement {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_announcement) == 16, "announcement size");

/*
 * Message of a process that has tracepoints but no memory to share, which takes the place of an announcement and has
 * no descriptor. A process in which one descriptor is free sends it, with the error 0, through that one, and makes
 * its memory afterwards: its tracer then looks for that in /proc.
 *
 * offset  size  field
 *      0     8  magic     STRATA_ABI_USER_ABSENCE_MAGIC
 *      8     4  version
 *     12     4  error     errno of making the memory; 0: the memory is made next
 *     16     8  generation  that of STRATA_SESSION; 0: there was none
 */
#define STRATA_ABI_USER_ABSENCE_MAGIC UINT64_C(0x53545241544155fe) /* "STRATAU", 0xfe */

struct strata_abi_user_absence {
	uint64_t magic;
	uint32_t version;
	uint32_t error;
	uint64_t generation;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_user_absence) == 24, "absence size");

#endif /* STRATA_ABI_ANNOUNCE_H */
