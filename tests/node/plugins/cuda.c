/* The CUDA half of a stand-in driver, for tests of lab/gpu/run.sh without a GPU. Compiled with nvml.c into
 * one library, which answers as libcuda.so.1 and as libnvidia-ml.so.1: what one has been given to do, the other reports.
 *
 * It has the first card of STANDIN_CARDS. Memory is counted, not given. Kernels are not executed: one takes as long as
 * its blocks, and the rounds that the program of lab/gpu/check.py hands it as its second parameter, would take.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500 };
enum { NVML_INSUFFICIENT_SIZE = 7 };
enum { PROCESSORS = 16, THREADS_OF_A_PROCESSOR = 2048, BLOCKS_AT_A_TIME = 32, MOST_ALLOCATIONS = 64, MOST_KERNELS = 4096 };
enum { NS = 1000000000, NS_OF_A_ROUND = 10 };

struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned, void **);
int nvmlDeviceGetMemoryInfo(void *, struct memory *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts;
static char module[4096];
static size_t sizes[MOST_ALLOCATIONS], used;
static struct { long long start, end; } kernels[MOST_KERNELS]; /* a ring, oldest first */
static unsigned launched;
static long long finished;

static long long now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (long long)at.tv_sec * NS + at.tv_nsec;
}

static size_t capacity(void) {
  struct memory info = {0, 0, 0};
  void *card;
  if (!nvmlDeviceGetHandleByIndex_v2(0, &card)) nvmlDeviceGetMemoryInfo(card, &info);
  return info.total;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : nvmlInit_v2(); }
int cuDriverGetVersion(int *to) { *to = 12040; return SUCCESS; }
int cuDeviceGetCount(int *to) { *to = 1; return SUCCESS; }
int cuDeviceGet(int *to, int ordinal) { *to = 0; return ordinal ? INVALID_VALUE : SUCCESS; }
int cuDeviceGetAttribute(int *to, int which, int device) {
  *to = which == 16 ? PROCESSORS : which == 39 ? THREADS_OF_A_PROCESSOR : 0;
  return device ? INVALID_VALUE : SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *to, int device) { *to = capacity(); return device ? INVALID_VALUE : SUCCESS; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *total = capacity(); *free = *total - used; return SUCCESS; }

int cuDevicePrimaryCtxRetain(void **to, int device) { contexts++; *to = &contexts; return device ? INVALID_VALUE : SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { contexts--; return device ? INVALID_VALUE : SUCCESS; }
int cuCtxCreate_v2(void **to, unsigned flags, int device) { (void)flags; return cuDevicePrimaryCtxRetain(to, device); }
int cuCtxSetCurrent(void *context) { return context == &contexts ? SUCCESS : INVALID_CONTEXT; }
int cuCtxGetCurrent(void **to) { *to = contexts ? &contexts : NULL; return SUCCESS; }
int cuCtxGetDevice(int *to) { *to = 0; return contexts ? SUCCESS : INVALID_CONTEXT; }

int cuMemAlloc_v2(unsigned long long *to, size_t size) {
  int code = OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  for (unsigned slot = 0; used + size <= capacity() && slot < MOST_ALLOCATIONS; slot++)
    if (!sizes[slot]) {
      used += sizes[slot] = size;
      *to = (slot + 1ull) << 44;
      code = SUCCESS;
      break;
    }
  pthread_mutex_unlock(&lock);
  return code;
}
int cuMemFree_v2(unsigned long long address) {
  unsigned long long slot = (address >> 44) - 1;
  if (slot >= MOST_ALLOCATIONS || !sizes[slot]) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  used -= sizes[slot];
  sizes[slot] = 0;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

int cuModuleLoadData(void **to, const char *ptx) {
  snprintf(module, sizeof module, "%s", ptx);
  *to = module;
  return strstr(module, ".version") ? SUCCESS : INVALID_PTX;
}
int cuModuleGetFunction(void **to, void *of, const char *name) {
  char entry[80];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  *to = strstr(of, entry);
  return *to ? SUCCESS : NOT_FOUND;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
  (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
  if (!function || !contexts) return INVALID_CONTEXT;
  long long blocks = (long long)x * y * z, waves = (blocks - 1) / (PROCESSORS * BLOCKS_AT_A_TIME) + 1;
  pthread_mutex_lock(&lock);
  long long at = now(), start = at > finished ? at : finished;
  finished = start + waves * *(unsigned *)parameters[1] * NS_OF_A_ROUND;
  kernels[launched % MOST_KERNELS].start = start;
  kernels[launched++ % MOST_KERNELS].end = finished;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
int cuCtxSynchronize(void) {
  struct timespec until = {finished / NS, finished % NS};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) continue;
  return SUCCESS;
}

struct process { unsigned pid; unsigned long long used; };
int nvmlDeviceGetComputeRunningProcesses(void *card, unsigned *count, struct process *to) {
  unsigned room = *count, there = contexts > 0;
  (void)card;
  *count = there;
  if (there > room) return NVML_INSUFFICIENT_SIZE;
  if (there) *to = (struct process){getpid(), used};
  return SUCCESS;
}
struct sample { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *card, struct sample *to, unsigned *count, unsigned long long since) {
  long long end = now(), begin = end - NS, busy = 0;
  (void)card, (void)since;
  if (!*count) return NVML_INSUFFICIENT_SIZE;
  pthread_mutex_lock(&lock);
  for (unsigned one = launched > MOST_KERNELS ? launched - MOST_KERNELS : 0; one != launched; one++) {
    long long from = kernels[one % MOST_KERNELS].start, to_ = kernels[one % MOST_KERNELS].end;
    from = from > begin ? from : begin;
    to_ = to_ < end ? to_ : end;
    busy += to_ > from ? to_ - from : 0;
  }
  pthread_mutex_unlock(&lock);
  *to = (struct sample){getpid(), 0, busy * 100 / NS, 0, 0, 0};
  *count = 1;
  return SUCCESS;
}
