/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_call.h
 * libccnic: calls. A program sends a request to another program and blocks until its answer is there: one cache line to the server's
 * core and one back, without a ring, buffers or a NIC (coherent programmed I/O). Included by ccnic.h.
 */
#ifndef CCNIC_CALL_H
#define CCNIC_CALL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Requests and answers of up to so many bytes are one cache line. */
#define CCNIC_CALL_INLINE 56u
/** The most bytes of a request or an answer of any caller. */
#define CCNIC_CALL_MAX 1048568u

/** A caller: a connection to a server. One thread at a time. */
struct ccnic_caller;
/** A server: answers the calls of any number of callers. One thread at a time. */
struct ccnic_call_server;

/**
 * Connects to the server at `socket`.
 * @param capacity  the most bytes of a request or an answer, to CCNIC_CALL_MAX; 0: 4088. Short messages are as fast, whatever it is.
 * @return 0; -EINVAL: capacity out of range; -EPROTO: no server there; -EPERM: it refuses; another negative errno value.
 */
int ccnic_caller_open(const char *socket, uint32_t capacity, struct ccnic_caller **out);

/** Disconnects. @return 0; -EBADF: it is already closed; -EINVAL: NULL. Other calls with a closed caller or server: -EBADF. */
int ccnic_caller_close(struct ccnic_caller *caller);

/**
 * Calls: sends `len` bytes and waits for the answer. Polls for some tens of microseconds, then sleeps. A call happens at most once.
 * @param size        bytes at `answer`. A longer answer is cut.
 * @param timeout_ns  nanoseconds to wait; negative: without a limit.
 * @return the length of the answer, also of one that was cut;
 *         -ETIMEDOUT: no answer yet. The call may still happen; its answer is dropped, and the next call waits for it first;
 *         -EMSGSIZE: `len` is above the capacity, and nothing was sent;
 *         -ECONNRESET: the server has gone. Whether this call has happened is not known. Close the caller and open another one;
 *         -EPROTO: the server has written what no server writes. Do the same.
 */
int ccnic_call(struct ccnic_caller *caller, const void *request, uint32_t len, void *answer, uint32_t size, int64_t timeout_ns);

/**
 * Answers a request of `len` bytes: writes an answer of at most `size` bytes to `answer`.
 * The request has been copied; no caller can change it meanwhile.
 * @return the length of the answer.
 */
typedef uint32_t ccnic_call_handler(void *context, const void *request, uint32_t len,
				    void *answer, uint32_t size);

/**
 * Listens at `socket`. Whoever may write to that file may call.
 * @return 0, or a negative errno value: -EADDRINUSE if a server listens there.
 */
int ccnic_call_listen(const char *socket, struct ccnic_call_server **out);

/** Disconnects all callers and removes the socket. @return 0; -EBADF: it is already closed; -EINVAL: NULL. */
int ccnic_call_server_close(struct ccnic_call_server *server);

/**
 * Answers calls, at most one of each caller. Where there is none it waits for the first: polls for some tens of microseconds, then sleeps.
 * @param timeout_ns  nanoseconds to wait; 0: does not wait; negative: without a limit.
 * @return how many calls were answered; 0 after the timeout, or when a caller has come or gone, or ccnic_call_wake() was called; a negative errno value.
 */
int ccnic_call_serve(struct ccnic_call_server *server, ccnic_call_handler *handler, void *context, int64_t timeout_ns);

/** Ends the wait of ccnic_call_serve(), from any thread or a signal handler. @return 0, or -EINVAL. */
int ccnic_call_wake(const struct ccnic_call_server *server);

/** Callers that are connected, as of the last ccnic_call_serve(). @return their number, or -EINVAL. */
int ccnic_call_callers(const struct ccnic_call_server *server);

#ifdef __cplusplus
}
#endif
#endif
