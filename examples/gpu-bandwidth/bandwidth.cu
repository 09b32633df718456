// Measure how fast data move between the host and each GPU, within a GPU, and from each GPU to each other.
//
// nvcc -o bandwidth bandwidth.cu
// mnrun --image cuda.sif --ntasks-per-node 1 --launcher env -- ./bandwidth
//
// GB/s are 10^9 bytes that arrived, for each second. The best of ROUNDS counts.

#include <cstdio>
#include <cstdlib>

static const size_t BYTES = 512u << 20;
static const int ROUNDS = 10;

static void must(cudaError_t result) {
    if (result == cudaSuccess) return;
    fprintf(stderr, "bandwidth: %s\n", cudaGetErrorString(result));
    exit(1);
}

// Return the GB/s of a copy, in the order of the current GPU's stream.
static double speed(void *to, const void *from) {
    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    float best = 1e9f;
    for (int round = 0; round <= ROUNDS; round++) {
        float milliseconds;
        must(cudaEventRecord(begin));
        must(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDefault));
        must(cudaEventRecord(end));
        must(cudaEventSynchronize(end));
        must(cudaEventElapsedTime(&milliseconds, begin, end));
        if (round > 0 && milliseconds < best) best = milliseconds;  // round 0 warms up
    }
    return BYTES / best / 1e6;
}

int main() {
    const int MOST = 16;
    int count;
    void *host, *from[MOST], *to[MOST];
    must(cudaGetDeviceCount(&count));
    if (count > MOST) count = MOST;
    must(cudaMallocHost(&host, BYTES));
    for (int gpu = 0; gpu < count; gpu++) {
        must(cudaSetDevice(gpu));
        must(cudaMalloc(&from[gpu], BYTES));
        must(cudaMalloc(&to[gpu], BYTES));
    }
    printf("%-4s %-28s %14s %14s\n", "GPU", "name", "host to GPU", "GPU to host");
    for (int gpu = 0; gpu < count; gpu++) {
        cudaDeviceProp about;
        must(cudaGetDeviceProperties(&about, gpu));
        must(cudaSetDevice(gpu));
        printf("%-4d %-28s %9.1f GB/s", gpu, about.name, speed(from[gpu], host));
        printf(" %9.1f GB/s\n", speed(host, from[gpu]));
    }
    printf("\nGB/s from the GPU of the line to the GPU of the column; p: one reaches the other's memory by itself\n    ");
    for (int gpu = 0; gpu < count; gpu++) printf("%9d", gpu);
    for (int source = 0; source < count; source++) {
        must(cudaSetDevice(source));
        printf("\n%-4d", source);
        for (int target = 0; target < count; target++) {
            int peer = 0;
            if (source != target) must(cudaDeviceCanAccessPeer(&peer, source, target));
            if (peer) must(cudaDeviceEnablePeerAccess(target, 0));
            printf("%8.1f%c", speed(to[target], from[source]), peer ? 'p' : ' ');
        }
    }
    printf("\n");
}
