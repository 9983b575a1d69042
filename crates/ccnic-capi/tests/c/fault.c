/* Writes beyond its own memory, on purpose: what the sanitizer and valgrind must not miss. */
#include "check.h"

int main(int argc, char **argv)
{
	char *volatile bytes = malloc(16); /* volatile: or the compiler sees it first */
	(void)argv;
	if (bytes != NULL)
		bytes[15 + argc] = 1;
	printf("%s %d\n", ccnic_version(), bytes != NULL && bytes[15 + argc]);
	free(bytes);
	EXPECT(argc, 1);
	return 0;
}
