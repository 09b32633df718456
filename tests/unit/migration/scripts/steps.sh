#!/bin/bash
#SBATCH -N 2
#SBATCH -n 8
OPTS="--nv --cleanenv"
trap 'echo ended' EXIT

cat > inner.sh <<EOF
srun singularity exec other.sif ./inner
EOF
srun -n 1 --container-image=team/prep:1 --container-name=prep ./prep
srun -n 8 --container-name=prep ./main
srun apptainer exec $OPTS app.sif bash <<'EOF'
echo "it's here"
EOF
srun -N 1 apptainer exec $OPTS app.sif ./left &
srun -N 1 apptainer exec app.sif ./right &
wait
# srun apptainer exec app.sif ./not-any-more
srun --multi-prog programs.conf
ssh node9 "docker run team/app:1 ./remote"
exec srun --container-image $UNKNOWN --container-env=A,B --export=ALL,C=1 ./last
