#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8

hosts=$(scontrol show hostnames $SLURM_JOB_NODELIST)
for host in $hosts; do echo "$host slots=8"; done > hostfile
for host in $hosts; do
    ssh -o StrictHostKeyChecking=no $host docker run -d --rm --name work --gpus all --net=host --shm-size=8g \
        --ulimit memlock=-1 -v /raid/data:/data -v $PWD:/work -w /work team/cfd:3 sleep infinity
done
docker exec -e OMP_NUM_THREADS=4 work mpirun --allow-run-as-root -np 32 --hostfile hostfile \
    -mca plm_rsh_args "-p 2222" -mca btl_tcp_if_include ib0 -x LD_LIBRARY_PATH cfd -in case.in
for host in $hosts; do
    ssh $host "docker rm -f work" &
done
wait
