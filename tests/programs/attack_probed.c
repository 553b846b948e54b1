// What is probed while its name is given to another file: calls work() every millisecond until SIGTERM. With VICTIM
// it is that other file: where work() lies in the first one, this has nops that nobody probes.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#ifdef VICTIM
__asm__(".text\n.fill 65536, 1, 0x90\n");
#endif

static volatile sig_atomic_t has_ended;

static void on_term(int number)
{
	(void)number;
	has_ended = 1;
}

__attribute__((noinline, noclone, used)) int work(int value)
{
	__asm__ volatile("" : "+r"(value));
	return value * 3 + 1;
}

int main(void)
{
	signal(SIGTERM, on_term);
	puts("ready");
	fflush(stdout);
	for (int i = 0; !has_ended; i++) {
		work(i);
		usleep(1000);
	}
	return 0;
}
