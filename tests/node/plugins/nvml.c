/* A libnvidia-ml.so.1 for tests without a GPU: it answers what device plugins ask of NVML from text files.
 *
 * STANDIN_CARDS      a line for each card: UUID, MiB, 1 if MIG is on else 0, model
 * STANDIN_INSTANCES  a line for each MIG instance: index of the card, position on it, UUID, profile
 *
 * build.sh adds a function that answers NOT_SUPPORTED for each other function of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { MOST_CARDS = 16, MOST_INSTANCES = 7 };

struct device {
  char uuid[80], name[80];
  unsigned long long mib;
  int mig;
  unsigned card;
  struct device *whole; /* NULL for a card itself */
};
struct memory { unsigned long long total, free, used; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static struct device cards[MOST_CARDS], instances[MOST_CARDS][MOST_INSTANCES];
static unsigned count;

static FILE *open_named(const char *variable) {
  const char *path = getenv(variable);
  return path ? fopen(path, "r") : NULL;
}

int nvmlInit_v2(void) {
  FILE *file = open_named("STANDIN_CARDS");
  if (!file) return NOT_FOUND;
  /* Other threads use the cards meanwhile. */
  unsigned found = 0;
  for (; found < MOST_CARDS; found++) {
    struct device one = {.card = found};
    if (fscanf(file, "%79s %llu %d %79[^\n]", one.uuid, &one.mib, &one.mig, one.name) != 4) break;
    cards[found] = one;
  }
  count = found;
  fclose(file);
  return SUCCESS;
}
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : code ? "Error" : "Success"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { snprintf(to, size, "550.54.15"); return SUCCESS; }
int nvmlSystemGetNVMLVersion(char *to, unsigned size) { snprintf(to, size, "12.550.54.15"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = 12040; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion(int *to) { return nvmlSystemGetCudaDriverVersion_v2(to); }

int nvmlDeviceGetCount_v2(unsigned *to) { *to = count; return SUCCESS; }
int nvmlDeviceGetCount(unsigned *to) { return nvmlDeviceGetCount_v2(to); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **to) {
  if (index >= count) return INVALID_ARGUMENT;
  *to = &cards[index];
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex(unsigned index, struct device **to) { return nvmlDeviceGetHandleByIndex_v2(index, to); }
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **to) {
  for (unsigned index = 0; index < count; index++)
    if (!strcmp(cards[index].uuid, uuid)) return nvmlDeviceGetHandleByIndex_v2(index, to);
  return NOT_FOUND;
}
int nvmlDeviceGetUUID(struct device *of, char *to, unsigned size) { snprintf(to, size, "%s", of->uuid); return SUCCESS; }
int nvmlDeviceGetName(struct device *of, char *to, unsigned size) { snprintf(to, size, "%s", of->name); return SUCCESS; }
int nvmlDeviceGetIndex(struct device *of, unsigned *to) { *to = of->card; return SUCCESS; }
int nvmlDeviceGetMinorNumber(struct device *of, unsigned *to) { *to = of->card; return SUCCESS; }
int nvmlDeviceGetMemoryInfo(struct device *of, struct memory *to) {
  to->total = to->free = of->mib << 20;
  to->used = 0;
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(struct device *of, int *major, int *minor) {
  (void)of;
  *major = 8;
  *minor = 0;
  return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(struct device *of, struct pci *to) {
  memset(to, 0, sizeof *to);
  to->bus = of->card + 1;
  snprintf(to->legacy, sizeof to->legacy, "0000:%02x:00.0", to->bus);
  snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02x:00.0", to->bus);
  return SUCCESS;
}
int nvmlDeviceGetPciInfo_v2(struct device *of, struct pci *to) { return nvmlDeviceGetPciInfo_v3(of, to); }
int nvmlDeviceGetPciInfo(struct device *of, struct pci *to) { return nvmlDeviceGetPciInfo_v3(of, to); }

int nvmlDeviceIsMigDeviceHandle(struct device *of, unsigned *to) { *to = of->whole != NULL; return SUCCESS; }
int nvmlDeviceGetMigMode(struct device *of, unsigned *current, unsigned *pending) {
  *current = *pending = (unsigned)of->mig;
  return of->whole ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(struct device *of, unsigned *to) { *to = of->mig ? MOST_INSTANCES : 0; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *of, unsigned index, struct device **to) {
  FILE *file = open_named("STANDIN_INSTANCES");
  unsigned card, position;
  char uuid[80], profile[32];
  int code = NOT_FOUND;
  while (file && fscanf(file, "%u %u %79s %31s", &card, &position, uuid, profile) == 4) {
    if (card != of->card || position != index || index >= MOST_INSTANCES) continue;
    struct device *one = &instances[card][position];
    snprintf(one->uuid, sizeof one->uuid, "%s", uuid);
    snprintf(one->name, sizeof one->name, "%.40s MIG %s", of->name, profile);
    one->card = card;
    one->whole = of;
    *to = one;
    code = SUCCESS;
    break;
  }
  if (file) fclose(file);
  return code;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *of, struct device **to) { *to = of->whole; return SUCCESS; }
