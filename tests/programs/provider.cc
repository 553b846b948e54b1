// SPDX-License-Identifier: MIT
// provider.cc - the same from C++.
#include "provider.c"
