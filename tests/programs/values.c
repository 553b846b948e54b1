/* SPDX-License-Identifier: MIT */
/* values.c - every kind of field, from C. */
#include "values.h"

int main(void)
{
	return values_all();
}
