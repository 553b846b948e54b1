/* SPDX-License-Identifier: MIT */
/* values.cc - every kind of field, from C++. */
#include "values.h"

int main()
{
	return values_all();
}
