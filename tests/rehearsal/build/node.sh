#!/bin/sh
# What every node has in common, whichever cluster it belongs to.
set -eu
useradd --uid 1500 --user-group --home-dir /home/alice --no-create-home --shell /bin/bash alice
useradd --uid 1501 --user-group --home-dir /home/bob --no-create-home --shell /bin/bash bob
useradd --uid 1502 --user-group --home-dir /home/carol --no-create-home --shell /bin/bash carol
groupadd --gid 1600 proj
# '*' is "no password"; the '!' of useradd means "locked", and sshd refuses such accounts.
for user in alice bob carol; do usermod --password '*' "$user"; done
for user in alice carol; do usermod --append --groups proj "$user"; done
printf 'alice:1000000:65536\nbob:1065536:65536\ncarol:1131072:65536\n' | tee /etc/subuid > /etc/subgid
# Not every site has modules: those who ask for them give the file its name back.
mv /etc/profile.d/modules.sh /etc/profile.d/modules
update-alternatives --set mpirun /usr/bin/mpirun.openmpi
install -d -o slurm -g slurm /var/log/slurm /var/spool/slurmctld /etc/slurm
install -d /var/spool/slurmd /images /opt/mnrun /etc/rehearsal
# Each cluster has its own.
rm -f /etc/ssh/ssh_host_* /etc/munge/munge.key /etc/hostname
# Refers to a systemd that does not run here, and `ssh` in a user namespace stumbles over it.
rm -f /etc/ssh/ssh_config.d/20-systemd-ssh-proxy.conf
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/locale/*
