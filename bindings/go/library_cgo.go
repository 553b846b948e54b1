// SPDX-License-Identifier: MIT

//go:build cgo && linux

package events

/*
#cgo CFLAGS: -D_GNU_SOURCE -O2 -I${SRCDIR}/../../probe/user/include -I${SRCDIR}/../loader
#cgo LDFLAGS: -ldl
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "strata_loader.h"

static struct strata_loader loader;
static char why_not[512];

// Returns why libstrata cannot be loaded, or NULL.
static const char *strata_go_open(void)
{
	return strata_loader_open(&loader, why_not, sizeof(why_not)) ? NULL : why_not;
}

// Registers a class. The kinds of its fields are letters, see events.go; names has the name of the class and of each field, with a NUL
// behind each.
static int strata_go_register(const char *group, const char *names, const char *kinds, uint32_t level, int is_span, void **handle,
			      const uint32_t **enabled, char *why, size_t why_bytes)
{
	struct strata_event_field fields[64];
	struct strata_event_class class_ = STRATA_EVENT_CLASS(names, level, fields, 0);
	struct strata_provider *provider;
	uint32_t nr = 0;
	int rc = loader.provider_register(group, &provider, why, why_bytes);

	if (rc)
		return rc;
	memset(fields, 0, sizeof(fields));
	for (; kinds[nr] && nr < 64; nr++) {
		names += strlen(names) + 1;
		fields[nr].name = names;
		switch (kinds[nr]) {
		case 'i': fields[nr].type = STRATA_I64; break;
		case 'u': fields[nr].type = STRATA_U64; break;
		case 'f': fields[nr].type = STRATA_F64; break;
		case 'b': fields[nr].type = STRATA_BOOL; break;
		default: fields[nr].type = STRATA_CHAR; fields[nr].shape = STRATA_SEQUENCE;
		}
	}
	class_.nr_fields = nr;
	if (is_span) {
		struct strata_span *span;

		rc = loader.span_register(provider, &class_, STRATA_SPAN_KEYED, &span, why, why_bytes);
		*handle = span;
		*enabled = rc ? NULL : loader.span_enabled(span);
	} else {
		struct strata_event *event;

		rc = loader.event_register(provider, &class_, &event, why, why_bytes);
		*handle = event;
		*enabled = rc ? NULL : event->enabled;
	}
	return rc;
}

static void strata_go_record(void *event, const void *payload, uint32_t bytes)
{
	loader.event_record_payload(event, payload, bytes);
}

// Begins a span. Returns its key if its end is to be recorded, else 0.
static uint64_t strata_go_begin(void *span, const char *payload, uint32_t bytes, const char *kinds)
{
	union strata_value words[2 * 64];
	uint64_t key = loader.span_new_key();
	uint32_t nr = 0, at = 0;

	for (; *kinds && nr < 126; kinds++) {
		uint32_t length = *kinds == 'b' ? 1 : *kinds == 's' ? 4 : 8;

		if (length > bytes - at)
			return 0;
		words[nr].u = 0;
		memcpy(&words[nr], payload + at, length);
		at += length;
		if (*kinds == 's') {
			words[nr + 1].u = words[nr].u;
			words[nr++].data = payload + at;
			if (words[nr].u > bytes - at)
				return 0;
			at += (uint32_t)words[nr].u;
		}
		nr++;
	}
	return loader.span_begin_key(span, key, words, nr) == 1 ? key : 0;
}

static void strata_go_end(void *span, uint64_t key)
{
	loader.span_end_key(span, key);
}
*/
import "C"

import (
	"strings"
	"sync"
	"unsafe"
)

var (
	loadOnce sync.Once
	whyNot   string
)

// load loads libstrata, the first time. Returns why it cannot, or "".
func load() string {
	loadOnce.Do(func() {
		if why := C.strata_go_open(); why != nil {
			whyNot = C.GoString(why)
		}
	})
	return whyNot
}

// handle of a class in libstrata.
type handle struct {
	class unsafe.Pointer
	// kinds is in C's memory.
	kinds *C.char
}

func register(group, name string, kinds string, names []string, level Level, isSpan bool) (handle, *uint32, int, string) {
	all := name + "\x00" + strings.Join(names, "\x00")
	cGroup, cNames, cKinds := C.CString(group), C.CString(all), C.CString(kinds)
	defer C.free(unsafe.Pointer(cGroup))
	defer C.free(unsafe.Pointer(cNames))
	var h handle
	var enabled *C.uint32_t
	var why [256]C.char
	span := C.int(0)
	if isSpan {
		span = 1
	}
	rc := C.strata_go_register(cGroup, cNames, cKinds, C.uint32_t(level), span, &h.class, &enabled, &why[0], C.size_t(len(why)))
	if rc != 0 {
		C.free(unsafe.Pointer(cKinds))
		return handle{}, nil, int(rc), C.GoString(&why[0])
	}
	h.kinds = cKinds
	return h, (*uint32)(unsafe.Pointer(enabled)), 0, ""
}

// pointer returns the address of the first byte; of none, nil.
func pointer(bytes []byte) unsafe.Pointer {
	if len(bytes) == 0 {
		return nil
	}
	return unsafe.Pointer(&bytes[0])
}

func record(h handle, payload []byte) {
	C.strata_go_record(h.class, pointer(payload), C.uint32_t(len(payload)))
}

func begin(h handle, payload []byte) uint64 {
	return uint64(C.strata_go_begin(h.class, (*C.char)(pointer(payload)), C.uint32_t(len(payload)), h.kinds))
}

func end(h handle, key uint64) {
	C.strata_go_end(h.class, C.uint64_t(key))
}

const errExists = -int(C.EEXIST)
