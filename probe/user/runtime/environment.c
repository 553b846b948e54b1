/* SPDX-License-Identifier: MIT */
/*
 * environment.c - what a tracer wants that started this program (STRATA_ABI_USER_ENVIRONMENT), or that listens and
 * has left a request beside its socket (STRATA_ABI_USER_REQUEST); and two variables that choose the second-best way of
 * doing things, for tests and for comparison:
 *
 *   STRATA_ARM=flag | patch      all sites test a flag | none does, whatever Yama says
 *   STRATA_PUBLISH=commit        write by reserve and commit although there is rseq
 *
 * A set-user-ID program listens to none of them: its user is not the one who set them.
 */
#include <sys/auxv.h>

#include "runtime.h"

int strata_environment_says(const char *name, const char *value)
{
	const char *text = getauxval(AT_SECURE) ? NULL : getenv(name);

	return text && !strcmp(text, value);
}

/* Parses the number after @key at *@p, and moves *@p past the number and @end. Returns 0 if there is no number. */
static int number(const char **p, const char *key, char end, uint64_t *value)
{
	size_t n = strlen(key);
	uint64_t x = 0;

	if (strncmp(*p, key, n) || (*p)[n] < '0' || (*p)[n] > '9')
		return 0;
	for (*p += n; **p >= '0' && **p <= '9'; (*p)++) {
		if (x > (UINT64_MAX - 9) / 10)
			return 0;
		x = x * 10 + (uint64_t)(**p - '0');
	}
	if (**p != end)
		return 0;
	(*p)++;
	*value = x;
	return 1;
}

static int word(const char **p, const char *text)
{
	size_t n = strlen(text);

	if (strncmp(*p, text, n))
		return 0;
	*p += n;
	return 1;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The @nr bytes of a filter or of contexts in a request, which have room at @to. */
void strata_environment_bytes(const char *text, size_t nr, unsigned char *to)
{
	size_t i;

	for (i = 0; i < nr; i++, text += 2)
		to[i] = (unsigned char)(digit(text[0]) << 4 | digit(text[1]));
}

/* Parses 1 to @most bytes in hexadecimal after @key at *@p, if the key is there. Returns 0 if they are malformed. */
static int bytes(const char **p, const char *key, size_t most, const char **text, size_t *nr)
{
	*nr = 0;
	if (!word(p, key))
		return 1;
	*text = *p;
	while (digit((*p)[0]) >= 0 && digit((*p)[1]) >= 0)
		*p += 2;
	*nr = (size_t)(*p - *text) / 2;
	return *nr && *nr <= most && word(p, ";");
}

/* Parses the part of a request that follows the socket. Returns 0 if it cannot be understood. */
static int rest(const char *p, struct strata_user_request *request)
{
	uint64_t subbufs, vtid, bits;

	if (!number(&p, "generation=", ';', &request->generation) ||
	    !number(&p, "subbuf=", ';', &request->subbuf_bytes) ||
	    !number(&p, "subbufs=", ';', &subbufs) || subbufs > STRATA_ABI_RING_NR_SUBBUFS_MAX)
		return 0;
	request->flags = STRATA_ABI_USER_SESSION_INHERIT;
	if (word(&p, "mode=overwrite;"))
		request->flags |= STRATA_ABI_USER_SESSION_OVERWRITE;
	else if (!word(&p, "mode=discard;"))
		return 0;
	if (!number(&p, "vtid=", ';', &vtid))
		return 0;
	if (vtid)
		request->flags |= STRATA_ABI_USER_SESSION_VTID;
	/* The number of bits is for people; the multiplier has 32 behind the point. */
	if (!number(&p, "clock=", '.', &bits) || !number(&p, "", ';', &request->clock_multiplier))
		return 0;
	if (!bytes(&p, "filter=", STRATA_ABI_FILTER_BYTES, &request->filter,
		   &request->filter_bytes) ||
	    !bytes(&p, "contexts=", STRATA_ABI_USER_CONTEXTS_MAX, &request->contexts,
		   &request->nr_contexts))
		return 0;
	if (word(&p, "spans=1;"))
		request->flags |= STRATA_ABI_USER_SESSION_SPANS;
	if (!word(&p, "rules="))
		return 0;
	request->nr_subbufs = (uint32_t)subbufs;
	request->rules = p;
	request->rules_bytes = strlen(p);
	return request->rules_bytes <= STRATA_ABI_USER_RULES_BYTES;
}

/*
 * Copies the name of the tracer's socket after @key at *@p, if the key is there: a program may overwrite its
 * environment. Returns 0 if the text cannot be a name.
 */
static int name_of_socket(const char **p, const char *key, char *to)
{
	size_t n;

	if (!word(p, key))
		return 1;
	n = strcspn(*p, ";");
	if (!n || n >= STRATA_USER_SOCKET_NAME_BYTES || (*p)[n] != ';')
		return 0;
	memcpy(to, *p, n);
	to[n] = '\0';
	*p += n + 1;
	return 1;
}

/*
 * Reads what the tracer wants that has started this program, and where that tracer is. Returns 0,
 * or one of STRATA_ABI_USER_NO_SESSION_*: the reason for which nothing is wanted.
 */
uint32_t strata_environment_request(struct strata_user_request *request,
				    struct strata_user_starter *starter)
{
	const char *p = getenv(STRATA_ABI_USER_ENVIRONMENT);
	uint64_t version, socket;

	if (!p)
		return STRATA_ABI_USER_NO_SESSION_NO_REQUEST;
	if (getauxval(AT_SECURE))
		return STRATA_ABI_USER_NO_SESSION_SECURE;
	if (!number(&p, "", ':', &version) || version != STRATA_ABI_USER_VERSION ||
	    !number(&p, "socket=", '.', &socket) || socket > INT32_MAX ||
	    !number(&p, "", ';', &starter->inode) || !name_of_socket(&p, "path=", starter->path) ||
	    !name_of_socket(&p, "name=", starter->name) || !rest(p, request)) {
		starter->path[0] = starter->name[0] = '\0';
		return STRATA_ABI_USER_NO_SESSION_UNKNOWN;
	}
	starter->socket = (int)socket;
	starter->generation = request->generation;
	return 0;
}

/* Parses the request in the text beside a socket; the text must outlive @request. */
int strata_environment_request_of(const char *text, struct strata_user_request *request)
{
	uint64_t version;

	if (!number(&text, "", ':', &version) || version != STRATA_ABI_USER_VERSION)
		return 0;
	return rest(text, request);
}
