/* SPDX-License-Identifier: MIT */
/* probes.c - the probes of two providers in one unit; one header has been read before. */
#include "all_fields.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "all_fields.h"
#include "other_provider.h"
