/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi-ext.h: extensions of this library to MPI, with the names that other implementations use.
 */
#ifndef OPAL_MPI_EXT_H
#define OPAL_MPI_EXT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with support for GPU memory.  MPIX_Query_cuda_support() says whether this process can use it. */
#define MPIX_CUDA_AWARE_SUPPORT 1

/* Returns 1 if buffers of all functions, and windows, may be GPU memory; 0 if there is no CUDA driver or gpu_use is
 * off. Requires: MPI_Init has been called.  Thread-safe. */
int MPIX_Query_cuda_support(void);

#ifdef __cplusplus
}
#endif
#endif /* OPAL_MPI_EXT_H */
