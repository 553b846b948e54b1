// A server whose workers answer under one mutex, which another thread holds for long: who waits is woken by a neighbour in
// the convoy, and by the holder only if first. Also: a wait that is for work, of each worker.
//
//   convoy ROUNDS HOLD_MS
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

std::mutex cache_lock;

static std::atomic<bool> over{ false };

static void name_thread(const std::string &name)
{
	pthread_setname_np(pthread_self(), name.c_str());
}

static void answer(int socket, int number)
{
	char byte;

	name_thread("worker-" + std::to_string(number));
	while (read(socket, &byte, 1) == 1) {
		std::lock_guard<std::mutex> locked(cache_lock);
		if (write(socket, &byte, 1) != 1)
			abort();
	}
}

static void ask(int socket)
{
	char byte = 'x';

	name_thread("client");
	while (!over) {
		if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
			abort();
		usleep(2000);
	}
	shutdown(socket, SHUT_RDWR);
}

static void evict(int rounds, int hold_ms)
{
	name_thread("evictor");
	for (int round = 0; round < rounds; round++) {
		{
			std::lock_guard<std::mutex> locked(cache_lock);
			std::this_thread::sleep_for(std::chrono::milliseconds(hold_ms));
		}
		std::this_thread::sleep_for(std::chrono::milliseconds(hold_ms / 2));
	}
	over = true;
}

int main(int, char **arguments)
{
	std::vector<std::thread> threads;

	for (int number = 0; number < 4; number++) {
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
			return 1;
		threads.emplace_back(answer, ends[0], number);
		threads.emplace_back(ask, ends[1]);
	}
	threads.emplace_back(evict, atoi(arguments[1]), atoi(arguments[2]));
	for (auto &thread : threads)
		thread.join();
	return 0;
}
