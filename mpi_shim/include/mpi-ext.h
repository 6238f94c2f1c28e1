/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi-ext.h: what MPI programs ask of this library beyond the standard, under the names that other implementations use.
 */
#ifndef OPAL_MPI_EXT_H
#define OPAL_MPI_EXT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The library can be passed pointers to GPU memory; whether it can here and now MPIX_Query_cuda_support() tells. */
#define MPIX_CUDA_AWARE_SUPPORT 1

/* 1: buffers of all functions, and windows, may be GPU memory; 0: there is no CUDA driver, or gpu_use is off.
 * After MPI_Init.  From any thread. */
int MPIX_Query_cuda_support(void);

#ifdef __cplusplus
}
#endif
#endif /* OPAL_MPI_EXT_H */
