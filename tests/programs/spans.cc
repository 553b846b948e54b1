/* SPDX-License-Identifier: MIT */
/* spans.cc - the same as C++: an exception ends a span. */
#include "spans.c"
