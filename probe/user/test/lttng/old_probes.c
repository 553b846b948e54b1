/* SPDX-License-Identifier: MIT */
/* old_probes.c - probes of a provider in the spelling without prefixes. */
#define TRACEPOINT_CREATE_PROBES
#include "old_names.h"
