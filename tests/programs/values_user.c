/* SPDX-License-Identifier: MIT */
/* values_user.c - every kind of field, recorded by a shared library that this program is linked with. */
int values_in_library(void);

int main(void)
{
	return values_in_library();
}
