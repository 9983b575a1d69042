/*
 * Calls: measures how long a request to another program and its answer take.
 *
 *     call SOCKET serve          answers: each request with its bytes in reverse order, until it is told to end by an empty one
 *     call SOCKET CALLS [LEN]    makes so many calls of LEN bytes, checks the answers, and ends the server
 *
 * cc call.c -lccnic
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime() */

#include <ccnic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE 60000000000 /* ns */

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, ccnic_last_error());
		exit(EXIT_FAILURE);
	}
}

static uint32_t reverse(void *context, const void *request, uint32_t len, void *answer, uint32_t size)
{
	const uint8_t *from = request;
	uint8_t *to = answer;

	(void)size; /* as large as any request of this caller */
	for (uint32_t i = 0; i < len; i++)
		to[i] = from[len - 1 - i];
	if (len == 0)
		*(bool *)context = true;
	return len;
}

static int serve(const char *socket)
{
	struct ccnic_call_server *server;
	bool ends = false;

	check(ccnic_call_listen(socket, &server), "listen");
	while (!ends)
		check(ccnic_call_serve(server, reverse, &ends, -1), "serve");
	/* The last caller takes its answer before it goes. */
	while (ccnic_call_callers(server) > 0)
		check(ccnic_call_serve(server, reverse, &ends, -1), "serve");
	ccnic_call_server_close(server);
	return EXIT_SUCCESS;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int call(const char *socket, long calls, uint32_t len)
{
	uint8_t *request = calloc(1, len), *answer = calloc(1, len);
	struct ccnic_caller *caller;
	double start;

	check(ccnic_caller_open(socket, len, &caller), "connect");
	start = seconds();
	for (long i = 0; i < calls; i++) {
		memcpy(request, &i, len < sizeof i ? len : sizeof i);
		int n = ccnic_call(caller, request, len, answer, len, PATIENCE);
		check(n, "call");
		if ((uint32_t)n != len || answer[len - 1] != request[0]) {
			fprintf(stderr, "call %ld has a wrong answer\n", i);
			return EXIT_FAILURE;
		}
	}
	printf("%ld calls of %u bytes, %.0f ns each\n", calls, (unsigned)len, (seconds() - start) * 1e9 / (double)calls);
	check(ccnic_call(caller, NULL, 0, NULL, 0, PATIENCE), "end the server");
	check(ccnic_caller_close(caller), "disconnect");
	free(request);
	free(answer);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	long len = argc > 3 ? atol(argv[3]) : 8;

	if (argc < 3 || len < 1 || len > (long)CCNIC_CALL_MAX) {
		fprintf(stderr, "usage: %s SOCKET serve | %s SOCKET CALLS [LEN]\n", argv[0], argv[0]);
		return EXIT_FAILURE;
	}
	return strcmp(argv[2], "serve") == 0 ? serve(argv[1]) : call(argv[1], atol(argv[2]), (uint32_t)len);
}
