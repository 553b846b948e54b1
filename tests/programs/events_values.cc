/* SPDX-License-Identifier: MIT */
/* events_values.cc - the same in C++. */
#include "events_values.c"
