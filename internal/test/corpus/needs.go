package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// needs returns the first header of a file that is neither of the project nor known, or "". clang
// lists the headers, for the host and for the device. It gets no folders of the system, so that the
// result does not depend on what is installed.
func (f *file) needs(ctx context.Context, clang, root string) (string, error) {
	for _, mode := range []string{"--cuda-host-only", "--cuda-device-only"} {
		args := []string{"-x", "cuda", mode, "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent",
			"-nostdinc", "-nostdinc++", "-nobuiltininc", "-std=c++17", "-w", "-M", "-MG", "-MT", "all", "-ferror-limit=0"}
		include, define := f.options(root)
		for _, dir := range include {
			args = append(args, "-I", dir)
		}
		for _, d := range define {
			args = append(args, "-D"+d)
		}
		cmd := exec.CommandContext(ctx, clang, append(args, "--", filepath.Join(root, f.path))...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if _, exit := err.(*exec.ExitError); err != nil && !exit {
			return "", err
		}
		if err != nil && len(out) == 0 {
			return "an error before compilation", nil
		}
		for _, name := range strings.Fields(strings.ReplaceAll(string(out), "\\\n", " ")) {
			if name != "all:" && !strings.HasPrefix(name, root+"/") && !knownHeader(name) {
				return name, nil
			}
		}
	}
	return "", nil
}

// knownHeader reports whether a header belongs to C, C++, POSIX or Linux, or to what the toolkit
// has without a library: the language, the runtime and the driver.
func knownHeader(name string) bool {
	for _, list := range []string{cHeaders, cxxHeaders, posixHeaders, cudaHeaders} {
		if slices.Contains(strings.Fields(list), name) {
			return true
		}
	}
	return false
}

const (
	cHeaders = `assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
		setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
		stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h`
	cxxHeaders = `algorithm any array atomic bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono
		cinttypes ciso646 climits clocale cmath codecvt compare complex condition_variable csetjmp csignal
		cstdalign cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar cwchar cwctype
		deque exception execution filesystem forward_list fstream functional future initializer_list iomanip ios
		iosfwd iostream istream iterator limits list locale map memory memory_resource mutex new numeric optional
		ostream queue random ratio regex scoped_allocator set shared_mutex sstream stack stdexcept streambuf
		string string_view strstream system_error thread tuple type_traits typeindex typeinfo unordered_map
		unordered_set utility valarray variant vector numbers span`
	posixHeaders = `alloca.h arpa/inet.h byteswap.h dirent.h dlfcn.h endian.h err.h error.h execinfo.h fcntl.h features.h getopt.h
		glob.h libgen.h link.h malloc.h memory.h netdb.h netinet/in.h poll.h pthread.h pwd.h regex.h sched.h search.h semaphore.h
		strings.h sys/file.h sys/ioctl.h sys/ipc.h sys/mman.h sys/param.h sys/resource.h sys/select.h sys/shm.h
		sys/signal.h sys/socket.h sys/stat.h sys/sysinfo.h sys/time.h sys/timeb.h sys/times.h sys/types.h sys/un.h sys/utsname.h
		sys/wait.h syslog.h termios.h unistd.h utime.h values.h wait.h`
	cudaHeaders = `builtin_types.h channel_descriptor.h common_functions.h cooperative_groups.h
		cooperative_groups/memcpy_async.h cooperative_groups/reduce.h cooperative_groups/scan.h cuComplex.h cuda.h
		cuda_awbarrier.h cuda_awbarrier_primitives.h cuda_bf16.h cuda_device_runtime_api.h cuda_fp16.h cuda_fp4.h
		cuda_fp6.h cuda_fp8.h cuda_pipeline.h cuda_pipeline_primitives.h cuda_profiler_api.h cuda_runtime.h
		cuda_runtime_api.h cuda_surface_types.h cuda_texture_types.h device_atomic_functions.h device_functions.h
		device_launch_parameters.h device_types.h driver_functions.h driver_types.h host_defines.h math_constants.h
		math_functions.h mma.h sm_20_atomic_functions.h sm_20_intrinsics.h sm_30_intrinsics.h
		sm_32_atomic_functions.h sm_32_intrinsics.h sm_35_atomic_functions.h sm_35_intrinsics.h
		sm_60_atomic_functions.h sm_61_intrinsics.h surface_functions.h surface_types.h texture_fetch_functions.h
		texture_types.h vector_functions.h vector_functions.hpp vector_types.h`
)
