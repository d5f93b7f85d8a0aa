// Does the driver read or write page-locked memory by the CPU in an asynchronous copy? Each
// copy is made in a process of its own, with all pages of the host memory protected.
//
//   g++ -O1 -o protect protect.cc -lcuda
//   ./protect
//
// A line has the codes of the copy and of the wait, or the signal that ended the process.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void one(size_t n, int in, int alloc) {
  CUdevice d; CUcontext c; CUdeviceptr p; CUstream s; void* h;
  if (cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c)) exit(90);
  size_t room = 2 << 20;
  if (alloc) { if (cuMemHostAlloc(&h, room, CU_MEMHOSTALLOC_PORTABLE)) exit(91); }
  else { h = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(h, 1, room);
         if (cuMemHostRegister(h, room, CU_MEMHOSTREGISTER_PORTABLE)) exit(92); }
  memset(h, 1, room);
  if (cuMemAlloc(&p, room) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemsetD8(p, 7, room) || cuCtxSynchronize()) exit(93);
  if (mprotect(h, room, PROT_NONE)) exit(94);
  CUresult r = in ? cuMemcpyHtoDAsync(p, h, n, s) : cuMemcpyDtoHAsync(h, p, n, s);
  CUresult w = cuStreamSynchronize(s);
  if (mprotect(h, room, PROT_READ | PROT_WRITE)) exit(95);
  int right = 1;
  if (!in) for (size_t i = 0; i < n; i++) if (((char*)h)[i] != 7) right = 0;
  printf("copy %d, wait %d, data %s", r, w, right ? "right" : "WRONG"); fflush(stdout);
  exit(0);
}
int main() {
  size_t sizes[] = {4, 4096, 65536, 1 << 20};
  for (int alloc = 0; alloc < 2; alloc++) for (int in = 0; in < 2; in++) for (int i = 0; i < 4; i++) {
    printf("%-10s %s %8zu bytes: ", alloc ? "HostAlloc" : "registered", in ? "in " : "out", sizes[i]); fflush(stdout);
    pid_t pid = fork(); if (!pid) one(sizes[i], in, alloc);
    int st; waitpid(pid, &st, 0);
    if (WIFSIGNALED(st)) printf("signal %d\n", WTERMSIG(st)); else printf(" (exit %d)\n", WEXITSTATUS(st));
  }
}
