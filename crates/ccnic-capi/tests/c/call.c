/* Wrong arguments, timeouts and the death of a server, for calls: call SOCKET. */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t copy(void *context, const void *request, uint32_t len, void *answer, uint32_t size)
{
	int *gate = context;
	char byte;

	EXPECT(len <= size, true);
	if (len == 4 && gate != NULL)
		EXPECT(read(gate[0], &byte, 1), 1); /* a slow one waits for the caller's test to go on */
	memcpy(answer, request, len);
	return len;
}

struct serving {
	struct ccnic_call_server *server;
	int gate[2];
	int calls;
};

static void *serve(void *context)
{
	struct serving *serving = context;

	while (serving->calls > 0) {
		int n = ccnic_call_serve(serving->server, copy, serving->gate, -1);

		EXPECT(n >= 0, true);
		serving->calls -= n;
	}
	return NULL;
}

static void arguments(const char *socket)
{
	struct ccnic_call_server *server, *second;
	struct ccnic_caller *caller;

	EXPECT(ccnic_caller_open(NULL, 0, &caller), -EINVAL);
	EXPECT(ccnic_caller_open(socket, 0, NULL), -EINVAL);
	EXPECT(ccnic_caller_open(socket, 0, &caller), -EPROTO); /* no server */
	EXPECT(ccnic_caller_open(socket, CCNIC_CALL_MAX + 1, &caller), -EINVAL);
	EXPECT(ccnic_call(NULL, "", 0, NULL, 0, 0), -EINVAL);
	EXPECT(ccnic_caller_close(NULL), -EINVAL);
	EXPECT(ccnic_call_listen(NULL, &server), -EINVAL);
	EXPECT(ccnic_call_listen(socket, NULL), -EINVAL);
	EXPECT(ccnic_call_serve(NULL, copy, NULL, 0), -EINVAL);
	EXPECT(ccnic_call_wake(NULL), -EINVAL);
	EXPECT(ccnic_call_callers(NULL), -EINVAL);
	EXPECT(ccnic_call_server_close(NULL), -EINVAL);
	EXPECT(ccnic_call_listen(socket, &server), 0);
	EXPECT(ccnic_call_listen(socket, &second), -EADDRINUSE);
	EXPECT(ccnic_call_serve(server, NULL, NULL, 0), -EINVAL);
	EXPECT(ccnic_call_serve(server, copy, NULL, 0), 0);
	EXPECT(ccnic_call_serve(server, copy, NULL, SECOND / 1000), 0);
	EXPECT(ccnic_call_server_close(server), 0);
}

static void calls(const char *socket)
{
	struct serving serving = {.calls = 4};
	struct ccnic_caller *caller;
	char big[200] = {'b'}, answer[200];
	pthread_t thread;

	EXPECT(pipe(serving.gate), 0);
	EXPECT(ccnic_call_listen(socket, &serving.server), 0);
	EXPECT(pthread_create(&thread, NULL, serve, &serving), 0);
	EXPECT(ccnic_caller_open(socket, 150, &caller), 0);
	EXPECT(ccnic_call(caller, NULL, 3, answer, 3, 0), -EINVAL);
	EXPECT(ccnic_call(caller, "abc", 3, NULL, 3, 0), -EINVAL);
	EXPECT(ccnic_call(caller, big, 151, answer, 200, 0), -EMSGSIZE);
	EXPECT(ccnic_call(caller, "slow", 4, answer, 200, SECOND / 100), -ETIMEDOUT);
	EXPECT(ccnic_call(caller, "next", 3, answer, 200, SECOND / 100), -ETIMEDOUT);
	EXPECT(write(serving.gate[1], "x", 1), 1);
	EXPECT(ccnic_call(caller, "next", 3, answer, 200, -1), 3);
	EXPECT(memcmp(answer, "nex", 3), 0);
	/* In place, and cut. */
	EXPECT(ccnic_call(caller, big, 150, big, 200, 60 * SECOND), 150);
	answer[1] = 7;
	EXPECT(ccnic_call(caller, big, 150, answer, 1, 60 * SECOND), 150);
	EXPECT(answer[0] == 'b' && answer[1] == 7, true);
	EXPECT(pthread_join(thread, NULL), 0);
	EXPECT(ccnic_call_callers(serving.server), 1);
	EXPECT(ccnic_call_server_close(serving.server), 0);
	EXPECT(ccnic_call(caller, "x", 1, answer, 1, -1), -ECONNRESET);
	EXPECT(ccnic_caller_close(caller), 0);
	close(serving.gate[0]);
	close(serving.gate[1]);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 2);
	arguments(argv[1]);
	calls(argv[1]);
	puts("called");
	return EXIT_SUCCESS;
}
