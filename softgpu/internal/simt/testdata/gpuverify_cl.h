// The work-items of OpenCL for clang -x cl without libclc, for TestGPUVerify.
#define barrier(flags) __asm__ volatile("bar.sync 0;" ::: "memory")
#define work_group_barrier(flags) barrier(flags)
#define mem_fence(flags) __asm__ volatile("fence.acq_rel.gpu;" ::: "memory")
#define read_mem_fence(flags) mem_fence(flags)
#define write_mem_fence(flags) mem_fence(flags)
#define GV_DIM(n, r)                                                                              \
    static inline unsigned gv_##n(unsigned d) {                                                   \
        return d == 0 ? __nvvm_read_ptx_sreg_##r##_x() : d == 1 ? __nvvm_read_ptx_sreg_##r##_y() \
                                                                : __nvvm_read_ptx_sreg_##r##_z(); \
    }
GV_DIM(thread, tid)
GV_DIM(threads, ntid)
GV_DIM(block, ctaid)
GV_DIM(blocks, nctaid)
#define get_local_id(d) gv_thread(d)
#define get_group_id(d) gv_block(d)
#define get_local_size(d) gv_threads(d)
#define get_num_groups(d) gv_blocks(d)
#define get_global_id(d) (gv_block(d) * gv_threads(d) + gv_thread(d))
#define get_global_size(d) (gv_blocks(d) * gv_threads(d))
#define atomic_add(p, v) __sync_fetch_and_add(p, v)
#define atomic_sub(p, v) __sync_fetch_and_sub(p, v)
#define atomic_inc(p) __sync_fetch_and_add(p, 1)
#define atomic_dec(p) __sync_fetch_and_sub(p, 1)
#define atomic_or(p, v) __sync_fetch_and_or(p, v)
#define atomic_and(p, v) __sync_fetch_and_and(p, v)
#define atomic_xor(p, v) __sync_fetch_and_xor(p, v)
#define atomic_xchg(p, v) __sync_lock_test_and_set(p, v)
#define atomic_cmpxchg(p, c, v) __sync_val_compare_and_swap(p, c, v)
#define atom_add atomic_add
#define atom_inc atomic_inc
