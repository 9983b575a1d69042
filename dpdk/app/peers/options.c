/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The command line after `--`, which EAL leaves to the program. */
#include "peers.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "payload.h"

#define SIZE_MAX_BYTES 9600
/* The data room that applications use; longer packets get an mbuf that holds them. */
#define ROOM_DEFAULT 2048

static const char usage[] =
	"usage: ccnic-peers [EAL options] -- [options]\n"
	"  --reflect         be the NIC side: return all packets\n"
	"  --ring            be both sides, on two lcores, over a pair of rings\n"
	"  --pair            be two programs with a port each and a switch between them: one sends frames, one returns them\n"
	"  --size N          bytes of each packet, 16 (with --pair 32) to 9600 (64)\n"
	"  --inflight N,...  packets in flight, 1 to 1024; one run each (512)\n"
	"  --seconds S       measured time of each run (2)\n"
	"  --warmup S        time before the measurement (0.3)\n"
	"  --room N          bytes of data per mbuf (2048, or a whole packet)\n"
	"  --pool-ops NAME   mempool ops of the mbufs\n"
	"  --label NAME      the driver's name in the output\n";

static int bad(const char *option, const char *value, const char *may_be)
{
	fprintf(stderr, "ccnic-peers: --%s is %s; choose %s\n", option, value, may_be);
	return -EINVAL;
}

/* A number from `least` to `most`; 0 for anything else. */
static uint32_t number(const char *text, char **end, uint32_t least, uint32_t most)
{
	unsigned long value = strtoul(text, end, 10);

	return *end != text && value >= least && value <= most ? (uint32_t)value : 0;
}

static int read_number(const char *option, const char *text, uint32_t *to, uint32_t least, uint32_t most)
{
	char may_be[32], *end;

	*to = number(text, &end, least, most);
	snprintf(may_be, sizeof(may_be), "%u to %u", least, most);
	return *to == 0 || *end != '\0' ? bad(option, text, may_be) : 0;
}

static int read_seconds(const char *option, const char *text, double *to)
{
	char *end;

	*to = strtod(text, &end);
	return end == text || *end != '\0' || !(*to > 0 && *to <= 86400) ? bad(option, text, "up to 86400") : 0;
}

static int read_inflight(struct options *options, const char *text)
{
	const char *at = text;
	char *end;

	for (options->runs = 0; options->runs < RUNS_MAX; at = end + 1) {
		uint32_t n = number(at, &end, 1, INFLIGHT_MAX);

		if (n == 0 || (*end != ',' && *end != '\0'))
			break;
		options->inflight[options->runs++] = n;
		if (*end == '\0')
			return 0;
	}
	return bad("inflight", text, "up to 16 numbers from 1 to 1024, with commas between");
}

static int read_one(struct options *options, int key, const char *value)
{
	switch (key) {
	case 'r':
		options->role = REFLECT;
		return 0;
	case 'R':
		options->role = BOTH;
		return 0;
	case 'p':
		options->role = PAIR;
		return 0;
	case 's':
		return read_number("size", value, &options->size, PAYLOAD_MIN, SIZE_MAX_BYTES);
	case 'i':
		return read_inflight(options, value);
	case 't':
		return read_seconds("seconds", value, &options->seconds);
	case 'w':
		return read_seconds("warmup", value, &options->warmup);
	case 'm':
		return read_number("room", value, &options->room, 64, SIZE_MAX_BYTES);
	case 'o':
		options->pool_ops = value;
		return 0;
	case 'l':
		options->label = value;
		return strpbrk(value, "\"\\") != NULL ? bad("label", value, "a name without quotes") : 0;
	default:
		fputs(usage, stderr);
		return -EINVAL;
	}
}

int options_read(struct options *options, int argc, char **argv)
{
	static const struct option known[] = {
		{"reflect", no_argument, NULL, 'r'},	      {"ring", no_argument, NULL, 'R'},
		{"pair", no_argument, NULL, 'p'},	      {"size", required_argument, NULL, 's'},
		{"inflight", required_argument, NULL, 'i'},   {"seconds", required_argument, NULL, 't'},
		{"warmup", required_argument, NULL, 'w'},     {"room", required_argument, NULL, 'm'},
		{"pool-ops", required_argument, NULL, 'o'},   {"label", required_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	int key, err;

	*options = (struct options){.role = GENERATE, .label = "port", .size = 64, .seconds = 2, .warmup = 0.3,
				    .inflight = {512}, .runs = 1};
	optind = 1;
	while ((key = getopt_long(argc, argv, "", known, NULL)) != -1) {
		err = read_one(options, key, optarg);
		if (err < 0)
			return err;
	}
	if (options->room == 0)
		options->room = options->size > ROOM_DEFAULT ? RTE_ALIGN_CEIL(options->size, RTE_CACHE_LINE_SIZE) : ROOM_DEFAULT;
	if (options->room % 8 != 0)
		return bad("room", "odd", "a multiple of 8");
	if (options->role == PAIR && options->size < FRAME_HEADER + PAYLOAD_MIN)
		return bad("size", "too short for frames of --pair", "32 to 9600");
	return 0;
}
