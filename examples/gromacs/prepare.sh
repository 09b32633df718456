#!/bin/sh
# A box of water for mdrun: water.tpr, from the data of the image's own GROMACS.
set -eu
cat >topol.top <<'END'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
END
cat >water.mdp <<'END'
integrator  = md
nsteps      = 50
dt          = 0.002
nstcalcenergy = 10
nstenergy   = 50
nstlog      = 50
coulombtype = PME
rcoulomb    = 0.9
rvdw        = 0.9
tcoupl      = no
gen-vel     = yes
gen-temp    = 300
gen-seed    = 1
END
{
  gmx_mpi solvate -cs spc216.gro -box 3.72412 3.72412 3.72412 -o water.gro -p topol.top
  gmx_mpi grompp -f water.mdp -c water.gro -p topol.top -o water.tpr -po all.mdp
} >prepare.log 2>&1
