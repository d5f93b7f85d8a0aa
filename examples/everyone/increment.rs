//! Increments numbers in page-locked memory by a kernel, through the CUDA driver API.
//!
//! It needs rustc alone: the linker finds libcuda.so, which is NVIDIA's driver or the software GPU.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::null_mut;

const N: usize = 1000;
const MAPPED: c_uint = 2; // CU_MEMHOSTALLOC_DEVICEMAP

#[link(name = "cuda")]
extern "C" {
    fn cuInit(flags: c_uint) -> c_int;
    fn cuGetErrorName(code: c_int, name: *mut *const c_char) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int;
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int;
    fn cuCtxSetCurrent(context: *mut c_void) -> c_int;
    fn cuCtxSynchronize() -> c_int;
    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int;
    fn cuModuleGetFunction(kernel: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int;
    fn cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    fn cuMemHostGetDevicePointer_v2(device: *mut u64, host: *mut c_void, flags: c_uint) -> c_int;
    fn cuMemFreeHost(host: *mut c_void) -> c_int;
    fn cuLaunchKernel(
        kernel: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared: c_uint, stream: *mut c_void, args: *mut *mut c_void, extra: *mut *mut c_void,
    ) -> c_int;
}

/// Ends the program if a call failed.
fn check(what: &str, code: c_int) {
    if code != 0 {
        let mut name: *const c_char = null_mut();
        let text = match unsafe { cuGetErrorName(code, &mut name) } {
            0 => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            _ => code.to_string(),
        };
        panic!("{what}: {text}");
    }
}

fn main() {
    let ptx = concat!(include_str!("increment.ptx"), "\0");
    let (mut context, mut module, mut kernel) = (null_mut(), null_mut(), null_mut());
    let (mut host, mut device, mut count) = (null_mut(), 0u64, N as u64);
    // Safe as long as the types above are those of cuda.h, and the kernel has ended before the memory is read.
    unsafe {
        check("cuInit", cuInit(0));
        check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&mut context, 0));
        check("cuCtxSetCurrent", cuCtxSetCurrent(context));
        check("cuModuleLoadData", cuModuleLoadData(&mut module, ptx.as_ptr().cast()));
        check("cuModuleGetFunction", cuModuleGetFunction(&mut kernel, module, c"increment".as_ptr()));
        check("cuMemHostAlloc", cuMemHostAlloc(&mut host, 4 * N, MAPPED));
        check("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer_v2(&mut device, host, 0));
        let numbers = std::slice::from_raw_parts_mut(host.cast::<f32>(), N);
        numbers.fill(41.0);

        let mut args = [(&mut device as *mut u64).cast(), (&mut count as *mut u64).cast()];
        let blocks = N.div_ceil(256) as c_uint;
        check("cuLaunchKernel", cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, null_mut(), args.as_mut_ptr(), null_mut()));
        check("cuCtxSynchronize", cuCtxSynchronize()); // without it, numbers[0] may still be 41

        println!("{:.1}", numbers.iter().sum::<f32>() / N as f32);
        check("cuMemFreeHost", cuMemFreeHost(host));
        check("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    }
}
