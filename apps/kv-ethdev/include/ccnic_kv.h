/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The key-value store of the paper, and its load generator, for a program on the ethdev API (dpdk/app/kv): the program brings a port,
 * these functions bring the rest. The same declarations in Rust: apps/kv-ethdev/src/port.rs.
 */
#ifndef CCNIC_KV_H
#define CCNIC_KV_H

#include <stdbool.h>
#include <stdint.h>

/** The most frames that are received, or sent, at once. */
#define CCNIC_KV_BURST 32

/** A frame: one that was received, or where one is to be written. */
struct ccnic_kv_frame {
	uint8_t *bytes;
	uint32_t len; /**< its bytes; of one to be sent, 0: it is not sent */
};

/** A port, whose functions are called by one thread. */
struct ccnic_kv_port {
	void *self;    /**< given to the functions */
	uint32_t room; /**< bytes that a frame may have */
	/** Receives at most `n` frames; they are lent until release() is called. Returns their number. */
	uint32_t (*receive)(void *self, struct ccnic_kv_frame *frames, uint32_t n);
	void (*release)(void *self);
	/** Takes buffers for `n` frames of up to `room` bytes. Returns false if there are not so many. */
	bool (*take)(void *self, struct ccnic_kv_frame *frames, uint32_t n);
	/**
	 * Sends the frames whose buffers were taken last, in that order; `all`: waits until there is room for all, or the program
	 * ends. Returns how many are through with; the buffers of the others are taken back.
	 */
	uint32_t (*send)(void *self, const struct ccnic_kv_frame *frames, uint32_t n, bool all);
	/** True once the program is to end. */
	bool (*stopped)(void *self);
};

/** Serves until the program is to end; the options are those of `serve --help`. Returns an exit status. */
int ccnic_kv_serve(int argc, char **argv, const struct ccnic_kv_port *port);

/** Loads the server at the other end of the port; the options are those of ccnic-kv-load. Returns an exit status. */
int ccnic_kv_load(int argc, char **argv, const struct ccnic_kv_port *port);

#endif /* CCNIC_KV_H */
