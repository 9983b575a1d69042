/* Every kind of handle used after it was closed, closed again, and while others are open that were made since. */
#include "check.h"
#include <ccnic_call.h>
#include <ccnic_flow.h>
#include <ccnic_nic.h>
#include <ccnic_offload.h>
#include <unistd.h>

static struct ccnic *stale_nic;
static struct ccnic_queue *stale_queue;
static struct ccnic_pool *stale_pool;

/* Each call that takes one of them. */
static void refused(void)
{
	struct ccnic_buf bufs[4];
	struct ccnic_stats stats;
	struct ccnic_view view;
	struct ccnic_queue *queue = NULL;
	struct ccnic_pool *pool = NULL;
	const uint64_t *word;
	uint64_t value, id;
	uint8_t mac[6], byte[CCNIC_SMALL_SIZE];
	void *data[4];
	const void *bytes[1] = {byte};
	void *rooms[1] = {byte};
	uint16_t len[4] = {64, 64, 64, 64};

	memset(bufs, 0, sizeof(bufs));
	memset(byte, 0, sizeof(byte));
	EXPECT(ccnic_close(stale_nic), -EBADF);
	EXPECT(strstr(ccnic_last_error(), "closed") != NULL, true);
	EXPECT(ccnic_reconnect(stale_nic), -EBADF);
	EXPECT(ccnic_link_state(stale_nic), -EBADF);
	EXPECT(ccnic_mtu(stale_nic), -EBADF);
	EXPECT(ccnic_queues(stale_nic), -EBADF);
	EXPECT(ccnic_mac(stale_nic, mac), -EBADF);
	EXPECT(ccnic_memory(stale_nic, &view), -EBADF);
	EXPECT(ccnic_rss_set(stale_nic, NULL), -EBADF);
	EXPECT(ccnic_rss_active(stale_nic), -EBADF);
	EXPECT(ccnic_flow_flush(stale_nic), -EBADF);
	EXPECT(ccnic_flow_destroy(stale_nic, 1), -EBADF);
	EXPECT(ccnic_queue_open(stale_nic, 0, &queue), -EBADF);
	EXPECT(ccnic_pool_open(stale_nic, &pool), -EBADF);
	EXPECT(queue == NULL && pool == NULL, true);
	(void)id;

	EXPECT(ccnic_queue_close(stale_queue), -EBADF);
	EXPECT(ccnic_queue_stats(stale_queue, &stats, sizeof(stats)), -EBADF);
	EXPECT(ccnic_buf_alloc(stale_queue, 64, bufs, 4), -EBADF);
	EXPECT(ccnic_buf_free(stale_queue, bufs, 4), -EBADF);
	EXPECT(ccnic_tx_burst(stale_queue, bufs, 4), -EBADF);
	EXPECT(ccnic_rx_burst(stale_queue, bufs, 4), -EBADF);
	EXPECT(ccnic_tx_small(stale_queue, bytes, len, 1), -EBADF);
	EXPECT(ccnic_rx_small(stale_queue, rooms, len, NULL, 1), -EBADF);
	EXPECT(ccnic_tx_mixed(stale_queue, bufs, bytes, 1), -EBADF);
	EXPECT(ccnic_tx_reserve(stale_queue, 64, data, 4), -EBADF);
	EXPECT(ccnic_tx_commit(stale_queue, len, NULL, 4), -EBADF);
	EXPECT(ccnic_wait(stale_queue, 0), -EBADF);
	EXPECT(ccnic_rx_fd(stale_queue), -EBADF);
	EXPECT(ccnic_rx_arm(stale_queue), -EBADF);
	EXPECT(ccnic_rx_disarm(stale_queue), -EBADF);
	EXPECT(ccnic_rx_notify(stale_queue), -EBADF);
	EXPECT(ccnic_rx_ready(stale_queue), -EBADF);
	EXPECT(ccnic_tx_waiting(stale_queue), -EBADF);
	EXPECT(ccnic_rx_monitor(stale_queue, &word, &value), -EBADF);
	bufs[0].offset = 1u << 20;
	EXPECT(ccnic_buf_data(stale_queue, bufs) == NULL, true);

	EXPECT(ccnic_pool_close(stale_pool), -EBADF);
	EXPECT(ccnic_pool_alloc(stale_pool, bufs, 4), -EBADF);
	EXPECT(ccnic_pool_free(stale_pool, bufs, 4), -EBADF);
}

static void open_and_close(const char *socket, struct ccnic **nic, struct ccnic_queue **queue, struct ccnic_pool **pool)
{
	EXPECT(ccnic_open(socket, NULL, nic), 0);
	EXPECT(ccnic_queue_open(*nic, 0, queue), 0);
	EXPECT(ccnic_pool_open(*nic, pool), 0);
	EXPECT(ccnic_queue_close(*queue), 0);
	EXPECT(ccnic_pool_close(*pool), 0);
	EXPECT(ccnic_close(*nic), 0);
}

static void clients(const char *socket)
{
	open_and_close(socket, &stale_nic, &stale_queue, &stale_pool);
	refused();
	for (int i = 0; i < 8; i++) {
		struct ccnic *nic;
		struct ccnic_queue *queue;
		struct ccnic_pool *pool;

		open_and_close(socket, &nic, &queue, &pool);
		EXPECT(nic == stale_nic || queue == stale_queue || pool == stale_pool, false);
		refused();
	}
}

static uint32_t answer(void *context, const void *request, uint32_t len, void *to, uint32_t size)
{
	(void)context;
	memcpy(to, request, len < size ? len : size);
	return len;
}

static void calls(const char *socket)
{
	struct ccnic_call_server *server;
	struct ccnic_caller *caller;
	char byte = 1;

	EXPECT(ccnic_call_listen(socket, &server), 0);
	EXPECT(ccnic_caller_open(socket, 64, &caller), 0);
	EXPECT(ccnic_caller_close(caller), 0);
	EXPECT(ccnic_caller_close(caller), -EBADF);
	EXPECT(ccnic_call(caller, &byte, 1, &byte, 1, 0), -EBADF);
	EXPECT(ccnic_call_server_close(server), 0);
	EXPECT(ccnic_call_server_close(server), -EBADF);
	EXPECT(ccnic_call_serve(server, answer, NULL, 0), -EBADF);
	EXPECT(ccnic_call_wake(server), -EBADF);
	EXPECT(ccnic_call_callers(server), -EBADF);
}

static void nics(const char *socket)
{
	struct ccnic_nic *nic;
	struct ccnic_program *program;

	EXPECT(ccnic_nic_listen(socket, NULL, &nic), 0);
	EXPECT(ccnic_nic_accept(nic, &program), -EAGAIN);
	EXPECT(ccnic_nic_close(nic), 0);
	EXPECT(ccnic_nic_close(nic), -EBADF);
	EXPECT(ccnic_nic_poll(nic, 0), -EBADF);
	EXPECT(ccnic_nic_accept(nic, &program), -EBADF);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 4);
	clients(argv[1]);
	calls(argv[2]);
	nics(argv[3]);
	puts("all noticed");
	return EXIT_SUCCESS;
}
